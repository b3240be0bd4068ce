"""Small files that unpack to much work: bounded in memory and time, or refused before it starts."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.contract import Contract
from tests.hostile.test_arrays import stated


def uniform(path: str, n_candidates: int, n_rows: int, n_classes: int) -> None:
    """The same probability everywhere, deflated to almost nothing."""
    row = np.full((n_rows, n_classes), 1 / n_classes, np.float32).tobytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("teacher.npy", stated(str((n_rows, n_classes))) + row)
        with archive.open("candidates.npy", "w", force_zip64=True) as file:
            file.write(stated(str((n_candidates, n_rows, n_classes))))
            for _ in range(n_candidates):
                file.write(row)
        labels = np.arange(n_rows, dtype=np.int64) % min(n_classes, 3)
        archive.writestr("labels.npy", stated(str((n_rows,)), "'<i8'") + labels.tobytes())


@pytest.mark.slow
@pytest.mark.parametrize("command", [("estimate",), ("select", "--method", "auto"), ("study", "--out", "s")])
def test_a_megabyte_that_unpacks_to_a_gigabyte(command: tuple[str, ...], contract: Contract) -> None:
    uniform("family.npz", 24, 3000, 1000)
    assert "zip bomb" in contract.run(command[0], "family.npz", *command[1:], made=("s",))


@pytest.mark.parametrize("method", ["auto", "calibrated", "coda"])
def test_twenty_thousand_classes_are_not_held_against_each_other(method: str, contract: Contract) -> None:
    uniform("family.npz", 4, 8, 20_000)
    said = contract.run("select", "family.npz", "--method", method)
    assert "every" in said
    assert "--method" in said


def test_twenty_thousand_classes_are_no_obstacle_to_rules_that_need_no_table(contract: Contract) -> None:
    uniform("family.npz", 4, 8, 20_000)
    assert contract.run("select", "family.npz", "--method", "val-ce") == ""
    assert "4,000" in contract.run("label-next", "family.npz", "--labels", _one_label())


def _one_label() -> str:
    Path("labels.csv").write_text("row,label\n0,1\n")
    return "labels.csv"
