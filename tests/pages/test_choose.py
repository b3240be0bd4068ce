"""The Choose page: gated, recommends first, obeys the budget, computes once, and lets a person overrule."""

from __future__ import annotations

import gc
import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.decide.choose import choose
from engine.predictions.file import save_predictions
from engine.types import LabeledSample, Predictions
from pages.ui.session.labels import mark, reveal_labels, undo
from pages.ui.session.record import Step
from pages.ui.show.words import share
from pages.ui.workspace.folder import write_bytes
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the engine was asked."""
    calls = {"decide": 0, "statistics_of": 0}

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return real(*args, **kwargs)

        return call

    from pages.ui.session import evidence

    for name in calls:
        monkeypatch.setattr(evidence, name, counting(name, getattr(evidence, name)))
    return calls


def test_cold_page_says_what_it_needs() -> None:
    app = go(open_app(), "choose")
    assert "needs predictions" in text_of(app)
    assert not app.subheader


def test_recommends_what_the_engine_picks(family: Predictions) -> None:
    app = go(with_sample(open_app()), "choose")
    session = session_of(app)
    rows, labels = np.array(session.rows), np.array(session.labels)
    assert np.array_equal(labels, family.labels[rows])
    method = session.decision.recommended.method
    expected = choose(method, family, LabeledSample(rows, labels)).name
    head = app.subheader[0].value.replace("\\", "")
    assert head in (f"Deploy {expected}", f"Best so far: {expected}")  # as the evidence carries it
    assert "25 labels" in text_of(app)


def test_a_rerun_computes_nothing(counted: dict[str, int]) -> None:
    app = go(with_sample(open_app()), "choose")
    before = dict(counted)
    assert before["decide"] == 1
    go(app.run().run(), "collapse")
    go(app, "choose")
    assert counted == before


def test_budget_restricts_the_pick_and_answers_fast(counted: dict[str, int]) -> None:
    app = go(with_sample(open_app()), "choose")
    app.slider[0].set_value(35).run()  # warm: the first picture of a process loads the chart library
    spent = []
    # Streamlit collects garbage after every run, and other tests' frameworks are not this page's garbage
    gc.freeze()
    try:
        for budget in (26, 28, 30):
            # of this process alone; the best of three, because tests share the machine
            started = time.process_time()
            app.slider[0].set_value(budget).run()
            spent.append(time.process_time() - started)
    finally:
        gc.unfreeze()
    session = session_of(app)
    assert session.record.budget == 0.3
    assert session.decision.candidates.iloc[session.decision.recommended.index]["cost"] <= 0.3
    assert counted["statistics_of"] == 1
    assert min(spent) < 1  # the bar is 0.5 s; the test driver and idle threads take their part of this


def test_use_this_then_overrule(family: Predictions) -> None:
    app = go(with_sample(open_app()), "choose")
    app.button(key="use-recommended").click().run()
    session = session_of(app)
    assert session.record.chosen == session.decision.recommended.name
    assert session.record.chosen_how == "recommended"
    own = app.selectbox(key=f"own-candidate-{session.decision.recommended.name}")
    assert own.value == session.decision.recommended.name
    own.set_value("b2-tensor-q99").run()
    app.button(key="use-own").click().run()
    assert session_of(app).record.chosen == "b2-tensor-q99"
    assert "not the recommended candidate" in text_of(app)
    session_of(app).choose("b6-tensor-q99", "own")
    assert "6-bit codes are stored as 8-bit integers" in text_of(app.run())


def test_a_limit_on_the_file_binds_and_keeps_the_choice() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session = session_of(app)
    write_bytes(session.folder / "teacher.onnx", tiny_teacher(10).graph)
    go(app, "choose")
    session.choose("b8-channel-q100-ends", "own")
    slider = next(slider for slider in app.select_slider if "file's size" in slider.label)
    sizes = session.file_sizes
    assert sizes is not None
    assert slider.value == max(sizes)
    slider.set_value(sorted(set(sizes))[0]).run()
    assert not app.exception
    assert session.record.max_bytes == min(sizes)
    assert set(sizes[np.asarray(session.admissible)]) == {min(sizes)}
    assert "best within a file of" in "".join(badge.value for badge in app.markdown)
    assert session.record.chosen == "b8-channel-q100-ends"
    assert "over a limit you set" in text_of(app)
    assert go(app, "choose").select_slider  # the slider stays where it was after a visit elsewhere
    assert session.record.max_bytes == min(sizes)


def test_without_labels_the_teacher_is_followed() -> None:
    app = with_sample(open_app())
    reveal_labels(session_of(app), 0)
    go(app, "choose")
    text = text_of(app)
    assert "without any label" in text
    assert "There are no labels" in text


def test_dial_turns_and_its_pick_can_be_used() -> None:
    app = go(with_sample(open_app()), "choose")
    dial = next(slider for slider in app.select_slider if slider.key and slider.key.startswith("dial-"))
    assert dial.value == session_of(app).decision.choices["ce-combo"].coefficient
    dial.set_value(0.0).run()
    assert not app.exception
    closest = session_of(app).decision.choices["distortion"].name
    assert f"At 0 it picks **{closest}**" in text_of(app)
    app.button(key="use-dial").click().run()
    assert (session_of(app).record.chosen, session_of(app).record.chosen_how) == (closest, "dial")


def test_the_dial_says_what_it_steers() -> None:
    assert "steers the rule CE-combo alone" in text_of(go(with_sample(open_app()), "choose"))


def test_others_that_do_as_well_are_listed_cheapest_first() -> None:
    app = with_sample(open_app())
    reveal_labels(session_of(app), 0)  # without labels much is as good, for all we know
    decision = session_of(go(app, "choose")).decision
    assert decision.same
    shown = next(frame.value for frame in app.dataframe if "In ONNX ↓ (%)" in frame.value)
    assert set(shown["Candidate"]) == {decision.candidates["name"][index] for index in decision.same}
    assert shown["Memory ↓ (%)"].is_monotonic_increasing


def recommend(app: AppTest, monkeypatch: pytest.MonkeyPatch, name: str, **details: Any) -> None:
    """Make the engine recommend a candidate of our choosing."""
    from pages.ui.session import evidence

    real = evidence.decide

    def decide(*args: Any, **kwargs: Any) -> Any:
        decision = real(*args, **kwargs)
        best, names = decision.recommended, list(decision.candidates["name"])
        return replace(
            decision,
            recommended=replace(
                best, name=name, index=names.index(name), details={**best.details, **details}
            ),
        )

    monkeypatch.setattr(evidence, "decide", decide)
    go(app, "choose")


@pytest.mark.parametrize(
    ("name", "bits", "container"), [("b5-channel-q100", 5, 8), ("b3-tensor-q99-ends", 3, 4)]
)
def test_a_file_larger_than_the_recipe_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, bits: int, container: int
) -> None:
    app = with_sample(open_app())
    recommend(app, monkeypatch, name)
    predictions = session_of(app).require_predictions()
    stored = predictions.cost[predictions.names.index(f"b{container}{name[2:]}")]  # type: ignore[index]
    assert (
        f"weights take {share(stored)} of float: {bits}-bit codes are stored as {container}-bit integers"
        in text_of(app)
    )
    assert not any("budget" in warning.value for warning in app.warning)


def test_a_file_that_breaks_the_budget_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_sample(open_app())
    predictions = session_of(app).require_predictions()
    cost = dict(zip(predictions.names, predictions.cost, strict=True))  # type: ignore[arg-type]
    budget = math.ceil(100 * cost["b5-channel-q100"]) / 100  # the slider goes in steps of a percent
    assert budget < cost["b8-channel-q100"]
    session_of(app).change(keep=Step.RUN, budget=budget)
    recommend(app, monkeypatch, "b5-channel-q100")
    said = next(warning.value for warning in app.warning if "budget" in warning.value)
    assert f"more than your budget of {share(budget)}" in said
    assert "choose a candidate of 4 bits" in said


@pytest.mark.parametrize("name", ["b4-channel-q100", "b8-tensor-q99", "b2-tensor-q99"])
def test_a_width_that_a_file_can_hold_needs_no_word(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    app = with_sample(open_app())
    recommend(app, monkeypatch, name)
    assert "stored as" not in text_of(app)


def test_a_reservation_stands_before_the_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.recommend.doubt.SPREAD", 0.3)  # or so small a pool leaves too much doubt
    app = with_sample(open_app())
    reveal_labels(session_of(app), 100)  # enough for the stated probability to stand in bold
    assert re.search(r"with \*\*[0-9.]+ %\*\* probability", text_of(go(app, "choose")))
    app = with_sample(open_app())
    recommend(app, monkeypatch, "b8-channel-q100", reservation="All 25 labels are of one class.")
    assert app.warning[0].value.replace("\\", "") == "All 25 labels are of one class."
    assert re.search(r"with [0-9.]+ % probability", text_of(app))


def test_rules_are_explained_below_their_table() -> None:
    app = go(with_sample(open_app()), "choose")
    assert "The rule we recommend" in text_of(app)
    assert not any("Why" in frame.value for frame in app.dataframe)


def test_suspected_labels_show_their_effect() -> None:
    app = go(with_sample(open_app()), "choose")
    app.select_slider(key="suspicion").set_value(0.4).run()
    assert not app.exception
    assert "Firmest here" in text_of(app)


def test_new_labels_keep_the_choice_and_say_that_it_is_older() -> None:
    app = go(with_sample(open_app()), "choose")
    app.button(key="use-recommended").click().run()
    assert "Chosen before" not in text_of(app)
    session = session_of(app)
    chosen, row = session.record.chosen, next(row for row in range(120) if row not in session.rows)
    mark(session, row, 0)
    assert session.record.chosen == chosen
    assert "Chosen before 1 new label." in text_of(go(app, "choose"))
    undo(session)
    assert "Chosen before" not in text_of(go(app, "choose"))
    session.choose("b2-tensor-q99", "own")
    mark(session, row, 0)
    assert f"With the labels as they are now, {session.decision.recommended.name} is recommended." in text_of(
        go(app, "choose")
    )


@pytest.mark.parametrize("page", ["choose", "target"])
def test_a_teacher_worse_than_guessing_is_said_first(page: str) -> None:
    app = with_sample(open_app())
    session = session_of(app)
    assert not app.error
    predictions = session.require_predictions()
    reveal_labels(session, 0)
    for row in range(40):
        mark(session, row, (int(predictions.teacher[row].argmax()) + 1) % 10)
    go(app, page)
    assert "worse than guessing" in app.error[0].value
    if page == "choose":
        assert not any(head.value.startswith("Deploy") for head in app.subheader)


def test_predictions_without_costs_and_labels_draw_no_empty_picture() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    bare = replace(session.require_predictions(), cost=None)
    save_predictions(bare, session.folder / "predictions.npz")
    reveal_labels(session, 0)
    assert "nothing to draw yet" in text_of(go(app, "choose"))
    reveal_labels(session, 25)
    assert "nothing to draw yet" not in text_of(go(app, "choose"))
