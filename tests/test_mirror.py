"""Where each module is tested: `engine/room/x.py` in `tests/room/test_x.py`, `pages/ui/room/x.py` in
`tests/pages/ui/room/test_x.py`, or where this table says.

The parts of pages and what they show are tested on the pages that open them. Any other module without a file
of its name needs a line here, and the file named there must reach it: by naming the module or one that leads
to it in two steps at most, by running its command, or by opening the page that shows it.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Module -> the test file that holds it to account. Modules of one room that are tested together stand
# together.
TESTED_IN = {
    "engine/rules/consensus.py": "rules/test_peers.py",
    "engine/rules/prediction_powered.py": "rules/test_peers.py",
    "engine/__main__.py": "commands/test_command_line.py",
    "engine/commands/estimate.py": "commands/test_command_line.py",
    "engine/commands/predict_arguments.py": "commands/test_predict.py",
    "engine/commands/progress.py": "commands/test_predict.py",
    "engine/commands/select.py": "commands/test_command_line.py",
    "engine/commands/verify.py": "commands/test_export.py",
    "engine/decide/choose.py": "commands/test_command_line.py",
    "engine/decide/limits.py": "decide/test_brief.py",
    "engine/decide/drop.py": "decide/test_gate.py",
    "engine/decide/kept.py": "pages/test_large.py",
    "engine/decide/firmness.py": "decide/test_decision.py",
    "engine/decide/briefing.py": "decide/test_brief.py",
    "engine/decide/tables.py": "decide/test_decision.py",
    "engine/words/counts.py": "test_words.py",
    "engine/decide/titles.py": "pages/ui/show/test_words.py",
    "engine/deploy/allocation.py": "deploy/test_mixed.py",
    "engine/deploy/calibration.py": "deploy/test_integers.py",
    "engine/deploy/clipping.py": "deploy/test_mixed.py",
    "engine/deploy/folding.py": "deploy/test_integers.py",
    "engine/deploy/integer_graph.py": "deploy/test_integers.py",
    "engine/deploy/integer_plan.py": "deploy/test_integers.py",
    "engine/deploy/latency.py": "deploy/test_running.py",
    "engine/deploy/moments.py": "deploy/test_mended.py",
    "engine/deploy/ranges.py": "deploy/test_integers.py",
    "engine/deploy/rounding.py": "deploy/test_mended.py",
    "engine/deploy/probing.py": "deploy/test_mixed.py",
    "engine/deploy/sensitivity.py": "deploy/test_mixed.py",
    "engine/deploy/shifting.py": "deploy/test_mended.py",
    "engine/deploy/tailored.py": "deploy/test_running.py",
    "engine/deploy/timing.py": "deploy/test_running.py",
    "engine/deploy/workshop.py": "deploy/test_running.py",
    "engine/diagnose/assumptions.py": "diagnose/test_health.py",
    "engine/family/families.py": "family/test_kinds.py",
    "engine/predictions/deployed.py": "deploy/test_running.py",
    "engine/exports/drafting.py": "exports/test_certificate.py",
    "engine/exports/integer_parity.py": "exports/test_ready.py",
    "engine/exports/parity.py": "exports/test_roundtrip.py",
    "engine/exports/profile_worker.py": "exports/test_profile.py",
    "engine/exports/layout.py": "exports/test_decision_page.py",
    "engine/exports/report.py": "exports/test_certificate.py",
    "engine/exports/sizes.py": "exports/test_graph.py",
    "engine/exports/verification.py": "exports/test_bundle.py",
    "engine/exports/writing.py": "exports/test_roundtrip.py",
    "engine/commands/export_file.py": "exports/test_foreign.py",
    "engine/exports/foreign_predict.py": "exports/test_foreign.py",
    "engine/exports/foreign_page.py": "exports/test_foreign.py",
    "engine/family/cost.py": "family/test_recipes.py",
    "engine/family/model_file.py": "predictions/test_model_files.py",
    "engine/family/weights.py": "family/test_recipes.py",
    "engine/files/npy.py": "predictions/test_folder.py",
    "engine/files/npz.py": "predictions/test_file.py",
    "engine/files/space.py": "predictions/test_folder.py",
    "engine/files/zips.py": "hostile/test_images.py",
    "engine/foreign/inspection.py": "foreign/test_examine.py",
    "engine/foreign/litert_file.py": "foreign/test_runtimes.py",
    "engine/foreign/onnx_file.py": "foreign/test_runtimes.py",
    "engine/foreign/session.py": "predictions/test_model_files.py",
    "engine/guard/child.py": "guard/test_run.py",
    "engine/guard/ends.py": "guard/test_run.py",
    "engine/guard/limits.py": "guard/test_run.py",
    "engine/guard/logs.py": "guard/test_run.py",
    "engine/guard/standing.py": "guard/test_pool.py",
    "engine/predictions/collect.py": "predictions/test_gather.py",
    "engine/predictions/job.py": "predictions/test_model.py",
    "engine/predictions/memory.py": "predictions/test_gather.py",
    "engine/predictions/pixels.py": "predictions/test_gather.py",
    "engine/predictions/planning.py": "predictions/test_gather.py",
    "engine/predictions/probabilities.py": "predictions/test_folder.py",
    "engine/predictions/ray_cluster.py": "predictions/test_ray_run.py",
    "engine/predictions/ray_tasks.py": "predictions/test_ray_run.py",
    "engine/predictions/runner.py": "predictions/test_kill.py",
    "engine/predictions/stack.py": "predictions/test_folder.py",
    "engine/predictions/worker.py": "predictions/test_kill.py",
    "engine/predictions/worker_process.py": "predictions/test_kill.py",
    "engine/recommend/hypotheses.py": "recommend/test_calibrated.py",
    "engine/rules/decoding.py": "rules/test_streaming.py",
    "engine/rules/statistics.py": "rules/test_label_free.py",
    "engine/rules/transport.py": "rules/test_label_free.py",
    "engine/study/figures/drawing.py": "study/report/test_page.py",
    "engine/study/figures/rules.py": "study/report/test_page.py",
    "engine/study/protocol/active.py": "study/protocol/test_one_family.py",
    "engine/study/protocol/candidates.py": "study/protocol/test_one_family.py",
    "engine/study/protocol/config.py": "study/protocol/test_run.py",
    "engine/study/protocol/family_task.py": "study/protocol/test_run.py",
    "engine/study/protocol/groups.py": "study/protocol/test_run.py",
    "engine/study/protocol/result.py": "study/protocol/test_run.py",
    "engine/study/protocol/truth.py": "study/protocol/test_one_family.py",
    "engine/study/report/evidence.py": "study/report/test_page.py",
    "engine/study/tables/catalog.py": "study/tables/test_regret.py",
    "engine/study/tables/comparisons.py": "study/tables/test_regret.py",
    "engine/study/tables/families.py": "study/tables/test_regret.py",
    "engine/study/tables/numbers.py": "study/report/test_page.py",
    "engine/study/tables/paper.py": "study/tables/test_regret.py",
    "engine/target/decoders.py": "hostile/test_images.py",
    "engine/target/label_log.py": "target/test_label_book.py",
    "engine/target/sources.py": "target/test_image_set.py",
    "engine/teacher/graph.py": "teacher/importers/test_onnx.py",
    "engine/teacher/importers/checkpoint.py": "teacher/test_load.py",
    "engine/teacher/importers/exported_program.py": "teacher/importers/test_pt2_file.py",
    "engine/teacher/importers/keras.py": "teacher/importers/test_keras_file.py",
    "engine/teacher/importers/keras_input.py": "teacher/importers/test_keras_file.py",
    "engine/teacher/importers/timm.py": "teacher/test_load.py",
    "engine/teacher/normal_form.py": "teacher/importers/test_onnx.py",
    "engine/teacher/runtime.py": "test_samples.py",
    "pages/ui/jobs/file_tasks.py": "pages/test_model_files.py",
    "pages/ui/session/model_files.py": "pages/test_model_files.py",
    "pages/ui/jobs/tasks.py": "pages/test_live.py",
    "pages/ui/jobs/worker.py": "pages/ui/jobs/test_control.py",
    "pages/ui/session/actions.py": "pages/test_live.py",
    "pages/ui/session/grounds.py": "pages/test_shared.py",
    "pages/ui/session/label_space.py": "pages/test_target.py",
    "pages/ui/session/labels.py": "pages/test_target.py",
    "pages/ui/session/evidence.py": "pages/ui/session/test_state.py",
    "pages/ui/session/work.py": "pages/ui/session/test_state.py",
    "pages/ui/session/record.py": "pages/ui/session/test_state.py",
    "pages/ui/workspace/folder.py": "pages/ui/session/test_state.py",
    "pages/ui/workspace/project_file.py": "pages/ui/workspace/test_projects.py",
    "pages/ui/workspace/weighing.py": "pages/test_large.py",
    "pages/ui/workspace/images.py": "pages/test_target.py",
}
# A package's own file gathers names or says what a room is for; the public one is tested in test_package.py.
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("engine", "pages")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "__init__.py"
)


def own_test(module: str) -> Path:
    """The file that is named after a module."""
    path = Path(module)
    below = path.relative_to("engine") if path.parts[0] == "engine" else path
    return ROOT / "tests" / below.parent / f"test_{path.stem}.py"


def dotted(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def file_of(name: str) -> Path | None:
    """The file behind a module's or a package's dotted name."""
    base = ROOT / name.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module of ours that a file imports, also as `from package import module`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(
        name for name in names if name.startswith(("engine", "pages", "tests")) and file_of(name)
    )


@cache
def shown_on(page: Path) -> frozenset[str]:
    """Every module that opening a page runs."""
    seen: set[str] = set()
    waiting = [page]
    while waiting:
        for name in imported(waiting.pop()) - seen:
            seen.add(name)
            path = file_of(name)
            if path is not None and name.startswith("pages."):
                waiting.append(path)
    return frozenset(seen)


def pages_with(module: str) -> list[Path]:
    """The pages that open a module and have tests of their own."""
    return [
        page
        for page in (ROOT / "pages").glob("*.py")
        if dotted(module) in shown_on(page) and own_test(f"pages/{page.name}").is_file()
    ]


def reaches(test: Path, module: str) -> bool:
    text, name = test.read_text(), dotted(module)
    page = ROOT / "pages" / f"{test.stem.removeprefix('test_')}.py"
    if name in text or name in imported(test):
        return True
    if module.startswith("engine/commands/") and f'"{Path(module).stem.partition("_")[0]}"' in text:
        return True
    if test.parent.name == "pages" and (name in shown_on(page) if page.is_file() else "/ui/" in module):
        return True
    near = {found for step in imported(test) for found in (step, *imported(file_of(step) or test))}
    return any(name in imported(path) for found in near if (path := file_of(found)))


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_tested_somewhere(module: str) -> None:
    own = own_test(module)
    if module.startswith(("pages/ui/parts/", "pages/ui/show/")) and not own.is_file():
        assert pages_with(module), f"no page with tests opens {module}"
        return
    if module not in TESTED_IN:
        assert own.is_file(), f"write {own.relative_to(ROOT)}, or say in TESTED_IN where {module} is tested"
        return
    assert not own.is_file(), f"{module} has a test file of its name: take its line out of TESTED_IN"
    test = ROOT / "tests" / TESTED_IN[module]
    assert test.is_file()
    assert reaches(test, module), f"{TESTED_IN[module]} does not reach {module}"


def test_the_table_names_only_what_exists() -> None:
    assert set(TESTED_IN) <= set(MODULES)
