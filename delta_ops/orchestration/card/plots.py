"""Plots of a table's card: small SVG pictures, generated as text.

An image does not know its background, so all colours have a medium brightness, visible on white and
on the UI's dark background. Texts from a log are escaped.
"""

from __future__ import annotations

import base64
import html
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from delta_ops.orchestration.markdown import plain_text
from delta_ops.protocol.values.wide_timestamps import utc_text
from delta_ops.units import size_text

_WIDTH = 620
TEXT, GOOD, BAD = "#6f7988", "#3f7fd1", "#cf7016"
_LINE, _CALM = "#8a94a3", "#7a8797"
SIZE_BOUNDS = tuple(4**power for power in range(5, 18))
"""First size in bytes of each bin of file sizes after the first bin: from 1 KiB to 16 GiB."""
_MAX_BINS = 11
_MAX_LANES = 5
_MAINTENANCE = ("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture and its text alternative."""

    svg: str
    text: str

    def markdown(self) -> str:
        """The picture as a Markdown image with a data URL."""
        data = base64.b64encode(self.svg.encode()).decode()
        return f"![{plain_text(self.text)}](data:image/svg+xml;base64,{data})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPoint:
    """A commit in a plot."""

    timestamp_ms: int
    operation: str


def file_size_plot(sizes: Sequence[int], enough_bytes: int) -> Plot:
    """Plot a histogram of file sizes; small files have another colour.

    Args:
        sizes: Sizes in bytes, in any order.
        enough_bytes: A file of at least this size is large enough.
    """
    small = Counter(bisect_right(SIZE_BOUNDS, size) for size in sizes if size < enough_bytes)
    large = Counter(bisect_right(SIZE_BOUNDS, size) for size in sizes if size >= enough_bytes)
    num_small, num_large = small.total(), large.total()
    text = f"Files by size: {num_small:,} to compact, {num_large:,} large enough"
    found = [*small, *large, bisect_right(SIZE_BOUNDS, enough_bytes)]
    last = max(found)
    first = max(min(found), last - _MAX_BINS + 1)
    for counts in (small, large):
        counts[first] += sum(count for each, count in counts.items() if each < first)
    bins = range(first, last + 1)
    top, bottom, step = 40, 128, (_WIDTH - 20) / len(bins)
    scale = (bottom - top) / max(1, *(small[each] + large[each] for each in bins))
    parts = _title("Files by size") + _legend(
        (f"{num_small:,} to compact", BAD), (f"{num_large:,} large enough", GOOD)
    )
    for place, each in enumerate(bins):
        x, y = 10 + place * step, float(bottom)
        for count, colour in ((large[each], GOOD), (small[each], BAD)):
            height = max(count * scale, 2.0) if count else 0.0
            y -= height
            if count:
                parts += _rect(x + 3, y, step - 6, height, colour)
        if small[each] or large[each]:
            parts += _text(x + step / 2, y - 4, f"{small[each] + large[each]:,}", "middle")
        if each:
            bound = size_text(SIZE_BOUNDS[each - 1])
            parts += _text(x, bottom + 15, bound, "middle" if place else "start")
    parts += _line(10, _WIDTH - 10, bottom)
    return Plot(svg=_svg(150, text, parts), text=text)


def commit_plot(commits: Sequence[CommitPoint]) -> Plot:
    """Plot the times of commits, with a lane for each operation.

    Args:
        commits: At least one commit.
    """
    counts = Counter(commit.operation for commit in commits)
    lanes = [name for name, _ in counts.most_common(_MAX_LANES)]
    if len(counts) > _MAX_LANES:
        lanes[-1] = "others"
    first = min(commit.timestamp_ms for commit in commits)
    last = max(commit.timestamp_ms for commit in commits)
    begin, end = _time_text(first), _time_text(last)
    text = f"Commits: the last {len(commits)}, from {begin} to {end} UTC"
    left, right, top, lane_height = 130, _WIDTH - 20, 42, 20
    bottom = top + lane_height * len(lanes)
    parts = _title(f"Commits, the last {len(commits)}")
    for number, name in enumerate(lanes):
        y = top + lane_height * number
        parts += _text(left - 14, y + 4, _short(name), "end") + _line(left, right, y, dash="2 4")
    dots: defaultdict[str, str] = defaultdict(str)
    for commit in commits:
        lane = lanes.index(commit.operation) if commit.operation in lanes else len(lanes) - 1
        share = (commit.timestamp_ms - first) / (last - first) if last > first else 0.5
        colour = _CALM if commit.operation in _MAINTENANCE else GOOD
        dots[colour] += f"M{left + share * (right - left):.0f} {top + lane_height * lane}h0"
    for colour, path in dots.items():
        # Zero-length lines with round ends look like circles and need a tenth of the bytes.
        parts += (
            f'<path d="{path}" stroke="{colour}" stroke-width="9" stroke-linecap="round" '
            f'stroke-opacity=".8"/>'
        )
    parts += _text(left, bottom + 6, begin, "start") + _text(right, bottom + 6, end, "end")
    return Plot(svg=_svg(bottom + 16, text, parts), text=text)


def log_plot(*, earliest: int, checkpoint: int | None, latest: int, interval: int) -> Plot:
    """Plot the log: versions before the checkpoint, and commits that every reader replays.

    Args:
        earliest: The first readable version.
        checkpoint: Version of the newest checkpoint.
        latest: The latest version.
        interval: Number of commits between checkpoints.
    """
    begin = earliest if checkpoint is None else min(earliest, checkpoint)
    tail = latest - (begin - 1 if checkpoint is None else checkpoint)
    newest = "no checkpoint" if checkpoint is None else f"checkpoint {checkpoint}"
    text = (
        f"Log: {newest}, commits since then: {tail}, a checkpoint is due after {interval}; "
        f"versions {begin} to {latest}"
    )
    left, right, y = 16, _WIDTH - 16, 52
    kept = 0.0 if checkpoint is None else 1 - tail / max(latest - begin, 1)
    mark = left + kept * (right - left)
    colour = BAD if tail >= interval else GOOD
    to_do = f"{tail} of {interval} commits to the next checkpoint"
    overdue = f"{tail} commits to replay, a checkpoint is due after {interval}"
    parts = _title("Log") + _legend((overdue if tail >= interval else to_do, colour))
    parts += _rect(left, y - 4, mark - left, 8, _LINE) + _rect(mark, y - 4, right - mark, 8, colour)
    parts += _text(left, y + 22, f"version {begin}", "start")
    parts += _text(right, y + 22, f"version {latest}", "end")
    if checkpoint is not None:
        anchor = "start" if mark < 80 else "end" if mark > _WIDTH - 80 else "middle"
        parts += f'<circle cx="{mark:.1f}" cy="{y}" r="7" fill="{GOOD}"/>'
        parts += _text(mark, y - 12, newest, anchor)
    return Plot(svg=_svg(84, text, parts), text=text)


def _svg(height: int, text: str, parts: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="12">'
        f"<title>{html.escape(text)}</title>{parts}</svg>"
    )


def _title(text: str) -> str:
    return f'<text x="10" y="16" font-weight="bold" fill="{TEXT}">{html.escape(text)}</text>'


def _legend(*meanings: tuple[str, str]) -> str:
    """The meaning of the colours, at the right end: each text follows a square of its colour.

    The squares are characters, because the width of a text is unknown here.
    """
    parts = [f'<tspan fill="{colour}">■</tspan> {html.escape(text)}' for text, colour in meanings]
    between = "\u2003".join(parts)
    return f'<text x="{_WIDTH - 10}" y="16" text-anchor="end" fill="{TEXT}">{between}</text>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    shown = html.escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{TEXT}">{shown}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" rx="2" '
        f'fill="{colour}"/>'
    )


def _line(x1: float, x2: float, y: float, *, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1} {y}H{x2}" stroke="{_LINE}"{dashes}/>'


def _short(text: str) -> str:
    return text if len(text) <= 17 else f"{text[:16]}…"


def _time_text(ms: int) -> str:
    return utc_text(ms)[:16].replace("T", " ")
