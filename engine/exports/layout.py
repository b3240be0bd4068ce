"""How our HTML pages look: one self-contained page that loads nothing, tables, and text that cannot become
markup.

Knows HTML and CSS. Knows nothing of what is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1c1e;--page:#fff;--line:#d5d9dd;--soft:#5c6670;--bar:#2f6fb0;--ok:#1b7a3d;--bad:#b3261e;--warn:#8a4b00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--page:#15181b;--line:#3a4147;--soft:#a2acb5;--bar:#6aa7e0;--ok:#67c98b;--bad:#ff8a80;--warn:#ffb86b}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:56rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.1rem;margin-top:2rem}.ok{color:var(--ok)}.bad{color:var(--bad)}.soft{color:var(--soft)}.warn{color:var(--warn)}
.wide{overflow-x:auto}.lead{font-size:1.15rem;font-weight:600}svg{width:100%;max-width:42rem;height:auto;font:12px system-ui,sans-serif}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top}td:last-child{overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}.n{white-space:nowrap}
.room{width:60%}.bar{background:var(--bar);height:.9rem;border-radius:2px}code,pre{font:.85rem/1.5 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
@media print{:root{--ink:#000;--page:#fff;--line:#bbb;--soft:#444;--bar:#2f6fb0;--ok:#1b7a3d;--bad:#b3261e;--warn:#8a4b00}
body{margin:0;max-width:none;font-size:11pt}h2,tr,svg,li{break-inside:avoid}h2{break-after:avoid}.wide{overflow:visible}}
@page{margin:16mm}
"""


def page(title: str, body: str) -> str:
    """Return a whole page that runs no script and fetches nothing; `body` is HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        ' content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src'
        " 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def nowrap(text: str) -> str:
    """Return text that stays on one line."""
    return f"<span class=n>{escape(text)}</span>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; rows are HTML already, heads are text."""
    head = "<tr>" + "".join(f"<th>{escape(item)}</th>" for item in heads) + "</tr>" if any(heads) else ""
    return (
        "<table>"
        + head
        + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        + "</table>"
    )
