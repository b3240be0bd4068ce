"""The pool: target images decoded and prepared once for all models, as one memory-mapped file in the store.

Knows images and preprocessing. Knows nothing of weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from engine.predictions.store import commit, is_intact, make_folder, store_key, temporary, write_text
from engine.target import BadImage, ImageSet, in_batches, input_shape, pool_order
from engine.types import Preprocessing, Progress, UserError

_VERSION = "1"  # raise it when decoding or preparing changes a pixel
_NAMED = 5  # corrupt images named in a refusal

_Result = tuple[int, NDArray[Any] | BadImage]


@dataclass(frozen=True, eq=False)
class Pool:
    """Prepared pixels (N, *input_shape) on disk, in pool order.

    `order` (N,) are the images' indices in their ImageSet of `n_source` images. `files` (N,) are their names;
    None for an array in its own row order, whose rows need no name. `bad` are the images that were skipped.
    """

    path: Path
    order: NDArray[np.int64]
    n_source: int
    files: tuple[str, ...] | None
    key: str
    bad: tuple[BadImage, ...]

    @property
    def n_images(self) -> int:
        return len(self.order)


@dataclass(frozen=True)
class PoolOptions:
    """How images become the pool. `shuffle` None: folders and zips are shuffled, arrays keep their rows."""

    skip_corrupt: bool = False
    seed: int = 0
    shuffle: bool | None = None


USUAL_POOL = PoolOptions()


def prepare_pool(
    images: ImageSet,
    preprocessing: Preprocessing,
    store: Path,
    options: PoolOptions = USUAL_POOL,
    *,
    on_progress: Progress | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Pool:
    """Decode and prepare every image once, in parallel, or find the finished result in the store.

    Raises UserError naming the corrupt images unless they are to be skipped, if none is left, or if
    cancelled.
    """
    order = pool_order(images, seed=options.seed, shuffle=options.shuffle)
    parts = {
        "version": _VERSION,
        "images": images.fingerprint,
        "preprocessing": _geometry(preprocessing).to_json(),
        "order": order.tolist(),
    }
    key = store_key({**parts, "skip": options.skip_corrupt})
    folder = make_folder(store / "pools" / key)
    if is_intact(folder / "pixels.npy") and (known := _read_bad(folder / "bad.json")) is not None:
        return _make_pool(images, folder, order, key, known)
    prepared = in_batches(order.tolist(), lambda some: images.prepared(some, preprocessing))
    results = _watched(prepared, len(order), on_progress, cancel)
    bad = _write_pixels(
        results,
        folder / "pixels.npy",
        images.dtype,
        (len(order), *input_shape(preprocessing)),
        options.skip_corrupt,
    )
    return _make_pool(images, folder, order, key, bad)


def _geometry(preprocessing: Preprocessing) -> Preprocessing:
    """Return what shapes the stored pixels; the arithmetic that follows is done per batch and shares them."""
    n = preprocessing.channels
    return replace(preprocessing, scale=1.0, mean=(0.0,) * n, std=(1.0,) * n)


def _read_bad(path: Path) -> dict[int, BadImage] | None:
    try:
        return {
            int(index): BadImage(name, reason)
            for index, name, reason in json.loads(path.read_text(encoding="utf-8"))
        }
    except (OSError, ValueError):
        return None


def _make_pool(
    images: ImageSet, folder: Path, order: NDArray[np.int64], key: str, bad: dict[int, BadImage]
) -> Pool:
    kept = order[~np.isin(order, list(bad))]
    own_rows = images.kind == "array" and len(kept) == len(images) and bool((np.diff(kept) == 1).all())
    files = None if own_rows else tuple(images.names[i] for i in kept)
    return Pool(
        path=folder / "pixels.npy",
        order=kept,
        n_source=len(images),
        files=files,
        key=key,
        bad=tuple(bad[i] for i in sorted(bad)),
    )


def _watched(
    results: Iterator[_Result], total: int, on_progress: Progress | None, cancel: Callable[[], bool] | None
) -> Iterator[_Result]:
    """Pass results on, reporting each and stopping when asked to."""
    for done, result in enumerate(results, start=1):
        if cancel is not None and cancel():
            raise UserError(
                "stopped while the images were being read, before any model ran. Start again, with more time"
                " if a limit was set."
            )
        yield result
        if on_progress is not None:
            on_progress(done, total)


def _write_pixels(
    results: Iterator[_Result], path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], skip_corrupt: bool
) -> dict[int, BadImage]:
    """Stream prepared images to `path`, leaving out corrupt ones, and return those by index."""
    bad: dict[int, BadImage] = {}
    partial = temporary(path)
    try:
        with partial.open("wb") as file:
            _write_header(file, dtype, shape)
            for index, result in results:
                if isinstance(result, BadImage):
                    bad[index] = result
                else:
                    file.write(result.tobytes())
            _check_bad(bad, shape[0], skip_corrupt)
            file.seek(0)
            _write_header(file, dtype, (shape[0] - len(bad), *shape[1:]))
        write_text(
            path.with_name("bad.json"), json.dumps([[index, b.name, b.reason] for index, b in bad.items()])
        )
        commit(partial, path)
    except OSError as error:
        raise UserError(
            f"the store cannot be written ({error.strerror}).",
            "Free disk space or give another folder.",
            option="store",
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return bad


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write an .npy header; numpy pads it so that fewer rows later do not change its length."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _check_bad(bad: Mapping[int, BadImage], total: int, skip_corrupt: bool) -> None:
    if len(bad) == total:
        example = next(iter(bad.values()))
        every = f"none of the {total} images" if total > 1 else "the only image"
        raise UserError(
            f"{every} {'can' if total > 1 else 'cannot'} be read, e.g. {example.name} ({example.reason})."
            " Check what the files are."
        )
    if bad and not skip_corrupt:
        raise UserError(
            f"{len(bad)} of {total} images cannot be read: {_listed(bad)}.",
            "Repair or remove them, or leave them out of the run.",
            option="skip_corrupt",
        )


def _listed(bad: Mapping[int, BadImage]) -> str:
    shown = list(islice(bad.values(), _NAMED))
    if len({image.reason for image in shown}) == 1:  # said once
        names = [*(image.name for image in shown[:-1]), f"{shown[-1].name} ({shown[-1].reason})"]
    else:
        names = [f"{image.name} ({image.reason})" for image in shown]
    return "; ".join(names) + (f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else "")
