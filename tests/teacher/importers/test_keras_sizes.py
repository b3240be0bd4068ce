"""What a Keras file declares is refused before Keras builds it; what the shipped and the usual networks
declare is not.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.teacher.importers.keras_sizes import check_sizes
from engine.types import UserError
from tests.hostile.swelling_files import SWELLING, nested_twice

SAMPLE = Path(__file__).resolve().parents[3] / "sample_models" / "digits-mobilenet.keras"
LATER = {"upsampling chain.keras", "ten thousand layers.keras"}  # found when they are built, under the limits


def configuration(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(archive.read("config.json"))


@pytest.mark.parametrize("name", sorted(set(SWELLING) - LATER))
def test_what_swells_is_refused_by_its_configuration(name: str) -> None:
    with pytest.raises(UserError, match=r"allowed|weights in all"):
        check_sizes(configuration(SWELLING[name]()), 1000)


def test_ordinary_networks_pass() -> None:
    check_sizes(configuration(SAMPLE.read_bytes()), 10**6)
    check_sizes(configuration(nested_twice(8)), 1000)


def test_a_layer_needs_its_weights_in_the_file() -> None:
    with pytest.raises(UserError, match="units = 10, and the file holds 3 weights"):
        check_sizes({"config": {"layers": [{"class_name": "Dense", "config": {"units": 10}}]}}, 3)


@pytest.mark.parametrize("config", [None, [], "x", {}, {"config": 3}, {"config": {"layers": [None, {}]}}])
def test_what_is_no_configuration_is_left_to_keras(config: Any) -> None:
    check_sizes(config, 0)
