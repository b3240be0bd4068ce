"""As much of Ray as a run needs, in this process: the driver's logic is tested in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from engine.predictions.ray_cluster import Cluster


class Answer:
    """A task that is run when its answer is asked for."""

    def __init__(self, work: Any, given: Any) -> None:
        self.work, self.given = work, given


class LocalRay:
    """As much of Ray as a run needs, in this process; `breaks` says which answer is lost, and with what."""

    class exceptions:  # noqa: N801  (Ray's own name)
        class RayError(Exception):
            pass

        class WorkerCrashedError(RayError):
            pass

    def __init__(self, breaks: dict[int, Exception] | None = None) -> None:
        self.n_run, self.cancelled, self.breaks = 0, 0, breaks or {}
        self.put_bytes: list[int] = []

    def put(self, value: Any) -> Any:
        self.put_bytes.append(len(value))
        return value

    def remote(self, **options: Any) -> Any:
        def wrap(work: Any) -> Any:
            return type("Task", (), {"remote": staticmethod(lambda *given: Answer(work, given))})

        return wrap

    def wait(self, answers: Any, **options: Any) -> Any:
        return [answers[self.n_run % len(answers)]], None  # out of order, as a cluster answers

    def get(self, answer: Answer) -> Any:
        self.n_run += 1
        if self.n_run in self.breaks:
            raise self.breaks[self.n_run]
        return answer.work(*answer.given)

    def cancel(self, answer: Answer, force: bool) -> None:
        self.cancelled += 1


def joins(ray: LocalRay, *, is_shared: bool = True) -> Callable[..., AbstractContextManager[Cluster]]:
    """Return what takes the place of `joined`: a cluster that is this process."""

    @contextmanager
    def joined(address: str, *paths: Any) -> Iterator[Cluster]:
        yield Cluster(ray=ray, is_shared=is_shared, n_cores=2)

    return joined
