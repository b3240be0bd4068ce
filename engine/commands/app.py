"""`app`: open the window. Knows where it lies and how Streamlit is started; nothing of what it shows."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from engine.types import UserError

HELP = "open the app in a browser; Ctrl-C ends it"

# Beside the engine in a checkout and in an installed package alike.
APP = Path(__file__).resolve().parents[2] / "app.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="port to listen on (default: 8501, or the next free one)")
    parser.add_argument(
        "--address", help="who may reach it, e.g. 0.0.0.0 for everybody (default: Streamlit's own)"
    )
    parser.add_argument("--headless", action="store_true", help="open no browser; for servers")


def streamlit_command(args: argparse.Namespace) -> list[str]:
    """Return the command that serves the app with these settings."""
    if args.port is not None and not 0 < args.port < 65536:
        raise UserError(f"--port is {args.port}; give a number from 1 to 65535.")
    if not APP.is_file():
        raise UserError(f"{APP.name} is missing beside the engine. Install the package again.")
    command = [sys.executable, "-m", "streamlit", "run", str(APP)]
    if args.port is not None:
        command += ["--server.port", str(args.port)]
    if args.address is not None:
        command += ["--server.address", args.address]
    return [*command, "--server.headless", "true"] if args.headless else command


def run(args: argparse.Namespace) -> NoReturn:
    """Become the server: signals and the exit code are Streamlit's own, and nothing is left behind."""
    command = streamlit_command(args)
    sys.stdout.flush()
    os.execv(command[0], command)
