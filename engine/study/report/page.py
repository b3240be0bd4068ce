"""A study as one self-contained HTML page, with its tables as CSV and Markdown and its pictures as SVG and
PNG beside it.

Knows the page. No scripts, no outside resources; everything that comes from a file name is escaped.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from engine.study.figures.drawing import render_png, render_svg, render_svg_file
from engine.study.figures.rules import FIGURES
from engine.study.protocol.groups import ALL_FAMILIES
from engine.study.protocol.result import StudyResult, write_csv, write_text
from engine.study.report.evidence import evidence_markdown
from engine.study.tables.catalog import CATALOG, Table, make_tables
from engine.study.tables.findings import summary
from engine.study.tables.numbers import cells, head, to_markdown
from engine.study.tables.regret import ABLATIONS

_FOLDED_ROWS = 20  # a longer table starts folded
_OPEN = ("regret_at_smallest_budget", "where_anchoring_wins")  # what a reader came for
_RANKED = (
    "regret_by_budget",
    "median_regret_by_budget",
    "corruption_grid",
    "regret_by_family",
    "constrained_selection",
    "controls",
    "anchor_placement",
    "label_free_beside_the_paper",
)
_NOT_RULES = {
    "source",
    "models",
    "setting",
    "family",
    "n",
    "rate",
    "memory_budget",
    "lowest",
    "control_reverted_to_anchor",
}
_STYLE = """
:root{color-scheme:light dark;--ink:#1d1f23;--soft:#5d636e;--line:#d9dce1;--card:#f6f7f9;--page:#fff;--accent:#b34700}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a3a9b4;--line:#3a3f47;--card:#22252a;--page:#17191c;--accent:#ff9a57}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1200px;margin:0 auto;padding:2.5rem 1.25rem 4rem}h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.25rem;margin:3rem 0 .2rem}
p{margin:.3rem 0 .8rem;max-width:46rem}.soft{color:var(--soft);font-size:.92rem}ul.found{padding-left:1.2rem;max-width:50rem}ul.found li{margin:.25rem 0}
nav{columns:2;column-gap:2.5rem;padding:1rem 1.25rem;background:var(--card);border-radius:10px;margin:1.5rem 0;font-size:.93rem}nav a{display:block;color:inherit;text-decoration:none;padding:.12rem 0}nav a:hover{color:var(--accent)}
figure{margin:1rem 0;overflow-x:auto}figure svg{max-width:100%;height:auto;color:var(--ink)}
figcaption{font-weight:600;margin:.2rem 0 .7rem;max-width:50rem}.scroll{overflow-x:auto;width:fit-content;max-width:100%;border:1px solid var(--line);border-radius:8px}table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.36rem .7rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}tr:last-child td{border-bottom:0}th{font-weight:600;background:var(--card);position:sticky;top:0}
.text{text-align:left}tr.next td{border-top:2px solid var(--line)}td.low{font-weight:700;color:var(--accent)}summary{cursor:pointer;padding:.3rem 0;color:var(--soft)}
pre{background:var(--card);padding:1rem;border-radius:8px;overflow-x:auto;font-size:.8rem}@media(max-width:640px){nav{columns:1}}
@media print{details>*{display:block}nav{display:none}}
"""


def write_report(result: StudyResult, out: str | Path | None = None) -> Path:
    """Write tables/*.csv and *.md, figures/*.svg and *.png, evidence.md and report.html into a folder (the
    study's own by default).

    Returns the path of report.html, which appears last and whole.
    """
    folder = Path(out) if out is not None else result.out
    tables = make_tables(result)
    for name, table in tables.items():
        write_csv(table, folder / "tables" / f"{name}.csv")
        write_text(to_markdown(table), folder / "tables" / f"{name}.md")
    charts = make_charts(result, tables)
    for name, chart in charts.items():
        picture = render_svg_file(chart)
        write_text(picture, folder / "figures" / f"{name}.svg")
        write_text(render_png(picture), folder / "figures" / f"{name}.png")
    write_text(evidence_markdown(result), folder / "evidence.md")
    write_text(_page(result, tables, charts), folder / "report.html")
    return folder / "report.html"


def make_charts(result: StudyResult, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the altair chart of every table that has one, by the table's name."""
    made = {name: FIGURES[name](result) for name in tables if name in FIGURES}
    return {name: chart for name, chart in made.items() if chart is not None}


def _page(result: StudyResult, tables: dict[str, pd.DataFrame], charts: dict[str, Any]) -> str:
    shown = [table for table in CATALOG if table.name in tables]
    links = "".join(f'<a href="#{table.name}">{escape(table.question)}</a>' for table in shown)
    sections = "".join(_section(table, tables[table.name], charts.get(table.name)) for table in shown)
    count = (
        f"{len(result.families)} {'family' if len(result.families) == 1 else 'families'},"
        f" {len(result.results):,} selections"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        ' content="width=device-width,initial-scale=1">'
        f"<title>Selection study: {escape(count)}</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>Which rule chooses well on these models?</h1><p class="soft">{escape(count)}. Regret is the'
        " test cross-entropy lost by a choice: "
        "0 is the best candidate of the family, lower is better. Repetitions are averaged within a family;"
        " the family is the unit.</p>"
        f'<ul class="found">{"".join(f"<li>{escape(sentence)}</li>" for sentence in summary(result))}</ul>'
        f"{_skipped(result)}<nav>{links}</nav>{sections}{_settings(result)}</main></body></html>\n"
    )


def _section(table: Table, data: pd.DataFrame, chart: Any | None) -> str:
    picture = ""
    if chart is not None:
        picture = f"<figure><figcaption>{escape(str(chart.title))}</figcaption>{render_svg(chart, prefix=table.name)}</figure>"
    body = f'<div class="scroll">{_html_table(data, ranked=table.name in _RANKED)}</div>'
    if len(data) > _FOLDED_ROWS:
        is_open = " open" if table.name in _OPEN else ""
        body = f"<details{is_open}><summary>Table, {len(data)} rows</summary>{body}</details>"
    return (
        f'<section id="{table.name}"><h2>{escape(table.question)}</h2><p'
        f' class="soft">{escape(table.note)}</p>{picture}{body}</section>'
    )


def _html_table(data: pd.DataFrame, *, ranked: bool) -> str:
    if "setting" in data and set(data["setting"]) == {ALL_FAMILIES}:
        data = data.drop(columns="setting")
    text = [
        not pd.api.types.is_numeric_dtype(data[name]) or data[name].dtype == bool for name in data.columns
    ]
    heads = "".join(
        f"<th{_class('text' if is_text else '')}>{escape(head(str(name)))}</th>"
        for name, is_text in zip(data.columns, text, strict=True)
    )
    lowest = _lowest(data) if ranked else [set() for _ in range(len(data))]
    groups = data["setting"].tolist() if "setting" in data else [""] * len(data)
    rows = []
    for at, row in enumerate(cells(data)):
        marked = (
            f"<td{_class(' '.join(filter(None, ('text' if text[i] else '', 'low' if i in lowest[at] else ''))))}>{escape(value)}</td>"
            for i, value in enumerate(row)
        )
        rows.append(
            f"<tr{_class('next' if at and groups[at] != groups[at - 1] else '')}>{''.join(marked)}</tr>"
        )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _lowest(data: pd.DataFrame) -> list[set[int]]:
    """Columns of each row that hold the lowest regret, the label-free anchor included and the ablations left
    out.
    """
    rules = [i for i, name in enumerate(data.columns) if name not in _NOT_RULES and name not in ABLATIONS]
    values = data.iloc[:, rules].to_numpy(dtype=float)
    return [
        (
            {rules[j] for j in range(len(rules)) if row[j] == row[~pd.isna(row)].min()}
            if (~pd.isna(row)).any()
            else set()
        )
        for row in values
    ]


def _skipped(result: StudyResult) -> str:
    if not result.skipped:
        return ""
    lines = "".join(
        f"<li><b>{escape(entry.family)}</b>: {escape(entry.reason)}</li>" for entry in result.skipped
    )
    return f'<p>Left out:</p><ul class="found">{lines}</ul>'


def _settings(result: StudyResult) -> str:
    shown = {
        key: result.metadata[key]
        for key in ("config", "files", "seeds", "versions")
        if key in result.metadata
    }
    return (
        "<h2>How this was made</h2><details><summary>Settings, files and"
        f" versions</summary><pre>{escape(json.dumps(shown, indent=1))}</pre></details>"
    )
