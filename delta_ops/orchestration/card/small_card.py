"""The small card: a table at one version as a line of figures and one small picture.

Each event that shows a table has it. Dagster's UI shows Markdown below 1,000 characters in place,
without a click, so the card stays below. It needs the snapshot only, and no further request to the
store. The page of an asset shows the `dagster/uri` of its definition only, so the card is where a
table without one shows its place.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.plan import small_file_limit
from delta_ops.maintenance.optimize.small_files import target_size_bytes
from delta_ops.orchestration.card.plots import BAD, GOOD, SIZE_BOUNDS, TEXT
from delta_ops.orchestration.markdown import place_link
from delta_ops.units import count_text, size_text

MAX_LENGTH = 999
_MAX_FILES = 10_000
"""Tables with more live files have no picture."""
_MAX_BINS = 8
_WIDTH, _MAX_STEP, _TOP, _BOTTOM = 208, 40, 18, 46
"""Pixels; at this width, the table of metadata fits into a page of 1,280 pixels."""


def small_card(snapshot: Snapshot, num_rows: int | None, *, is_placed: bool = False) -> str:
    """The card of a table, as Markdown.

    Args:
        num_rows: None if unknown.
        is_placed: Whether the asset's definition shows the place of the table, so that the card
            does not.
    """
    figures = [
        f"version {snapshot.version}",
        *([] if num_rows is None else [count_text(num_rows, "row")]),
        count_text(snapshot.num_files, "file"),
        size_text(snapshot.size_bytes),
    ]
    line = f"**{', '.join(figures)}**" + ("" if is_placed else f" in {place_link(snapshot.uri)}")
    if not 0 < snapshot.num_files <= _MAX_FILES:
        return line
    card = f"{line}\n\n{_picture(snapshot)}"
    return card if len(card) <= MAX_LENGTH else line


def _picture(snapshot: Snapshot) -> str:
    """The files by size, and the commits since the last checkpoint, as a Markdown image."""
    small, large = _file_sizes(snapshot)
    interval = snapshot.properties.checkpoint_interval
    commits = snapshot.commits_since_checkpoint
    parts = [
        _text(0, 10, f"Files by size: {len(small):,} small, {len(large):,} fine"),
        *_bars(small, large),
        _text(0, 78, f"{count_text(commits, 'commit')} since checkpoint, limit {interval}"),
        _stroke(f"M0 86H{_WIDTH}", 4, "#8a94a3"),
        _stroke(
            f"M0 86H{min(commits / max(interval, 1), 1) * _WIDTH:.0f}",
            4,
            BAD if commits >= interval else GOOD,
        ),
    ]
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='90' fill='{TEXT}' "
        f"font-family='sans-serif' font-size='10.5'>{''.join(parts)}</svg>"
    )
    for character, code in (("<", "%3C"), (">", "%3E"), ("#", "%23")):
        svg = svg.replace(character, code)
    return f"![Files by size](<data:image/svg+xml,{svg}>)"


def _file_sizes(snapshot: Snapshot) -> tuple[list[int], list[int]]:
    """Two lists: sizes of small files that optimize can combine, and sizes of all other files."""
    limit = small_file_limit(target_size_bytes(snapshot, None))
    sizes: list[tuple[int, object]] = []
    for adds in snapshot.stream_live(["size", "partitionValues"]):
        partitions = (tuple(each or ()) for each in adds["partitionValues"].to_pylist())
        sizes += zip(adds["size"].to_pylist(), partitions, strict=True)
    if snapshot.clustering_columns:  # the layout decides the sizes
        limit = 0
    counts = Counter(partition for size, partition in sizes if size < limit)
    is_small = [size < limit and counts[partition] > 1 for size, partition in sizes]
    small = [size for (size, _), is_so in zip(sizes, is_small, strict=True) if is_so]
    large = [size for (size, _), is_so in zip(sizes, is_small, strict=True) if not is_so]
    return small, large


def _bars(small: Sequence[int], large: Sequence[int]) -> list[str]:
    """The histogram of the sizes: a bar for each power of 4 KiB."""
    bins = [Counter(bisect_right(SIZE_BOUNDS, size) for size in sizes) for sizes in (small, large)]
    last = max(bins[0] | bins[1])
    first = max(min(bins[0] | bins[1]), last - _MAX_BINS + 1)
    totals = Counter[int]()
    paths = ["", ""]
    step = min(_WIDTH / (last - first + 1), _MAX_STEP)
    for counts in bins:
        counts[first] += sum(counts.pop(each) for each in list(counts) if each < first)
    scale = (_BOTTOM - _TOP) / max((bins[0] + bins[1]).values())
    for number in (1, 0):  # small files on top
        for each, count in sorted(bins[number].items()):
            if not count:
                continue
            height = max(round(count * scale), 2)
            x = (each - first + 0.5) * step
            paths[number] += f"M{x:.0f} {_BOTTOM - totals[each]}v-{height}"
            totals[each] += height
    width = round(step) - 6
    colours = (BAD, GOOD)
    strokes = [
        _stroke(path, width, colour) for path, colour in zip(paths, colours, strict=True) if path
    ]
    low = "0" if first == 0 else size_text(SIZE_BOUNDS[first - 1])
    high = size_text(SIZE_BOUNDS[min(last, len(SIZE_BOUNDS) - 1)])
    if first == last:
        return [*strokes, _text(0, 60, f"{low} to {high}")]
    end = round(step * (last - first + 1))
    return [*strokes, _text(0, 60, low), _text(end, 60, high, " text-anchor='middle'")]


def _text(x: int, y: int, text: str, anchor: str = "") -> str:
    return f"<text x='{x}' y='{y}'{anchor}>{html.escape(text)}</text>"


def _stroke(path: str, width: int, colour: str) -> str:
    return f"<path d='{path}' stroke='{colour}' stroke-width='{width}'/>"
