"""Labels CSV: rows or files, numbers or names, and a line number for every mistake."""

import numpy as np
import pytest

from engine.target.labels import LabelSpace, parse_label_lines, parse_labels, read_labels, sample_from_array
from engine.types import UserError

SPACE = LabelSpace(
    10, 3, class_names=("cat", "dog", "2 owls"), files=tuple(f"set/{i}.png" for i in range(10))
)


def parse(text, space=SPACE):
    return parse_labels(text.encode(), name="labels.csv", space=space)


@pytest.mark.parametrize(
    "text",
    [
        "row,label\n7,1\n2,0\n",
        "\ufeffrow,label\r\n7,dog\r\n2,cat\r\n",
        " Row , Label ,note\n7, dog ,x\n2,0,y\n",
        "file,label\nset/7.png,dog\n2.png,cat\n",
        "row;label\n7;1\n2;0\n",
        "row\tlabel\n7\tdog\n2\tcat\n",
    ],
)
def test_forms_that_mean_the_same(text):
    sample = parse(text)
    assert sample.rows.tolist() == [7, 2]  # the file's order: folds are contiguous in it
    assert sample.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,label\n1,0\n2,zebra\n", r"line 3: label 'zebra' is unknown; there are 3 classes"),
        ("row,label\n1,3\n", r"line 2: label '3' is unknown"),
        ("row,label\n1,-1\n", r"label '-1' is unknown"),
        ("row,label\n1,\n", r"label '' is unknown"),
        ("row,label\n10,0\n", r"row '10' is not in the pool; rows are 0\.\.9"),
        ("row,label\n-1,0\n", r"row '-1' is not in the pool"),
        ("row,label\n1.5,0\n", r"row '1.5'"),
        ("row,label\n1,0\n1,1\n", r"line 3: 1 is labeled twice"),
        ("row,label\n", r"has no labels"),
        ("", r"first line must be row,label"),
        ("row|label\n1|0\n", r"'row\|label'.*first line must be"),
        ("image,class\n1,0\n", r"starts with the line 'image, class'"),
        ("file,label\nnone.png,0\n", r"'none.png' is not in the pool"),
        ("row,label\n1\n", r"label '' is unknown"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(UserError, match=message):
        parse(text)


def test_ambiguous_and_absent_file_names():
    twice = LabelSpace(2, 3, files=("a/1.png", "b/1.png"))
    with pytest.raises(UserError, match="matches 2 images"):
        parse("file,label\n1.png,0\n", twice)
    with pytest.raises(UserError, match="do not name their images"):
        parse("file,label\n1.png,0\n", LabelSpace(2, 3))


def test_files_on_disk(tmp_path):
    path = tmp_path / "labels.csv"
    with pytest.raises(UserError, match="not a file"):
        read_labels(path, n_rows=3, n_classes=2)
    path.write_bytes(b"row,label\n\xff\xfe,1\n")
    with pytest.raises(UserError, match="UTF-8"):
        read_labels(path, n_rows=3, n_classes=2)
    path.write_text("row,label\n2,1\n")
    assert read_labels(path, n_rows=3, n_classes=2).rows.tolist() == [2]


def test_labels_inside_predictions():
    sample = sample_from_array(np.array([-1, 2, -1, 0]))
    assert (sample.rows.tolist(), sample.labels.tolist()) == ([1, 3], [2, 0])


def test_good_lines_count_and_the_others_are_listed():
    text = b"row;label\n7;dog\nx;cat\n2;zebra\n7;cat\n3;0\n"
    parsed = parse_label_lines(text, name="labels.csv", space=SPACE)
    assert parsed.sample.rows.tolist() == [7, 3]
    assert parsed.sample.labels.tolist() == [1, 0]
    assert [problem.split(":")[0] for problem in parsed.problems] == [
        "labels.csv, line 3",
        "labels.csv, line 4",
        "labels.csv, line 5",
    ]
