"""The certificate of somebody's file for reading: a self-contained HTML page with the decision behind it.

Knows layout and words. Every number comes from the certificate, and every text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from engine.exports.certificate import Check
from engine.exports.layout import nowrap, page, table
from engine.exports.report import checks_html, evidence_html, size


def file_page(facts: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """Return the page of a certificate's `facts` and what was checked when it was written."""
    model = facts["model"]
    passed = all(check.passed for check in checks)
    mark, tone = ("✓", "ok") if passed else ("✗", "bad")
    takes = f"{size(model['n_bytes'])} on disk, for {facts['runtime']}."
    body = [
        f"<h1>{mark} <span class={tone}>{_finding(facts, passed)}</span></h1>",
        f"<p><strong>{escape(model['name'])}</strong>: {escape(model['format'])}, {escape(takes)}</p>",
        evidence_html(facts["evidence"], facts=(f"The file takes {takes}",)),
        checks_html(checks),
        "<h2>What was assumed</h2>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in model["notes"]) + "</ul>",
        "<h2>Origin</h2>",
        table(("", ""), [[nowrap(key), escape(str(value))] for key, value in _origin(facts)]),
    ]
    return page(f"Certificate of {model['name']}", "\n".join(body))


def _finding(facts: Mapping[str, Any], passed: bool) -> str:
    if not passed:
        return "This file does not repeat what was judged: do not deploy it"
    if facts["judged"]:
        return "This file is the one that was judged"
    return "This file is copied unchanged; it was not compared with predictions"


def _origin(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    model, taken, given = facts["model"], facts["model"]["input"], facts["model"]["output"]
    yield "found as", model["source"]
    yield "input", f"{taken['name']}, {taken['dtype']}"
    yield from taken["preprocessing"].items()
    yield "output", f"{given['name']}, {given['dtype']}, {given['kind']} of {given['n_classes']} classes"
    yield "runtime", facts["runtime"]
    yield from ((f"sha256 of {name}", value) for name, value in facts["files"].items())
