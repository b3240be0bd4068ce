"""The question how frequent the classes are: what is said reaches the decision, and can be taken back."""

import numpy as np

from tests.pages.driving import go, open_app, session_of, text_of, with_sample


def test_nothing_is_assumed_until_something_is_said() -> None:
    app = go(with_sample(open_app()), "target")
    session = session_of(app)
    assert session.record.class_shares == ""
    assert session.decision.recommended.details["class_shares"] == "unknown"
    assert "Taken as stated" not in text_of(app)


def test_equal_shares_reach_the_decision_and_can_be_taken_back() -> None:
    app = go(with_sample(open_app()), "target")
    before = session_of(app).decision.recommended
    app.button_group(key="shares-").set_value("equal").run()
    assert not app.exception
    assert "each of the 10 classes is equally frequent" in text_of(app)
    stated = session_of(app).decision.recommended
    assert stated.details["class_shares"] == "stated"
    assert not np.array_equal(stated.scores, before.scores)
    assert "as frequent as was stated" in text_of(go(app, "choose"))
    go(app, "target")
    app.button_group(key="shares-equal").set_value("").run()
    np.testing.assert_array_equal(session_of(app).decision.recommended.scores, before.scores)


def test_a_csv_is_read_and_a_bad_one_is_one_sentence() -> None:
    app = go(with_sample(open_app()), "target")
    app.button_group(key="shares-").set_value("stated").run()
    upload = app.file_uploader(key="shares-csv")
    upload.upload("shares.csv", b"class,share\nzero,1\n", "text/csv").run()
    assert "label 'zero' is unknown" in " ".join(error.value for error in app.error)
    assert session_of(app).record.class_shares == ""
    lines = "".join(f"{k},{10 - k}\n" for k in range(10))
    app.file_uploader(key="shares-csv").upload(
        "other.csv", f"class,share\n{lines}".encode(), "text/csv"
    ).run()
    shares = session_of(app).require_predictions().class_shares
    assert shares is not None
    np.testing.assert_allclose(shares, np.arange(10, 0, -1) / 55, rtol=1e-6)
    assert "most frequent 0 (18 %)" in text_of(app)


def test_shares_of_another_number_of_classes_are_of_another_target() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    session.note(class_shares="0.5,0.5")
    assert session.require_predictions().class_shares is None
    session.note(class_shares="no,numbers")
    assert session.require_predictions().class_shares is None
