"""`app`: the command that serves the window, and what it refuses."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from engine.__main__ import main
from engine.commands import app


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have taken this process's place."""
    calls: list[list[str]] = []

    def execv(program: str, command: list[str]) -> None:
        calls.append(command)
        raise SystemExit(0)

    monkeypatch.setattr("os.execv", execv)
    return calls


def test_it_serves_the_app_beside_the_engine(started: list[list[str]]) -> None:
    with pytest.raises(SystemExit):
        main(["app", "--port", "8600", "--address", "0.0.0.0", "--headless"])
    (command,) = started
    assert command[:5] == [sys.executable, "-m", "streamlit", "run", str(app.APP)]
    options = ["--server.port", "8600", "--server.address", "0.0.0.0", "--server.headless", "true"]
    assert command[5:] == options
    assert app.APP.name == "app.py"


def test_the_defaults_are_streamlits_own(started: list[list[str]]) -> None:
    with pytest.raises(SystemExit):
        main(["app"])
    assert len(started[0]) == 5


def test_a_port_that_is_none_is_refused(started: list[list[str]], capsys: Any) -> None:
    assert main(["app", "--port", "70000"]) == 2
    assert "from 1 to 65535" in capsys.readouterr().err
    assert not started


def test_a_package_without_the_window_says_so(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any
) -> None:
    monkeypatch.setattr(app, "APP", tmp_path / "app.py")
    assert main(["app"]) == 2
    assert "Install the package again" in capsys.readouterr().err


def test_hints_name_the_command_that_was_typed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/anchorpoint"])
    assert main(["select", "--nonsense"]) == 2
    assert "See anchorpoint select --help." in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["engine/__main__.py"])
    assert main(["select", "--nonsense"]) == 2
    assert "See python -m engine select --help." in capsys.readouterr().err
