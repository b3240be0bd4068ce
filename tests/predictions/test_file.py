"""The predictions file: round trips, laziness, and one clear sentence for everything that can be wrong with
it.
"""

import io
import zipfile

import numpy as np
import pytest

from engine.files.npz import read_npz, write_npz
from engine.predictions.file import load_predictions, make_predictions, save_predictions
from engine.types import UserError
from tests.families import random_arrays, random_family


@pytest.fixture
def arrays():
    teacher, candidates, labels = random_arrays(0)
    return {"teacher": teacher, "candidates": candidates, "labels": labels}


@pytest.mark.parametrize("compressed", [False, True])
def test_round_trip(tmp_path, compressed):
    family = random_family(1)
    save_predictions(family, tmp_path / "family.npz", compressed=compressed)
    back = load_predictions(tmp_path / "family.npz")
    for name in ("teacher", "candidates", "labels", "cost", "teacher_test", "candidates_test", "labels_test"):
        np.testing.assert_array_equal(getattr(back, name), getattr(family, name), err_msg=name)
    assert (back.names, back.calibration, back.missing) == (family.names, family.calibration, ())
    assert isinstance(back.candidates, np.memmap) is not compressed


def test_same_arrays_give_the_same_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        save_predictions(random_family(2), tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_numpys_own_files_are_read(tmp_path, arrays):
    np.savez(
        tmp_path / "plain.npz",
        **arrays,
        names=[f"c{i}" for i in range(8)],
        calibration=7,
        something_else=np.ones(3),
    )
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    plain, packed = load_predictions(tmp_path / "plain.npz"), load_predictions(tmp_path / "packed.npz")
    np.testing.assert_array_equal(plain.candidates, packed.candidates)
    assert (plain.calibration, packed.calibration) == (7, 20)
    assert plain.names[0] == "c0"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_float_width_is_accepted(arrays, dtype):
    made = make_predictions(arrays["teacher"].astype(dtype), arrays["candidates"].astype(dtype))
    assert made.candidates.dtype == dtype


def _broken(arrays, name, row, value):
    changed = arrays[name].copy()
    changed[row] = value
    return {**arrays, name: changed}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: _broken(a, "candidates", (3, 5, 0), np.nan), r"non-finite value at candidate 3, row 5"),
        (lambda a: _broken(a, "teacher", (2, 1), np.inf), r"teacher has a non-finite value at row 2"),
        (
            lambda a: _broken(a, "candidates", (1, 0), [2.0, -1.0, 0.0, 0.0]),
            r"negative value at candidate 1, row 0.*softmax",
        ),
        (lambda a: _broken(a, "teacher", 4, 0.3), r"sums to 1\.2 instead of 1 at row 4"),
        (lambda a: _broken(a, "labels", 6, 4), r"labels has 4 at row 6; allowed are 0\.\.3"),
        (lambda a: _broken(a, "labels", 6, -2), r"labels has -2 at row 6"),
        (lambda a: {**a, "labels": a["labels"].astype(float)}, r"labels must be 40 integers"),
        (lambda a: {**a, "labels": a["labels"][:5]}, r"labels must be 40 integers"),
        (
            lambda a: {**a, "teacher": a["teacher"][:, :3]},
            r"teacher is \(40, 3\) but candidates are \(8, 40, 4\)",
        ),
        (lambda a: {**a, "teacher": a["teacher"][:9]}, r"same N rows"),
        (lambda a: {**a, "candidates": a["candidates"][0]}, r"candidates \(M,N,K\)"),
        (lambda a: {**a, "candidates": (a["candidates"] * 100).astype(int)}, r"dtype int64"),
        (lambda a: {**a, "names": ["x"] * 8}, r"'x' more than once"),
        (lambda a: {**a, "class_names": ["a", "b", "a", "c"]}, r"class_names has 'a' more than once"),
        (lambda a: {**a, "names": ["x", "y"]}, r"8 entries are needed"),
        (lambda a: {**a, "cost": [0.1, 0.2]}, r"cost must be 8 numbers"),
        (lambda a: {**a, "cost": [np.nan] * 8}, r"negative or non-finite"),
        (lambda a: {**a, "calibration": 41}, r"0 to N=40"),
        (lambda a: {**a, "calibration": 2.5}, r"whole number"),
        (lambda a: {**a, "labels_test": a["labels"]}, r"test part lacks teacher_test"),
        (lambda a: {**a, "surprise": 1}, r"unknown array 'surprise'"),
    ],
)
def test_refusals_say_what_and_where(arrays, change, message):
    with pytest.raises(UserError, match=message) as caught:
        make_predictions(**change(arrays))
    assert "\n" not in str(caught.value)


def test_a_test_part_must_fit_and_be_labeled(arrays):
    test = {
        "teacher_test": arrays["teacher"],
        "candidates_test": arrays["candidates"],
        "labels_test": arrays["labels"],
    }
    with pytest.raises(UserError, match="M=8"):
        make_predictions(**arrays, **{**test, "candidates_test": arrays["candidates"][:3]})
    with pytest.raises(UserError, match="fully labeled"):
        make_predictions(**arrays, **{**test, "labels_test": np.full(40, -1)})


@pytest.mark.parametrize(
    "sizes", [{"n_candidates": 1}, {"n_classes": 2}, {"n_images": 3, "n_classes": 9}, {"n_images": 1}]
)
def test_small_families_are_fine(sizes):
    teacher, candidates, labels = random_arrays(3, **sizes)
    assert make_predictions(teacher, candidates, labels=labels).n_images == len(teacher)


def test_damaged_and_hostile_files(tmp_path, arrays):
    missing = tmp_path / "missing.npz"
    with pytest.raises(UserError, match="not a file"):
        load_predictions(missing)
    text = tmp_path / "text.npz"
    text.write_text("not a zip")
    with pytest.raises(UserError, match="not a readable"):
        load_predictions(text)
    np.savez(tmp_path / "half.npz", teacher=arrays["teacher"])
    with pytest.raises(UserError, match="no array 'candidates'"):
        load_predictions(tmp_path / "half.npz")
    np.savez(tmp_path / "objects.npz", teacher=np.array([{}], dtype=object), candidates=arrays["candidates"])
    with pytest.raises(UserError, match="Python objects"):
        load_predictions(tmp_path / "objects.npz")
    whole = tmp_path / "whole.npz"
    np.savez(whole, **arrays)
    (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(UserError, match="not a readable"):
        load_predictions(tmp_path / "cut.npz")


@pytest.mark.parametrize("shape", [(10**6, 3), (72, 10**12, 10**6), (-1, 3), (2**32, 2**32)])
def test_a_header_that_promises_too_much_is_refused(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "lies.npz", "w") as archive:
        archive.writestr("teacher.npy", header.getvalue() + b"\0" * 12)
        archive.writestr("candidates.npy", header.getvalue() + b"\0" * 12)
    with pytest.raises(UserError, match="shorter than its header"):
        load_predictions(tmp_path / "lies.npz")


def test_size_is_bounded_before_unpacking(tmp_path):
    write_npz(tmp_path / "zeros.npz", {"teacher": np.zeros(10**6)}, compressed=True)
    with pytest.raises(UserError, match="at most"):
        read_npz(tmp_path / "zeros.npz", wanted=("teacher",), max_bytes=1000)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "kept.npz"
    write_npz(path, {"teacher": np.ones(3)})
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(path, {"teacher": np.array([{}], dtype=object)})
    np.testing.assert_array_equal(read_npz(path, wanted=("teacher",))["teacher"], np.ones(3))
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.npz"]
