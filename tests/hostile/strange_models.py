"""ONNX files with odd weights, classes, attributes, bytes and metadata, and all strange files by name.

Each is a builder of bytes. Some are valid and may pass; none may do more than be refused in one line.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.onnx_files import classifier
from tests.hostile.strange_graphs import GRAPHS


def _weights(value: float) -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[1].CopyFrom(
        numpy_helper.from_array(np.full((4, 4), value, np.float32), model.graph.initializer[1].name)
    )
    return model


def weights_of_nan() -> onnx.ModelProto:
    return _weights(np.nan)


def weights_of_infinity() -> onnx.ModelProto:
    return _weights(np.inf)


def weights_at_the_end_of_float() -> onnx.ModelProto:
    return _weights(3e38)


def weights_of_denormals() -> onnx.ModelProto:
    return _weights(1e-44)


def one_class() -> onnx.ModelProto:
    model = classifier()
    head = numpy_helper.from_array(np.ones((4, 1), np.float32), "head")
    model.graph.initializer[1].CopyFrom(head)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    return model


def no_class() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones((4, 0), np.float32), "head"))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 0
    return model


def classes_that_depend_on_the_image() -> onnx.ModelProto:
    model = classifier()
    model.graph.node[-1].output[0] = "scores"
    model.graph.node.extend(
        [
            helper.make_node("NonZero", ["scores"], ["places"]),
            helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
        ]
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "k"]))
    return model


def two_hundred_thousand_classes() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 50_000], np.int64), "wide"))
    model.graph.node.append(helper.make_node("Tile", ["y", "wide"], ["z"]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", None]))
    return model


def raw_data_too_short() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].raw_data = b"\0" * 5
    return model


def raw_data_too_long() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].raw_data = bytes(10**6)
    return model


def values_in_the_wrong_field() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].int64_data.extend([1] * 108)
    return model


def weights_of_text() -> onnx.ModelProto:
    model = classifier()
    tensor = helper.make_tensor("stem", TensorProto.STRING, [4, 3, 3, 3], [b"\xff\n"] * 108)
    model.graph.initializer[0].CopyFrom(tensor)
    return model


def weights_of_unknown_type() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].data_type = 77
    return model


def convolution_of_groups(groups: int = 2**31 - 1) -> onnx.ModelProto:
    model = classifier()
    model.graph.node[0].attribute.append(helper.make_attribute("group", groups))
    return model


def convolution_of_no_groups() -> onnx.ModelProto:
    return convolution_of_groups(0)


def _convolution(**attributes: list[int]) -> onnx.ModelProto:
    model = classifier()
    del model.graph.node[0].attribute[:]
    for name, values in attributes.items():
        model.graph.node[0].attribute.append(helper.make_attribute(name, values))
    return model


def convolution_of_huge_pads() -> onnx.ModelProto:
    return _convolution(pads=[2**30] * 4)


def convolution_of_negative_pads() -> onnx.ModelProto:
    return _convolution(pads=[-100] * 4)


def convolution_of_no_stride() -> onnx.ModelProto:
    return _convolution(strides=[0, 0])


def convolution_of_huge_dilation() -> onnx.ModelProto:
    return _convolution(dilations=[2**40, 2**40], pads=[2**40] * 4)


def attribute_of_the_wrong_type() -> onnx.ModelProto:
    model = classifier()
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("pads", "many"))
    return model


def attribute_twice() -> onnx.ModelProto:
    model = classifier()
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])
    return model


def names_that_are_no_text() -> bytes:
    return classifier().SerializeToString().replace(b"stem", b"\xff\xfe\x80\n")


def unknown_fields() -> bytes:
    return classifier().SerializeToString() + b"\xfa\x7f\x04abcd" * 10_000


def groups_without_end() -> bytes:
    """Start-group tags of protobuf, nested a million deep."""
    return b"\x0b" * 1_000_000


def length_that_lies() -> bytes:
    return b"\x3a\xff\xff\xff\xff\x0f" + b"x" * 100


def varint_without_end() -> bytes:
    return b"\x08" + b"\xff" * 1000


def nothing() -> bytes:
    return b""


def zeros() -> bytes:
    return bytes(1_000_000)


def a_zip() -> bytes:
    return b"PK\x03\x04" + bytes(100)


def a_pickle() -> bytes:
    return b"cos\nsystem\n(S'touch canary-was-run'\ntR."


def metadata(**facts: str) -> onnx.ModelProto:
    model = classifier()
    helper.set_model_props(model, {f"anchorpoint.{name}": text for name, text in facts.items()})
    return model


_SIZES = '"mean": [0,0,0], "std": [1,1,1]'
METADATA: dict[str, dict[str, str]] = {
    "a huge number": {"preprocessing": '{"height": ' + "9" * 5000 + ', "width": 8, ' + _SIZES + "}"},
    "not a number": {"preprocessing": '{"height": NaN, "width": Infinity, ' + _SIZES + "}"},
    "keys twice": {"preprocessing": '{"height": 8, "height": -8, "width": 8, ' + _SIZES + "}"},
    "a list": {"preprocessing": "[1, 2]"},
    "null": {"preprocessing": "null"},
    "text": {"preprocessing": '"8x8"'},
    "huge size": {"preprocessing": '{"height": 1000000000, "width": 1000000000, ' + _SIZES + "}"},
    "negative size": {"preprocessing": '{"height": -8, "width": -8, ' + _SIZES + "}"},
    "zero std": {"preprocessing": '{"height": 8, "width": 8, "mean": [0,0,0], "std": [0,0,0]}'},
    "nan std": {"preprocessing": '{"height": 8, "width": 8, "mean": [0,0,0], "std": [NaN,1,1]}'},
    "names of other types": {"class_names": "[1, null, {}, []]"},
    "names too many": {"class_names": str(["x"] * 100_000).replace("'", '"')},
    "names with escapes": {"class_names": '["a\\nb", "\\u001b[2J", "c", "d"]'},
    "names that repeat": {"class_names": '["a", "a", "a", "a"]'},
    "names of surrogates": {"class_names": '["\\ud800", "b", "c", "d"]'},
    "output unknown": {"output": "<script>alert(1)</script>"},
    "candidate unknown": {"candidate": "b" + "9" * 5000, "recipe": "[" * 5000},
}

BUILDERS: tuple[Callable[[], onnx.ModelProto | bytes], ...] = (
    *GRAPHS,
    *(weights_of_nan, weights_of_infinity, weights_at_the_end_of_float, weights_of_denormals, one_class),
    *(no_class, classes_that_depend_on_the_image, two_hundred_thousand_classes, raw_data_too_short),
    *(raw_data_too_long, values_in_the_wrong_field, weights_of_text, weights_of_unknown_type),
    *(convolution_of_groups, convolution_of_no_groups, convolution_of_huge_pads),
    *(convolution_of_negative_pads, convolution_of_no_stride, convolution_of_huge_dilation),
    *(attribute_of_the_wrong_type, attribute_twice, names_that_are_no_text, unknown_fields),
    *(groups_without_end, length_that_lies, varint_without_end, nothing, zeros, a_zip, a_pickle),
)


def content(build: Callable[[], onnx.ModelProto | bytes]) -> bytes:
    """The bytes of a case."""
    made = build()
    return made if isinstance(made, bytes) else bytes(made.SerializeToString())


STRANGE: dict[str, Callable[[], bytes]] = {
    **{build.__name__: (lambda build=build: content(build)) for build in BUILDERS},
    **{
        f"metadata: {name}": (lambda facts=facts: content(lambda: metadata(**facts)))
        for name, facts in METADATA.items()
    },
}
