"""A study's evidence on one short Markdown page: where anchoring wins and loses, beside the paper's numbers.

Reads the tables; the page is written by the same run that made them, so it cannot go out of step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from engine.decide.choose import METHODS
from engine.study.protocol.active import ACTIVE
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.groups import ALL_FAMILIES
from engine.study.protocol.noise import MATRIX
from engine.study.protocol.result import StudyResult
from engine.study.tables import families as family_tables
from engine.study.tables import paper
from engine.study.tables import regret as tables
from engine.study.tables.findings import summary
from engine.study.tables.numbers import to_markdown

_CAVEATS = (
    (
        "Regret is the test cross-entropy of the chosen candidate minus that of the best one, in nats; 0 is"
        " perfect."
    ),
    (
        "Each number averages the repetitions within a family; the family is the unit, and with few families"
        " no test can be significant."
    ),
    (
        "The paper's lines are its own settings (ResNet50, MobileNetV2 and ViT families), repeated for scale:"
        " other models, other targets."
    ),
)


def evidence_markdown(result: StudyResult) -> str:
    """Return the page: findings, anchored against direct validation, label-free rules, every rule by family,
    regimes.
    """
    by_family = replace(result, groups=result.groups.assign(setting=result.groups["family"]))
    clean = tables.regret_by_family(result)
    parts = [
        f"# Evidence from {len(result.families)} families",
        "Made by:\n\n" + f"    {command(result.metadata)}",
        "\n".join(f"- {sentence}" for sentence in summary(result)),
        _wins_and_losses(result),
        _section(
            "The anchored rule minus direct validation",
            "Negative: the anchored rule (CE-combo) lowers mean regret.",
            paper.anchoring_beside_the_paper(result),
        ),
        _section(
            "Without labels", "Mean regret, lower is better.", paper.label_free_beside_the_paper(result)
        ),
        _section(
            "Every rule, clean labels", "Mean regret.", clean.drop(columns="setting") if len(clean) else clean
        ),
        _section(
            "Few and wrong labels",
            "Mean regret over the families; the last column names the lowest.",
            tables.corruption_grid(result),
        ),
        _section(
            "Can confidence be trusted?",
            "Regret of the confidence rules, and why.",
            family_tables.regimes(by_family),
        ),
        "## How to read this\n\n" + "\n".join(f"- {line}" for line in _CAVEATS),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def command(metadata: dict[str, Any]) -> str:
    """Return the command line that repeats a study, with file names without their folders."""
    config, files = metadata.get("config", {}), metadata.get("files", {})
    names = " ".join(entry["file"] for entry in files.values())
    limits = ",".join(f"{limit:g}" for limit in config.get("memory_budgets", []) if limit is not None)
    default, rules = (
        StudyConfig().to_dict(),
        [rule for rule in config.get("rules", METHODS) if rule != ACTIVE],
    )
    options = [
        f"--budgets {','.join(map(str, config.get('budgets', [])))}",
        f"--rates {','.join(f'{rate:g}' for rate in config.get('rates', []))}",
        f"--memory-budgets {limits}" if limits else "",
        f"--repetitions {config['repetitions']}" if config.get("repetitions") else "",
        f"--rules {','.join(rules)}" if rules and rules != list(METHODS) else "",
        "--active" if ACTIVE in config.get("rules", ()) else "",
        *(
            f"--{name} {','.join(map(str, config[name]))}"
            for name in ("anchors", "floors")
            if tuple(config.get(name, default[name])) != default[name]
        ),
        *(
            f"--{name.replace('_', '-')} {config[name] if config[name] != MATRIX else 'matrix.csv'}"
            for name in ("noise", "label_trust")
            if config.get(name, default[name]) != default[name]
        ),
    ]
    return " ".join(part for part in ("python -m engine study", names, "--out study", *options) if part)


def _wins_and_losses(result: StudyResult) -> str:
    """Name the models in which anchoring helps and hurts, for each number of clean labels."""
    table = paper.anchoring_beside_the_paper(result)
    if not len(table):
        return ""
    here = table[(table["source"] == "here") & (table["rate"] == 0)]
    lines = []
    for column in here.columns[3:]:
        helped, hurt = here["models"][here[column] < 0], here["models"][here[column] > 0]
        lines.append(
            f"- {column}: helps in {', '.join(helped) or 'none'}; hurts in {', '.join(hurt) or 'none'}."
        )
    return "The anchored rule against direct validation, clean labels:\n\n" + "\n".join(lines)


def _section(title: str, note: str, table: pd.DataFrame) -> str:
    if "setting" in table and set(table["setting"]) == {ALL_FAMILIES}:
        table = table.drop(columns="setting")
    return f"## {title}\n\n{note}\n\n{to_markdown(table).rstrip()}" if len(table) else ""
