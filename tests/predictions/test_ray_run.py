"""The same bytes from a Ray cluster as from this machine, also when a node is killed; bad clusters in one
line.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.family.recipes import standard_family
from engine.predictions import ray_cluster, ray_run
from engine.predictions.file import save_predictions
from engine.predictions.gather import predict
from engine.predictions.job import Job, Part
from engine.predictions.ray_cluster import Cluster, check_versions, import_ray, versions
from engine.predictions.runner import Watch
from engine.target import open_images
from engine.types import UserError
from tests.local_ray import LocalRay, joins
from tests.tiny_teacher import tiny_teacher

has_ray = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not has_ray, reason="Ray is optional: pip install -r requirements-ray.txt")
RECIPES = standard_family()[::12]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("images") / "pool.npy"
    pixels = np.random.default_rng(0).integers(0, 256, (300, 16, 16, 3), dtype=np.uint8)
    np.save(path, pixels)
    return open_images(str(path))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_run, "_BATCHES", (1, 1))
    monkeypatch.setattr("engine.predictions.job._BATCH_PIXELS", 16 * 16 * 16)  # 16 images a batch, 19 blocks


def written(predictions: Any, path: Path) -> bytes:
    save_predictions(predictions, path)
    return path.read_bytes()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> Any:
    """Join a cluster that is this process."""

    def use(ray: LocalRay, *, is_shared: bool = True) -> LocalRay:
        monkeypatch.setattr(ray_run, "joined", joins(ray, is_shared=is_shared))
        return ray

    return use


@pytest.fixture
def expected(images: Any, tmp_path: Path, small_blocks: None) -> bytes:
    return written(predict(tiny_teacher(), RECIPES, images, store=tmp_path / "own"), tmp_path / "own.npz")


@pytest.mark.parametrize("is_shared", [True, False])
def test_blocks_give_the_bytes_of_a_local_run(cluster, expected, images, tmp_path, is_shared):
    ray, seen = cluster(LocalRay(), is_shared=is_shared), []
    result = predict(
        tiny_teacher(),
        RECIPES,
        images,
        store=tmp_path / "store",
        ray="local",
        on_progress=lambda report: seen.append((report.done, report.total)),
    )
    assert written(result, tmp_path / "ray.npz") == expected
    assert ray.n_run == 7 * 19
    assert seen[-1] == (7 * 300, 7 * 300)
    assert len(ray.put_bytes) == (1 if is_shared else 1 + 19)  # pixels go out once, whatever the models
    assert not [path for path in (tmp_path / "store" / "predictions").rglob(".*") if path.is_file()]


def test_an_interrupted_run_goes_on_from_its_blocks(cluster, expected, images, tmp_path):
    lost = cluster(LocalRay({31: LocalRay.exceptions.RayError("the cluster is gone")}))
    with pytest.raises(
        UserError, match=r"lost b.* for good .the cluster is gone.. What was finished is kept"
    ):
        predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local")
    assert lost.cancelled
    again = cluster(LocalRay())
    result = predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local")
    assert written(result, tmp_path / "ray.npz") == expected
    assert again.n_run == 7 * 19 - 30


def test_blocks_of_another_size_are_taken_up(cluster, expected, images, tmp_path, monkeypatch):
    cluster(LocalRay({31: LocalRay.exceptions.RayError("the cluster is gone")}))
    with pytest.raises(UserError):
        predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local")
    monkeypatch.setattr(ray_run, "_BATCHES", (4, 4))
    again = cluster(LocalRay())
    result = predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local")
    assert written(result, tmp_path / "ray.npz") == expected
    assert again.n_run < 7 * 5  # as if nothing were there; gaps between blocks are no longer than these
    assert not [path for path in (tmp_path / "store" / "predictions").rglob(".*") if path.is_file()]


@pytest.mark.parametrize(("n_cores", "n_models", "rows"), [(2, 73, 2048), (800, 73, 1138), (800, 1, 256)])
def test_tasks_are_large_while_there_are_enough_of_them(n_cores, n_models, rows):
    teacher = tiny_teacher(side=224)
    job = Job(
        teacher=teacher,
        graph=b"",
        parts=(Part(Path("pixels"), Path("folder"), 50_000),),
        levels=(),
        n_classes=teacher.n_classes,
    )
    campaign = ray_run._Campaign(job, Cluster(LocalRay(), is_shared=True, n_cores=n_cores), Watch(0, 0))
    assert campaign._rows("teacher", n_models) == rows


def test_a_stopped_run_keeps_whole_models(cluster, images, tmp_path):
    ray = cluster(LocalRay())
    result = predict(
        tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local", cancel=lambda: ray.n_run > 60
    )
    assert 0 < result.n_candidates < 6
    assert set(result.names) | set(result.missing) == {recipe.slug for recipe in RECIPES}
    assert ray.cancelled


def test_a_process_that_keeps_ending_is_said_in_one_line(cluster, images, tmp_path):
    cluster(LocalRay({1: LocalRay.exceptions.WorkerCrashedError()}))
    with pytest.raises(UserError, match="most likely for lack of memory"):
        predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local")


def test_hopeless_candidates_need_one_machine(cluster, images, tmp_path):
    cluster(LocalRay())
    with pytest.raises(UserError, match="reads their images in order"):
        predict(tiny_teacher(), RECIPES, images, store=tmp_path / "store", ray="local", give_up_hopeless=True)


# --- clusters that cannot be used -----------------------------------------------------------


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379", "host:port", "a b"])
def test_what_is_no_address(address):
    with pytest.raises(UserError, match="is no address of a Ray cluster"):
        ray_cluster._check_address(address)


def test_nobody_answers():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(UserError, match=f"nobody answers at 127.0.0.1:{port}") as error:
        ray_cluster._check_address(f"127.0.0.1:{port}")
    assert "\n" not in str(error.value)


def test_a_node_with_another_version():
    ours = versions()
    same = {"node": "a", "versions": ours}
    check_versions(ours, [same])
    other = {"node": "b", "versions": {**ours, "anchorpoint": "0.1.0"}}
    with pytest.raises(UserError, match=r"node b has anchorpoint 0.1.0, this machine .* would differ"):
        check_versions(ours, [same, other])


def test_ray_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install -r requirements-ray.txt"):
        import_ray()


# --- a real cluster -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A head without cores and two nodes with one core each, all on this machine."""
    pytest.importorskip("ray", reason="Ray is optional: pip install -r requirements-ray.txt")
    import_ray()
    from ray.cluster_utils import Cluster as SimulatedCluster

    simulated = SimulatedCluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [simulated.add_node(num_cpus=1) for _ in range(2)]
    yield simulated, nodes
    simulated.shutdown()


@pytest.fixture(scope="module")
def large_images(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("images") / "pool.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (640, 64, 64, 3), dtype=np.uint8))
    return open_images(str(path))


@pytest.mark.slow
@needs_ray
def test_two_nodes_and_then_one_give_the_same_bytes(two_nodes, large_images, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_run, "_BATCHES", (1, 1))  # 20 blocks a model
    simulated, nodes = two_nodes
    teacher = tiny_teacher(side=64, width=16)
    expected = written(predict(teacher, RECIPES, large_images, store=tmp_path / "own"), tmp_path / "own.npz")
    finished: dict[str, int] = {}

    def kill_in_the_middle(report: Any) -> None:
        if report.stage.startswith("running") and report.done > 0.4 * report.total and nodes[1:]:
            whole = (tmp_path / "store" / "predictions").rglob("*.npy")
            finished.update({str(path): path.stat().st_mtime_ns for path in whole})
            simulated.remove_node(nodes.pop(), allow_graceful=False)

    result = predict(
        teacher,
        RECIPES,
        large_images,
        store=tmp_path / "store",
        ray=simulated.address,
        on_progress=kill_in_the_middle,
    )
    assert finished
    assert written(result, tmp_path / "ray.npz") == expected
    # what was finished before the node was lost was not run again
    kept = {path: stamp for path, stamp in finished.items() if Path(path).exists()}
    assert kept
    assert all(Path(path).stat().st_mtime_ns == stamp for path, stamp in kept.items())
