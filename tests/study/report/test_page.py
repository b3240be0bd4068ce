"""The report is one whole page without scripts or outside resources, escapes what it is given, and the
command writes it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.__main__ import main
from engine.commands.study import _config, add_arguments
from engine.predictions.file import save_predictions
from engine.study.protocol.active import ACTIVE
from engine.study.protocol.config import STUDY_RULES, StudyConfig
from engine.study.protocol.result import Skipped, StudyResult
from engine.study.protocol.run import run_study
from engine.study.report.evidence import command
from engine.study.report.page import write_report
from engine.study.tables.numbers import cell, to_markdown
from tests.study.families import make_family

CONFIG = StudyConfig(
    budgets=(5, 10),
    rates=(0.0, 0.2),
    repetitions=2,
    memory_budgets=(None, 0.2),
    anchors=("pool", "cot"),
    floors=(1e-8, 1e-12),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("study")
    files, lines = [], ["family,setting,shift,seed,execution"]
    for seed in range(4):
        name = f"<script>x{seed}"
        save_predictions(make_family(seed, n_pool=30), folder / f"{name}.npz")
        files.append(folder / f"{name}.npz")
        lines.append(f"{name},{'A & B' if seed < 3 else 'C'},shift{seed % 2},{seed},0")
    (folder / "groups.csv").write_text("\n".join(lines))
    result = run_study(files, folder / "out", CONFIG, groups=folder / "groups.csv", workers=1)
    result = replace(result, skipped=(Skipped("<b>bad</b>", "its name is <i>odd</i>"),))
    write_report(result)
    return result


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src", "xlink:href"):
                self.links.append(str(value))


def test_report_is_self_contained_and_escaped(study: StudyResult) -> None:
    text = (study.out / "report.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    assert page.tags["script"] == 0
    assert page.tags["svg"] >= 7
    assert page.tags["b"] == 1  # ours, not the family's
    assert "&lt;b&gt;bad&lt;/b&gt;" in text
    assert all(link.startswith("#") for link in page.links)
    assert not re.findall(r"(?:src|href)=[\"']https?:", text)
    assert "@import" not in text
    assert len(page.ids) == len(set(page.ids)), "two pictures share an id"
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_every_table_and_picture_is_written(study: StudyResult) -> None:
    csv = {path.stem for path in (study.out / "tables").glob("*.csv")}
    assert csv == {path.stem for path in (study.out / "tables").glob("*.md")}
    assert {
        "floor_sensitivity",
        "anchor_placement",
        "constrained_selection",
        "between_shift_variance",
        "paired_inference",
    } <= csv | {"between_shift_variance"}
    figures = {path.stem for path in (study.out / "figures").glob("*.png")}
    assert figures == {path.stem for path in (study.out / "figures").glob("*.svg")}
    assert {
        "regret_by_budget",
        "corruption_grid",
        "regimes",
        "cost_frontier",
        "attenuation",
        "coefficients",
    } <= figures
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (study.out / "figures").glob("*.png"))


def test_evidence_repeats_the_command_and_sets_the_paper_beside_it(study: StudyResult) -> None:
    text = (study.out / "evidence.md").read_text(encoding="utf-8")
    assert "--budgets 5,10 --rates 0,0.2 --memory-budgets 0.2 --repetitions 2" in text
    assert "| paper | MobileNetV2, DomainNet |" in text
    assert text.count("## ") == 6


@pytest.mark.slow
def test_the_same_study_gives_the_same_page(study: StudyResult) -> None:
    first = (study.out / "report.html").read_bytes()
    write_report(study)
    assert (study.out / "report.html").read_bytes() == first


def test_cells_read_well() -> None:
    assert cell(0.1234567, "mean_regret") == "0.123"
    assert cell(12.3456, "spread") == "12.3"
    assert cell(np.nan, "sd") == "–"
    assert cell(np.inf, "memory_budget") == "none"
    assert cell(0.22, "memory_budget") == "22 %"
    assert cell(1.3e-15, "identity_error") == "1.3e-15"
    assert cell(7, "n") == "7"
    assert (
        to_markdown(pd.DataFrame({"rule": ["a|b"], "n": [3]}))
        == "| rule | labels |\n| --- | --- |\n| a\\|b | 3 |\n"
    )


def test_command_writes_the_study_and_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_predictions(make_family(0, n_pool=30), tmp_path / "toy.npz")
    arguments = [
        "study",
        str(tmp_path / "toy.npz"),
        str(tmp_path / "absent.npz"),
        "--out",
        str(tmp_path / "out"),
        "--budgets",
        "5,10",
    ]
    assert (
        main(
            [
                *arguments,
                "--rates",
                "0,.2",
                "--repetitions",
                "2",
                "--rules",
                "val-ce,ce-combo,distortion",
                "--workers",
                "1",
                "--json",
            ]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["families"] == ["toy"]
    assert answer["skipped"][0]["family"] == "absent"
    assert Path(answer["report"]).is_file()
    header = (tmp_path / "out" / "results.csv").read_text().splitlines()[0]
    assert header == "family,rule,n,rate,memory_budget,repetition,pick,coefficient,regret,accuracy_regret"


def test_what_was_asked_for_and_gave_no_result_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_predictions(make_family(0, n_pool=30), tmp_path / "toy.npz")
    options = [
        "--budgets",
        "1000",
        "--rules",
        "val-ce,distortion",
        "--memory-budgets",
        ".0001",
        "--workers",
        "1",
    ]
    assert main(["study", str(tmp_path / "toy.npz"), "--out", str(tmp_path / "out"), *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 family, ")
    assert "No family has as many labels as 1000" in text
    assert "no result for val-ce" in text
    assert "No candidate fits a memory budget of 0.0001" in text
    assert "Paired differences" not in text  # a title without a finding is none


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budgets", "ten"], "--budgets is 'ten'"),
        (["--rules", "magic"], "unknown rule 'magic'"),
        (["--rules", ""], "at least one value"),
        (["--rates", "many"], "e.g. 0,0.2"),
        (["--out", ""], "not a folder"),
        (["--out", "README.md"], "not a folder"),
        (["--out", "README.md/below"], "not a folder"),
        (["--workers", "0"], "--workers is 0"),
        (["--memory-budgets", "22MB"], "is a size"),
        (["--groups", "nowhere.csv"], "nowhere.csv is not a file"),
    ],
)
def test_wrong_options_are_one_line_and_exit_2(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "x.npz", "--out", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_study_loads_no_plotting_until_it_draws() -> None:
    code = (
        "import sys, engine.study.protocol.run, engine.study.tables.catalog, engine.study.report.page;"
        " print('altair' in sys.modules, 'vl_convert' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    "config",
    [
        StudyConfig(),
        StudyConfig(budgets=(5, 20), rates=(0.0, 0.4), repetitions=3, memory_budgets=(None, 0.22)),
        StudyConfig(rules=STUDY_RULES, anchors=("pool", "sample"), floors=(1e-8, 1e-6)),
        StudyConfig(rules=("ce-combo", ACTIVE)),
    ],
)
def test_the_stated_command_repeats_the_study(config: StudyConfig) -> None:
    """What the page says made it, read back by the command line, gives the same settings."""
    stated = command({"config": json.loads(json.dumps(config.to_dict())), "files": {"a": {"file": "a.npz"}}})
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert _config(parser.parse_args(stated.split()[4:])) == config
