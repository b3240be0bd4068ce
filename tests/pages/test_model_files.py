"""Files a visitor already has, on real pages with real jobs: looked into, judged, chosen, shipped."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import onnx
import pytest

from engine.teacher.graph import save
from engine.teacher.request import LoadRequest
from engine.types import UserError
from pages.ui.jobs.tasks import TASKS
from pages.ui.parts.page import PAGES
from pages.ui.parts.progress import JOB_PAGES
from pages.ui.session.actions import load_path, run_family, start_export, use_images
from pages.ui.session.labels import mark
from pages.ui.session.model_files import (
    drop_files,
    known_files,
    let_compete,
    n_candidates,
    upload_files,
    use_place,
)
from tests.foreign.small_models import linear, write_bad
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of
from tests.pages.ui.jobs.test_control import picture, wait_for
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.usefixtures("workspace")


def upload(name: str, content: bytes) -> io.BytesIO:
    file = io.BytesIO(content)
    file.name = name
    return file


def prepared(app, folder: Path):  # type: ignore[no-untyped-def]
    """A session with a tiny teacher that was read."""
    session = session_of(app)
    save(tiny_teacher(), folder / "tiny.onnx")
    load_path(session, str(folder / "tiny.onnx"), LoadRequest())
    wait_for(session.folder, "import", "done")
    return session


@pytest.mark.slow
def test_from_uploaded_files_to_a_shipped_one(tmp_path: Path) -> None:
    app = open_app()
    session = prepared(app, tmp_path)
    write_bad(tmp_path)
    same = onnx.ModelProto.FromString(tiny_teacher().graph).SerializeToString()
    uploads = [
        upload("same.onnx", same),
        upload("grey.onnx", linear(channels=1, side=16).SerializeToString()),
        upload("custom.onnx", (tmp_path / "custom.onnx").read_bytes()),
    ]
    upload_files(session, uploads)
    wait_for(session.folder, "files", "done")
    text = text_of(go(app, "candidates"))
    assert "Judge files you already have" in text
    assert "ONNX, float · ONNX Runtime" in text
    assert "Takes 16 x 16 grey" in text
    assert "**custom** is left out" in text
    assert "shows after the run" in text
    let_compete(session, alone=True)
    assert n_candidates(session) == 2
    with zipfile.ZipFile(tmp_path / "target.zip", "w") as archive:
        for index in range(16):
            archive.writestr(f"{index:02}.png", picture(index, 20))
    use_images(session, str(tmp_path / "target.zip"))
    wait_for(session.folder, "check", "done")
    run_family(session)
    wait_for(session.folder, "predict", "done")
    assert session.predictions is not None
    assert session.predictions.names == ("grey", "same")
    assert session.predictions.missing == ("custom",)
    assert "Agrees with the teacher on **100" in text_of(go(app, "candidates"))
    for page in ("target", "choose", "collapse"):
        go(app, page)
    session.choose("same", "own")
    start_export(session, "same", (), {})
    wait_for(session.folder, "export", "done")
    text = text_of(go(app, "export"))
    assert "the very bytes that were judged" in text
    assert "repeats the judged probabilities on 16 images" in text
    assert (session.folder / "export" / "model.onnx").read_bytes() == same
    assert (session.folder / "bundle.zip").exists()
    mark(session, 2, 1)
    assert "Made before 1 new label." in text_of(go(app, "export"))
    drop_files(session)
    assert n_candidates(session) == 72


@pytest.mark.usefixtures("started")
def test_what_cannot_be_used_is_said_before_anything_is_forgotten(tmp_path: Path) -> None:
    app = open_app()
    session = session_of(app)
    give_teacher(app, tiny_teacher())
    with pytest.raises(UserError, match="no model file"):
        upload_files(session, [upload("notes.json", json.dumps({}).encode())])
    with pytest.raises(UserError, match="nothing at"):
        use_place(session, str(tmp_path / "nowhere"))
    assert session.record.files == ""
    assert known_files(session).models == ()
    (tmp_path / "models").mkdir()
    onnx.save(linear(), tmp_path / "models" / "a.onnx")
    use_place(session, str(tmp_path / "models"))
    assert session.record.files == str(tmp_path / "models")
    go(app, "candidates")


def test_every_kind_of_job_shows_in_the_sidebar() -> None:
    assert set(JOB_PAGES) == set(TASKS)
    assert {page for page, _ in JOB_PAGES.values()} <= set(PAGES)
