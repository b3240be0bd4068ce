"""A folder of shards is read wherever a file is: round trips, laziness, and one sentence for what can be
wrong.
"""

import errno
import json
import shutil

import numpy as np
import pytest

from engine.commands.estimate import add_arguments, run
from engine.decide.choose import METHODS, choose
from engine.predictions import folder as folder_module
from engine.predictions.file import load_predictions, save_predictions
from engine.predictions.folder import shard_name
from engine.predictions.stack import Stack
from engine.types import LabeledSample, UserError
from tests.families import random_family
from tests.synthetic_family import synthetic_predictions


@pytest.fixture
def lazily(monkeypatch):
    """Every stack of candidates stays on disk, however small."""
    monkeypatch.setattr("engine.predictions.stack.BIG_BYTES", 0)
    monkeypatch.setattr("engine.predictions.probabilities.BIG_BYTES", 0)


@pytest.fixture
def shards(tmp_path):
    save_predictions(random_family(1), tmp_path / "family")
    return tmp_path / "family"


@pytest.mark.parametrize("is_lazy", [False, True])
def test_round_trip(shards, request, is_lazy):
    if is_lazy:
        request.getfixturevalue("lazily")
    family, back = random_family(1), load_predictions(shards)
    for name in ("teacher", "candidates", "labels", "cost", "teacher_test", "candidates_test", "labels_test"):
        np.testing.assert_array_equal(np.asarray(getattr(back, name)), getattr(family, name), err_msg=name)
    assert (back.names, back.calibration, back.missing) == (family.names, family.calibration, ())
    assert isinstance(back.candidates, Stack) is is_lazy


INDEXES = {
    "one": np.s_[3],
    "last": np.s_[-1],
    "block": np.s_[2, 3:9],
    "rows": np.s_[:, [5, 1, 1]],
    "mask": np.s_[:, np.arange(20) % 3 == 0],
    "entries": np.s_[:, [5, 1, 7], [0, 3, 2]],
    "grid": np.s_[:, np.array([[5, 1], [0, 2]]), np.array([[0, 3], [2, 1]])],
    "some": np.s_[[4, 2], 3:8],
    "part": np.s_[1:],
    "split": np.s_[:, 4:],
    "corner": np.s_[2:5, 3:7],
    "strided": np.s_[:, ::3],
    "row": np.s_[2, 7],
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_stack_is_indexed_as_numpy_would(lazily, tmp_path, index, form):
    family = random_family(1)
    path = tmp_path / ("family" if form == "folder" else "family.npz")
    save_predictions(family, path)
    stack = load_predictions(path).candidates
    assert isinstance(stack, Stack)
    np.testing.assert_array_equal(np.asarray(stack[index]), family.candidates[index])
    part = stack[1:, 2:]
    np.testing.assert_array_equal(np.asarray(part[:, 1:5]), family.candidates[1:, 3:7])
    assert (part.shape, len(stack), stack.nbytes) == ((7, 18, 4), 8, family.candidates.nbytes)


@pytest.mark.parametrize("method", METHODS)
def test_every_rule_decides_the_same_from_shards(lazily, tmp_path, method):
    family = synthetic_predictions(n_images=60)
    sample = LabeledSample(np.arange(12), family.labels[:12])
    save_predictions(family, tmp_path / "family")
    ours, theirs = (
        choose(method, load_predictions(tmp_path / "family"), sample),
        choose(method, family, sample),
    )
    assert (ours.index, ours.ties, ours.warnings) == (theirs.index, theirs.ties, theirs.warnings)
    # mapped rows may be aligned otherwise in memory, and sums then differ in their last bit
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-14)


def test_commands_read_a_folder(shards):
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    result = run(parser.parse_args([str(shards)]))
    assert "distortion" in str(result)


@pytest.mark.parametrize("path", ["family.npz", "family"])
def test_float16_halves_the_size_and_picks_survive(tmp_path, path):
    for seed in range(3):
        family = synthetic_predictions(n_images=300, n_classes=20, seed=seed)
        save_predictions(family, tmp_path / path, dtype="float16")
        half = load_predictions(tmp_path / path)
        assert half.candidates.dtype == np.float16
        sample = LabeledSample(np.arange(50), family.labels[:50])
        for method in METHODS:
            if (
                method.startswith("atc") or method == "cot"
            ):  # ATC counts ties, which rounding makes; COT is slow
                continue
            assert choose(method, half, sample).index == choose(method, family, sample).index, method


def test_a_lazy_row_is_checked_on_its_first_use(lazily, tmp_path):
    family = random_family(1, n_images=400)
    save_predictions(family, tmp_path / "family")
    path = tmp_path / "family" / "candidates" / "candidate-3.npy"
    values = np.load(path)
    bad = next(r for r in range(200) if r not in np.unique(np.linspace(0, 199, 64).astype(int)))
    values[bad, 1] = -0.5
    np.save(path, values)
    loaded = load_predictions(tmp_path / "family")
    assert loaded.candidates[3, bad + 1 :].shape == (199 - bad, 4)
    with pytest.raises(UserError, match=f"negative value at candidate 3, row {bad}"):
        choose("distortion", loaded)
    with pytest.raises(UserError, match=f"candidate 3, row {bad}"):
        loaded.candidates[:, [bad]]


def refused(shards, says):
    with pytest.raises(UserError, match=says) as error:
        load_predictions(shards)
    assert "\n" not in str(error.value)


def test_a_missing_shard(shards):
    (shards / "candidates" / "candidate-2.npy").unlink()
    refused(shards, "lacks candidates/candidate-2.npy")


def test_a_shard_of_another_shape_or_type(shards):
    path = shards / "candidates" / "candidate-2.npy"
    kept = np.load(path)
    np.save(path, kept[:-1])
    refused(shards, r"candidates/candidate-2.npy is \(19, 4\) but the teacher is \(20, 4\)")
    np.save(path, kept.astype(np.float32))
    refused(shards, "candidate-2.npy holds float32, the first candidate float64")
    np.save(path, kept.T.copy().T)
    refused(shards, "in rows are needed")
    np.save(path, np.array([{}]), allow_pickle=True)
    refused(shards, "holds object")


def test_a_shard_cut_short_or_no_array(shards):
    path = shards / "candidates" / "candidate-2.npy"
    path.write_bytes(path.read_bytes()[:-8])
    refused(shards, "is cut short")
    path.write_bytes(b"not an array")
    refused(shards, "no readable .npy file")


def test_an_unfinished_folder(shards, monkeypatch):
    def fails(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "_write_shard", fails)
        with pytest.raises(UserError, match="the disk ran full while family was written"):
            save_predictions(random_family(1), shards)
    refused(shards, "has no meta.json, so it is unfinished")
    save_predictions(random_family(1), shards)
    assert load_predictions(shards).n_candidates == 8


def test_too_little_room_is_said_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr("engine.files.space.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(UserError, match=r"takes .* MB and its disk has .* MB left"):
        save_predictions(random_family(1), tmp_path / "family")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"names": []}', '{"names": [1]}', '{"names": "a"}', "[" * 100_000]
)
def test_odd_meta_is_refused_in_one_line(shards, text):
    (shards / "meta.json").write_text(text)
    refused(shards, "meta.json")


def test_names_never_lead_out_of_the_folder(shards, tmp_path):
    assert shard_name("../../etc/passwd") == "%2E.%2F..%2Fetc%2Fpasswd.npy"
    assert shard_name("b4-channel-q99.5") == "b4-channel-q99.5.npy"
    meta = json.loads((shards / "meta.json").read_text())
    (shards / "meta.json").write_text(json.dumps({**meta, "names": ["../teacher", *meta["names"][1:]]}))
    refused(shards, "lacks candidates/%2E.%2Fteacher.npy")


def test_shards_are_linked_where_they_are_stored_as_they_must_be(lazily, shards, tmp_path):
    save_predictions(load_predictions(shards), tmp_path / "copy")
    first = "candidates/candidate-0.npy"
    assert (tmp_path / "copy" / first).samefile(shards / first)
    save_predictions(load_predictions(shards), tmp_path / "half", dtype="float16")
    assert np.load(tmp_path / "half" / first).dtype == np.float16


def test_a_folder_that_is_written_again_forgets_what_it_held(shards):
    save_predictions(random_family(2, n_candidates=3), shards)
    assert load_predictions(shards).n_candidates == 3
    assert len(list((shards / "candidates").iterdir())) == 3
