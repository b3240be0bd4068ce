"""A family too large for the server: opened where it lies, gone through by a job, then as quick as any
other.
"""

from __future__ import annotations

import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine.decide.choose import choose, statistics_of
from engine.decide.kept import kept_arrays, statistics_from
from engine.files.npz import write_npz
from engine.predictions.file import load_predictions, save_predictions
from engine.types import LabeledSample, Predictions, UserError
from pages.ui.jobs.tasks import carry_family, weigh_family
from pages.ui.session.actions import open_predictions_folder
from pages.ui.session.grounds import brief_now
from pages.ui.show.many_classes import both_ends
from pages.ui.workspace.weighing import CARRIED, WEIGHED, stamp_of
from tests.pages.driving import go, open_app, session_of, text_of

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder, self.stages = folder, []

    def report(self, done: int, total: int, *, stage: str = "") -> None:
        self.stages.append((done, total, stage))


@pytest.fixture
def shards(tmp_path: Path, family: Predictions, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The synthetic family as a folder that counts as large."""
    save_predictions(family, tmp_path / "large")
    monkeypatch.setattr("engine.predictions.stack.BIG_BYTES", 0)
    monkeypatch.setattr("engine.recommend.hypotheses.BIG", 1)
    monkeypatch.setattr("engine.recommend.streamed._BLOCK", 20_000)
    return tmp_path / "large"


def test_choose_waits_for_the_job_and_then_answers(
    shards: Path, family: Predictions, started: list[tuple[str, dict[str, Any]]], monkeypatch: Any
) -> None:
    monkeypatch.setattr("pages.ui.session.actions._MOST_LABELS", 40)
    app = open_app()
    session = session_of(app)
    open_predictions_folder(session, str(shards))
    assert len(session.rows) == 40
    monkeypatch.setattr("pages.ui.parts.weighing.st.rerun", lambda: None)
    go(app, "choose")
    assert ("weigh", {"path": str(shards.resolve())}) in started
    assert "too large to hold" in text_of(app)
    assert "Deploy" not in text_of(app)
    with pytest.raises(UserError, match="Open Choose: it makes them"):
        _ = session.pool
    desk = Desk(session.folder)
    weigh_family(desk, str(shards))
    assert desk.stages[71] == (72, 72, "candidates gone through")
    compared = [stage for stage in desk.stages if stage[2] == "parts of the pool compared"]
    assert [done for done, *_ in compared] == list(range(1, compared[0][1] + 1))
    assert len(compared) > 1
    assert desk.stages[-5:] == [(done, 5, "looking for problems") for done in range(1, 6)]
    go(app, "choose")
    sample = LabeledSample(np.array(session.rows), np.array(session.labels))
    assert session.decision.recommended.name == choose("auto", family, sample).name
    assert session.decision.recommended.name in text_of(app)
    go(app, "collapse")


def test_other_class_shares_need_the_job_again(
    shards: Path, family: Predictions, started: list[tuple[str, dict[str, Any]]], monkeypatch: Any
) -> None:
    """What was prepared for unknown class shares does not answer for stated ones."""
    app = open_app()
    session = session_of(app)
    open_predictions_folder(session, str(shards))
    weigh_family(Desk(session.folder), str(shards))
    assert session.has_statistics
    session.note(class_shares="equal")
    assert not session.has_statistics
    monkeypatch.setattr("pages.ui.parts.weighing.st.rerun", lambda: None)
    go(app, "choose")
    assert ("weigh", {"path": str(shards.resolve()), "shares": "equal"}) in started
    weigh_family(Desk(session.folder), str(shards), shares="equal")
    known = replace(family, class_shares=np.full(family.n_classes, 1 / family.n_classes))
    sample = LabeledSample(np.array(session.rows), np.array(session.labels))
    assert session.decision.recommended.name == choose("auto", known, sample).name


def test_transport_is_the_work_of_a_job(
    shards: Path, started: list[tuple[str, dict[str, Any]]], monkeypatch: Any
) -> None:
    monkeypatch.setattr("pages.ui.session.actions._MOST_LABELS", 40)
    monkeypatch.setattr("pages.ui.parts.weighing.st.rerun", lambda: None)
    app = open_app()
    session = session_of(app)
    open_predictions_folder(session, str(shards))
    desk = Desk(session.folder)
    weigh_family(desk, str(shards))
    session.note(has_transport=True)
    go(app, "choose")
    assert ("carry", {"path": str(shards.resolve())}) in started
    assert "cot" not in session.decision.choices
    monkeypatch.setattr("engine.rules.transport.transport_cost", lambda probs: float(probs[0, 0]))
    n_candidates = session.require_predictions().n_candidates
    made = np.array([float(probs[0, 0]) for probs in session.require_predictions().candidates])
    made[3:] = np.nan  # as an interrupted job leaves them
    write_npz(session.folder / CARRIED, {"transport": made, "stamp": np.array(stamp_of(shards.resolve()))})
    assert not session.has_transport
    desk.stages.clear()
    carry_family(desk, str(shards.resolve()))
    assert [done for done, *_ in desk.stages] == list(range(4, n_candidates + 1))
    assert session.decision.choices["cot"].scores[5] == session.pool.transport[5]
    go(app, "choose")
    assert "Optimal transport" in text_of(app)


def test_other_predictions_need_their_own_numbers(shards: Path, tmp_path: Path) -> None:
    app = open_app()
    session = session_of(app)
    open_predictions_folder(session, str(shards))
    weigh_family(Desk(session.folder), str(shards))
    assert session.has_statistics
    (shards / "meta.json").touch()
    assert not session.has_statistics
    session.restart()
    assert not (session.folder / "weighed.npz").exists()
    assert (shards / "meta.json").exists()


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """50,000 images of 250 classes, 100 MB for one model in float64: 1,000 images again and again."""
    rng, repeats = np.random.default_rng(0), 50
    probs = rng.dirichlet(np.full(250, 0.1), (4, 1000)).astype(np.float16)
    labels = rng.integers(0, 250, 1000)
    names = ("a", "b", "c")
    part = Predictions(
        teacher=probs[0], candidates=probs[1:], labels=labels, names=names, calibration=500, cost=np.ones(3)
    )
    whole = replace(
        part,
        teacher=np.tile(probs[0], (repeats, 1)),
        candidates=np.tile(probs[1:], (1, repeats, 1)),
        labels=np.tile(labels, repeats),
    )
    save_predictions(whole, tmp_path / "wide")
    # so that what is held at a time is small beside one model
    for module in ("labeled", "calibrated", "shares"):
        monkeypatch.setattr(f"engine.recommend.{module}.AT_ONCE", 1 << 19)
    monkeypatch.setattr("engine.decide.gate._POOL_VALUES", 1 << 19)
    monkeypatch.setattr("engine.predictions.stack.BIG_BYTES", 0)
    monkeypatch.setattr("engine.recommend.hypotheses.BIG", 1)
    monkeypatch.setattr("pages.ui.session.actions._MOST_LABELS", 60)
    kept = kept_arrays(statistics_of(part))
    for name in ("confidence", "neg_entropy", "predicted", "contest"):
        kept[name] = np.concatenate([kept[name]] * repeats, axis=-1)
    stamp = np.array(stamp_of(tmp_path / "wide"))
    write_npz(tmp_path / "weighed.npz", {**kept, "problems": np.array([], dtype=str), "stamp": stamp})
    return tmp_path / "wide"


@pytest.mark.slow
def test_no_page_makes_an_array_of_all_images_and_classes(wide: Path) -> None:
    app = open_app()
    session = session_of(app)
    open_predictions_folder(session, str(wide))
    shutil.copy(wide.parent / WEIGHED, session.folder / WEIGHED)
    peaks = {}
    tracemalloc.start()
    for page in ("choose", "target", "labels", "compare", "collapse", "export"):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        go(app, page)
        peaks[page] = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    assert brief_now(session).sign_off
    peaks["report"] = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert max(peaks.values()) < 0.75 * 50_000 * 250 * 8, peaks


def test_a_path_that_is_not_there_or_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(open_app())
    for where in ("", "  ", str(tmp_path / "nowhere")):
        with pytest.raises(UserError, match="is not there"):
            open_predictions_folder(session, where)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="unfinished or no predictions folder"):
        open_predictions_folder(session, str(tmp_path / "empty"))
    monkeypatch.setenv("ANCHORPOINT_DEMO", "1")
    with pytest.raises(UserError, match="reads no files of its server"):
        open_predictions_folder(session_of(open_app()), str(tmp_path))


def test_kept_statistics_decide_as_fresh_ones(shards: Path) -> None:
    predictions = load_predictions(shards)
    kept = statistics_from(predictions, kept_arrays(statistics_of(predictions)))
    for method in ("distortion", "atc-ne", "nuclear-norm", "softmax-corr", "auto"):
        np.testing.assert_array_equal(
            choose(method, predictions, pool=kept).scores, choose(method, predictions).scores
        )
    with pytest.raises(ValueError, match="the predictions"):
        statistics_from(predictions, {**kept_arrays(kept), "confidence": np.zeros((2, 2))})


def test_a_thousand_classes_show_both_ends() -> None:
    counts = pd.DataFrame(
        {"class": [f"c{k}" for k in range(1000)], "order": range(1000), "labels": range(1000)}
    )
    ends = both_ends(counts)
    assert len(ends) == 40
    assert list(ends["labels"])[:2] == [999, 998]
    assert list(ends["labels"])[-1] == 0
    assert list(ends["order"]) == list(range(40))
    assert both_ends(counts.head(40)) is not None
    assert len(both_ends(counts.head(40))) == 40
