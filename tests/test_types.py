"""The nouns: an error that each front end says in its own words."""

from __future__ import annotations

import pickle

from engine.types import UserError

ERROR = UserError("the store is full.", "Give another folder.", option="store")


def test_the_command_line_names_the_option() -> None:
    assert str(ERROR) == "the store is full. Give another folder (--store)."
    assert str(UserError("bad.", "Leave them out.", option="skip_corrupt")).endswith("(--skip-corrupt).")


def test_a_message_alone_stays_as_it_is() -> None:
    assert str(UserError("what we got; what to do.")) == "what we got; what to do."
    assert str(UserError("a number is needed", option="classes")) == "a number is needed (--classes)"


def test_another_front_end_has_its_own_words() -> None:
    assert ERROR.said({"store": "“Folder”"}) == "the store is full. Give another folder (“Folder”)."
    assert ERROR.said({}) == "the store is full. Give another folder."


def test_what_it_is_about_is_said_first() -> None:
    assert str(ERROR.about("a.npz")) == "a.npz: the store is full. Give another folder (--store)."


def test_it_comes_back_whole_from_a_worker_process() -> None:
    again = pickle.loads(pickle.dumps(ERROR))
    assert (again.problem, again.remedy, again.options) == (ERROR.problem, ERROR.remedy, ERROR.options)
    assert str(UserError(*ERROR.args)) == str(ERROR)
