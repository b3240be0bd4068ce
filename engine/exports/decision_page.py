"""A decision for reading: sections of HTML for the certificate, and one self-contained page that prints well.

Knows how a brief is laid out. Says nothing that the brief does not, and every text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from engine.decide.brief import NO_CONCERN, Brief, Dot, compared_words, label_words, table_of
from engine.exports.layout import page, table

_WIDTH, _HEIGHT = 640, 280  # of the picture, in its own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 16, 44


def decision_page(brief: Brief) -> str:
    """Return the decision as one HTML page that loads nothing else."""
    made = f"<p class=soft>{escape(' · '.join(filter(None, (brief.title, brief.made))))}</p>"
    foot = "<p class=soft>Made by Anchorpoint.</p>"
    return page(
        f"Decision: {brief.pick.name}", f"<h1>Which model to deploy</h1>{made}{decision_html(brief)}{foot}"
    )


def decision_html(brief: Brief, *, facts: Sequence[str] = ()) -> str:
    """Return the decision as sections of a page; `facts` are sentences on size and speed, where measured."""
    tone = "ok" if brief.is_firm else "warn"
    numbers = table_of(brief)
    rows = [list(map(escape, row)) for row in numbers.rows]
    parts = [
        "<h2>The decision</h2>",
        f'<p class="lead {tone}">{escape(brief.verdict)}</p>',
        f"<div class=wide>{table(numbers.heads, rows)}</div>",
        "<p class=soft>In brackets: 95 % intervals. ↓ lower is better.</p>",
        *(f"<p>{escape(fact)}</p>" for fact in (brief.sign_off, *facts) if fact),
        _picture(brief),
        f"<h2>What was compared</h2><p>{escape(compared_words(brief))}</p>",
        f"<h2>Labels</h2><p>{escape(label_words(brief))}</p>",
        f"<h2>What could be wrong</h2>{_listing(brief.concerns or (NO_CONCERN,))}",
    ]
    if brief.preprocessing:
        parts.append(f"<h2>Preprocessing</h2><p>{escape(brief.preprocessing)}</p>")
    return "\n".join(parts)


def _listing(sentences: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _picture(brief: Brief) -> str:
    """Every candidate by memory and accuracy, the one that is taken ringed, the teacher as a line."""
    if len(brief.dots) < 2:
        return ""
    what = "right on the labels" if brief.n_labels else "the teacher's class"
    widest = max(dot.memory for dot in brief.dots) or 1.0
    marks = "".join(_mark(dot, widest, brief) for dot in brief.dots)
    teacher = ""
    if brief.teacher.accuracy is not None and brief.n_labels:
        y = _y(brief.teacher.accuracy.value)
        teacher = (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--ink)"'
            f' stroke-dasharray="5 4"/><text x="{_LEFT + 4}" y="{y - 5:.1f}"'
            ' fill="var(--ink)">teacher</text>'
        )
    title = f"{len(brief.dots)} candidates: share {what} against weight memory"
    return (
        f'<h2>All candidates</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">{_axes(widest, what, brief.whole)}{teacher}{marks}</svg>'
    )


def _axes(widest: float, what: str, whole: str) -> str:
    base = _HEIGHT - _BOTTOM
    parts = []
    for step in range(5):
        share = step / 4
        y, x = _y(share), _x(share * widest, widest)
        anchor = "end" if step == 4 else "middle"  # the last one stays inside
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/><text'
            f' x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="var(--soft)">{100 * share:.0f}'
            f' %</text><text x="{x:.1f}" y="{base + 17}" text-anchor="{anchor}"'
            f' fill="var(--soft)">{100 * share * widest:.3g} %</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle" fill="var(--soft)">weights, share'
        f" of {escape(whole)} · up: {escape(what)}</text>"
    )
    return "".join(parts)


def _mark(dot: Dot, widest: float, brief: Brief) -> str:
    x, y, is_taken = _x(dot.memory, widest), _y(dot.height), dot.name == brief.pick.name
    circle = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if is_taken else 3.5}" fill="var(--bar)"'
        f' fill-opacity="{1 if is_taken else 0.45}"><title>{escape(dot.name)}</title></circle>'
    )
    if not is_taken:
        return circle
    anchor = "start" if x < _WIDTH / 2 else "end"
    shift = 12 if anchor == "start" else -12
    return (
        f'{circle}<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="var(--ink)" stroke-width="2"/>'
        f'<text x="{x + shift:.1f}" y="{y + 20:.1f}" text-anchor="{anchor}" fill="var(--ink)"'
        f' font-weight="600">{escape(dot.name)}</text>'
    )


def _x(memory: float, widest: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * memory / widest


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)
