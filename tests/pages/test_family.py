"""Families in the app: one choice with its time, a limit on time, memory against time, and bits per layer."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.family.families import make_family
from engine.predictions.file import load_predictions, make_predictions, save_predictions
from engine.teacher.request import LoadRequest
from pages.ui.session.actions import (
    family_to_run,
    load_path,
    open_predictions,
    run_family,
    start_export,
    use_images,
)
from pages.ui.session.record import Step
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.pages.ui.jobs.test_control import picture, wait_for
from tests.tiny_teacher import tiny_teacher


@pytest.mark.usefixtures("workspace", "sample_folder", "started")
def test_a_family_is_one_choice_with_its_time() -> None:
    app = with_sample(open_app())
    teacher = tiny_teacher(10, width=32)
    give_teacher(app, teacher)
    session = session_of(app)
    assert session.predictions is not None
    go(app, "candidates")
    assert "72 of 72 candidates" in text_of(app)
    app.radio(key="family").set_value("deploy").run()
    assert not app.exception
    assert session.record.family == "deploy"
    assert session.predictions is None  # what ships answers for the paper's family only
    n = len(make_family("deploy", teacher))
    assert f"{n} of {n} candidates" in text_of(app)
    session.change(keep=Step.RUN, budget=0.4)
    assert "mix-0.4" in [recipe.slug for recipe in family_to_run(session)]
    app.radio(key="family").set_value("paper").run()
    assert session.record.has_standard_grid


def deployed(tmp_path: Path) -> Path:
    """Predictions of four candidates with times, one of them mixed."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), (5, 30)).astype(np.float32)
    names = ("b4-channel-q100", "b8a8-channel-minmax", "mix-0.14", "b8-channel-q100")
    made = make_predictions(
        probs[0],
        probs[1:],
        names=names,
        cost=np.array([0.14, 0.27, 0.14, 0.26]),
        labels=rng.integers(0, 4, 30),
        latency=np.array([1.4, 0.6, 1.5, 1.2]),
        latency_spread=np.full(4, 0.05),
        latency_unpacked=np.array([1.0, np.nan, 1.0, 1.0]),
        allocation=json.dumps({"mix-0.14": {"stem": 8, "point": 3}}),
    )
    path = tmp_path / "deployed.npz"
    save_predictions(made, path)
    return path


@pytest.mark.usefixtures("workspace")
def test_a_limit_on_time_and_the_pictures(tmp_path: Path) -> None:
    app = open_app()
    session = session_of(app)
    with deployed(tmp_path).open("rb") as file:
        open_predictions(session, file, "deployed.npz")
    text = text_of(go(app, "choose"))
    assert "beaten by no other in memory, time and" in text
    assert "on the processor that ran the candidates" in text
    assert "4 of 4 candidates are within" in text
    slider = next(item for item in app.slider if str(item.key).startswith("latency-"))
    slider.set_value(0.6).run()
    assert not app.exception
    assert session.record.max_latency == 0.6
    assert session.decision.recommended.name == "b8a8-channel-minmax"
    next(item for item in app.slider if str(item.key).startswith("latency-")).set_value(1.5).run()
    assert session.record.max_latency is None
    session.change(keep=Step.CHOICE, chosen="mix-0.14")
    text = text_of(go(app, "choose"))
    assert "mix-0.14: 3 to 8 bits per weight, layer by layer" in text
    assert "with its weights kept packed in memory" in text


@pytest.mark.usefixtures("workspace")
def test_predictions_without_times_show_neither(tmp_path: Path) -> None:
    app = open_app()
    plain = replace(
        load_predictions(deployed(tmp_path)),
        latency=None,
        latency_spread=None,
        latency_unpacked=None,
        allocation=None,
    )
    save_predictions(plain, tmp_path / "plain.npz")
    with (tmp_path / "plain.npz").open("rb") as file:
        open_predictions(session_of(app), file, "plain.npz")
    text = text_of(go(app, "choose"))
    assert "beaten by no other" not in text
    assert not [item for item in app.slider if str(item.key).startswith("latency-")]


@pytest.mark.slow
def test_a_deploy_family_goes_all_the_way(workspace: Path, tmp_path: Path) -> None:
    from engine.teacher.graph import save

    save(tiny_teacher(), tmp_path / "tiny.onnx")
    with zipfile.ZipFile(tmp_path / "target.zip", "w") as archive:
        for index in range(24):
            archive.writestr(f"{index:02}.png", picture(index, 20))
    app = open_app()
    session = session_of(app)
    load_path(session, str(tmp_path / "tiny.onnx"), LoadRequest())
    wait_for(session.folder, "import", "done")
    session.change(keep=Step.LABELS, family="deploy")
    use_images(session, str(tmp_path / "target.zip"))
    wait_for(session.folder, "check", "done")
    run_family(session)
    wait_for(session.folder, "predict", "done")
    predictions = session.predictions
    assert predictions is not None
    assert "b8a8-channel-minmax" in predictions.names
    go(app, "choose")
    start_export(session, "b8a8-channel-minmax", [], {})
    wait_for(session.folder, "export", "done")
    text = text_of(go(app, "export"))
    assert "b8a8-channel-minmax" in text
    certificate = json.loads((session.folder / "export" / "certificate.json").read_text())
    assert certificate["passed"]
    assert certificate["model"]["judged"]
