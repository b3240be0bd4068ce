"""The command line, `anchorpoint` or `python -m engine`: the same functions the app calls, no second path.

`--json` prints one JSON object on stdout; logs and progress go to stderr; exit 0 = done, 1 = done, and the
answer is no or not yet (`gate`), 2 = the input is at fault, 3 = a bug of ours: one line, and the traceback in
a log that the line names (or on stderr with `--debug`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import math
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from engine import __version__
from engine.guard.logs import where, write_log
from engine.types import UserError

_LONGEST = 900  # characters of a line on stderr
COMMANDS = ("predict", "estimate", "select", "export", "verify", "study", "label-next", "gate", "app")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse prints a usage block; the contract is one clear line.
        raise UserError(f"{message}. See {self.prog} --help.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_overview())
            return 0 if arguments else 2
        if arguments[0] == "--version":
            print(__version__)
            return 0
        return _run(arguments[0], arguments[1:])
    except UserError as error:
        _say(str(error))
        return 2
    except OSError as error:
        # Checked beforehand where we can; a full disk or a folder without permission shows only when it is
        # written.
        what = f"{error.filename} " if error.filename else ""
        _say(
            f"{what}cannot be read or written ({error.strerror or error}). Check the path, its permissions"
            " and the disk."
        )
        return 2
    except MemoryError:
        print(
            "there is not enough memory for this. Give fewer images, candidates or workers.", file=sys.stderr
        )
        return 2
    except KeyboardInterrupt:
        print("Stopped. What was finished is kept; the same command goes on from there.", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001  (the one door at which a bug of ours becomes one line)
        return _report_bug(error, arguments)


def _report_bug(error: Exception, arguments: Sequence[str]) -> int:
    """Say in one line that we are at fault and where the traceback is; with --debug, show it."""
    details = "".join(traceback.format_exception(error))
    if "--debug" in arguments:
        sys.stderr.write(details)
        return 3
    log = write_log(f"{_program()} {' '.join(arguments)}\nversion {__version__}\n\n{details}")
    _say(
        f"this is a bug in Anchorpoint, not in your input ({_first_line(error)}). Please report it with the"
        f" log. {where(log)}"
    )
    return 3


def _say(text: str) -> None:
    """Print one line on stderr, whatever names from a stranger's file it quotes: no escape codes, no page of
    text.
    """
    line = _printable(" ".join(text.split()))
    if len(line) > _LONGEST:  # its end says what to do, and where the log is
        line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
    print(line, file=sys.stderr)


def _printable(text: str) -> str:
    """The same text with control characters, which a terminal would obey, shown instead."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def _run(name: str, arguments: Sequence[str]) -> int:
    command = _command(name)
    parser = _Parser(prog=f"{_program()} {name}", description=command.HELP)
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    args = parser.parse_args(arguments)
    result: dict[str, Any] = command.run(args)
    print(json.dumps(_finite(result)) if args.json else _printable(command.summary(result)))
    if result.get("failed") is not True:
        return 1 if result.get("wanting") is True else 0
    # A finished command may still have found its subject wanting: `verify` fails a pipeline this way.
    if reason := result.get("reason"):
        _say(str(reason))
    return 2


def _command(name: str) -> ModuleType:
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}. Use one of: {', '.join(COMMANDS)}.")
    return importlib.import_module(f"engine.commands.{name.replace('-', '_')}")


def _overview() -> str:
    lines = [f"  {name:<11} {_command(name).HELP}" for name in COMMANDS]
    return f"usage: {_program()} COMMAND ...\n\n" + "\n".join(lines)


def _program() -> str:
    """What the user typed to get here, so that a hint can be typed again."""
    return "anchorpoint" if Path(sys.argv[0]).stem == "anchorpoint" else "python -m engine"


def _finite(value: Any) -> Any:
    """JSON has no nan: a missing score is null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
