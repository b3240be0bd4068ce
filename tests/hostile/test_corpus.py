"""Every file that once broke something, as it was, given to the command that reads it: the contract holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.contract import Contract
from tests.hostile.watched import MODELS, command_for, give_inputs

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.iterdir() if path.name != "README.md")
_SLOW = ("bundle-", "files-", "images-", "valid-images-")  # as models: read or run in a process of its own


def _case(path: Path) -> object:
    is_slow = path.suffix in MODELS or path.name.startswith(_SLOW)
    return pytest.param(path, id=path.name, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize("path", [_case(path) for path in FILES])
def test_what_once_broke_something(path: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("IMPORT", "VERIFY", "JUDGE"):
        monkeypatch.setenv(f"ANCHORPOINT_{kind}_SECONDS", "2")  # what loops for ever is known after two, too
    give_inputs(contract.folder)
    said = contract.run(*command_for(path), made=("store", "o.npz"))
    assert bool(said) != path.name.startswith("valid-"), said
