"""Parts of the pictures of the documentation, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LINE, PAD = 15, 8
"""Height of a line of text, and the space between a text and the edge of its box."""


def box(x: int, y: int, width: int, texts: Sequence[str], kind: str = "box") -> str:
    """A box of texts, one below the other."""
    height = len(texts) * LINE + 2 * PAD - 8
    lines = (
        label(x + PAD, y + PAD + 8 + index * LINE, text, "step") for index, text in enumerate(texts)
    )
    return rectangle(kind, x, y, width, height) + "".join(lines)


def rectangle(kind: str, x: int, y: int, width: int, height: int) -> str:
    """A rectangle with round corners."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'


def label(x: int, y: int, text: str, kind: str) -> str:
    """A line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}" xml:space="preserve">{escape(text)}</text>'


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A picture of some parts on a white ground."""
    body = "\n".join(parts)
    view = f"-8 0 {width + 16} {height + 8}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img">
<title>{escape(title)}</title>
<style>
text {{ font: 12px sans-serif; fill: #222 }}
.title {{ font-weight: bold }}
.name {{ font-family: monospace }}
.layer {{ fill: #eef0fa }}
.box {{ fill: #fff; stroke: #4051b5 }}
.note {{ fill: #fffbe6; stroke: #b58900 }}
.gone {{ fill: #f4f4f4; stroke: #999; stroke-dasharray: 4 }}
.line {{ stroke: #4051b5; stroke-width: 2; fill: none }}
</style>
<rect x="-8" width="{width + 16}" height="{height + 8}" fill="#fff"/>
{body}
</svg>
"""
