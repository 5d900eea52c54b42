"""Pictures of versions: a lane for the log of main, and lanes for branches, tags and readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.docs.svg import LINE, PAD, box, label, svg

_LABEL, _COLUMN, _GAP = 132, 150, 18
"""Widths of the names of lanes, of a column, and of the space between columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A box in a lane."""

    column: int
    texts: Sequence[str]
    kind: str = "box"
    """The style: `box`, `gone` for what does not count, `note` for what is said of others."""
    after: Sequence[tuple[int, int]] = ()
    """The lanes and the columns that lines come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Lanes from top to bottom, by their names."""

    title: str
    lanes: Sequence[tuple[str, Sequence[Step]]]

    def draw(self) -> str:
        """The picture as SVG."""
        tops, top = [], 4
        for _, steps in self.lanes:
            tops.append(top)
            top += max(_height(each) for each in steps) + 22
        boxes, lines = [], []
        for lane, (name, steps) in enumerate(self.lanes):
            boxes.append(label(0, tops[lane] + 18, name, "title"))
            for each in steps:
                left = _column_x(each.column)
                boxes.append(box(left, tops[lane], _COLUMN, each.texts, each.kind))
                lines += [_line(tops, start, (lane, each.column)) for start in each.after]
        columns = 1 + max(each.column for _, steps in self.lanes for each in steps)
        return svg(_column_x(columns) - _GAP, top - 12, self.title, [*lines, *boxes])


def _line(tops: Sequence[int], start: tuple[int, int], end: tuple[int, int]) -> str:
    """A line from a lane and column to another: right, then up or down, then right."""
    (start_y, start_x), (end_y, end_x) = (
        (tops[lane] + 16, _column_x(column)) for lane, column in (start, end)
    )
    return (
        f'<path class="line" d="M{start_x + _COLUMN} {start_y}H{end_x - _GAP // 2}V{end_y}'
        f'H{end_x}"/>'
    )


def _column_x(column: int) -> int:
    return _LABEL + column * (_COLUMN + _GAP)


def _height(step: Step) -> int:
    return len(step.texts) * LINE + 2 * PAD - 8


TAGS = Picture(
    title="A tag names a version; a vacuum keeps its files",
    lanes=[
        (
            "main",
            [
                Step(column=0, texts=["version 0", "add A"]),
                Step(column=1, texts=["version 1", "add B"], after=[(0, 0)]),
                Step(column=2, texts=["version 2", "remove A and B", "add C"], after=[(0, 1)]),
                Step(column=3, texts=["version 3", "remove C, add D"], after=[(0, 2)]),
            ],
        ),
        ("tag reports/2026-11", [Step(column=2, texts=["version 1: A, B"], after=[(0, 1)])]),
        (
            "vacuum, weeks later",
            [
                Step(column=2, texts=["keeps A and B"], kind="note"),
                Step(column=3, texts=["deletes C"], kind="gone"),
            ],
        ),
    ],
)
BRANCHES = Picture(
    title="A branch has commits of its own; its publication is one commit on main",
    lanes=[
        (
            "main",
            [
                Step(column=0, texts=["version 7", "live: A"]),
                Step(
                    column=3,
                    texts=["version 8", "PUBLISH BRANCH", "remove A, add C"],
                    after=[(1, 2)],
                ),
            ],
        ),
        (
            "branch audit",
            [
                Step(column=1, texts=["version 8", "remove A, add B"], after=[(0, 0)]),
                Step(column=2, texts=["version 9", "remove B, add C"], after=[(1, 1)]),
            ],
        ),
        (
            "readers see",
            [
                Step(column=0, texts=["A"], kind="note"),
                Step(column=1, texts=["main: A", "branch: B"], kind="note"),
                Step(column=2, texts=["main: A", "branch: C"], kind="note"),
                Step(column=3, texts=["C"], kind="note"),
            ],
        ),
    ],
)
SESSIONS = Picture(
    title="Three steps write to a session, one of them twice; main gets one commit",
    lanes=[
        (
            "main",
            [
                Step(column=0, texts=["version 4", "live: A, B"]),
                Step(
                    column=3,
                    texts=["version 5", "COMMIT SESSION", "remove A, add C and E"],
                    after=[(1, 1), (2, 2), (3, 1)],
                ),
            ],
        ),
        ("step load 1", [Step(column=1, texts=["attempt 1: add C"], after=[(0, 0)])]),
        (
            "step load 2",
            [
                Step(column=1, texts=["attempt 1: add D"], kind="gone", after=[(0, 0)]),
                Step(column=2, texts=["attempt 2: add E"]),
            ],
        ),
        ("step clean", [Step(column=1, texts=["attempt 1: remove A"], after=[(0, 0)])]),
    ],
)
RELEASES = Picture(
    title="A release names a version of each table",
    lanes=[
        (
            "orders",
            [
                Step(column=0, texts=["version 0"]),
                Step(column=1, texts=["version 1"], after=[(0, 0)]),
                Step(column=3, texts=["version 2"], after=[(0, 1)]),
            ],
        ),
        (
            "items",
            [
                Step(column=0, texts=["version 0"]),
                Step(column=2, texts=["version 1"], after=[(1, 0)]),
            ],
        ),
        (
            "release set",
            [
                Step(column=0, texts=["release 1", "orders 0", "items 0"]),
                Step(column=2, texts=["release 2", "orders 1", "items 1"], after=[(2, 0)]),
            ],
        ),
        (
            "its readers see",
            [
                Step(column=0, texts=["release 1"], kind="note"),
                Step(column=1, texts=["release 1"], kind="note"),
                Step(column=2, texts=["release 2"], kind="note"),
                Step(column=3, texts=["release 2"], kind="note"),
            ],
        ),
    ],
)
AUDIT = Picture(
    title="An asset writes to a branch; after its checks, the publish asset commits to main",
    lanes=[
        (
            "steps",
            [
                Step(column=0, texts=["new_orders"]),
                Step(column=1, texts=["has_prices"], after=[(0, 0)]),
                Step(column=2, texts=["orders"], after=[(0, 1)]),
                Step(column=3, texts=["revenue"], after=[(0, 2)]),
            ],
        ),
        (
            "branch",
            [
                Step(column=0, texts=["gets the rows"]),
                Step(column=1, texts=["is read"], after=[(1, 0)]),
            ],
        ),
        (
            "main",
            [
                Step(column=2, texts=["gets the rows in", "one commit"], after=[(1, 1)]),
                Step(column=3, texts=["is read"], after=[(2, 2)]),
            ],
        ),
        (
            "if the check fails",
            [
                Step(column=1, texts=["the branch stays", "for a look"], kind="note"),
                Step(column=2, texts=["does not run", "main as before"], kind="gone"),
                Step(column=3, texts=["does not run"], kind="gone"),
            ],
        ),
    ],
)
REPRODUCE = Picture(
    title="A reproduction reads the versions of then, and writes to branches",
    lanes=[
        (
            "orders",
            [
                Step(column=0, texts=["version 3", "read in November"]),
                Step(column=1, texts=["version 4"], after=[(0, 0)]),
                Step(column=2, texts=["version 5"], after=[(0, 1)]),
            ],
        ),
        (
            "revenue",
            [
                Step(column=0, texts=["version 8", "of November"]),
                Step(column=1, texts=["version 9"], after=[(1, 0)]),
                Step(column=2, texts=["version 10"], after=[(1, 1)]),
            ],
        ),
        (
            "reproduction",
            [
                Step(column=2, texts=["reads orders 3", "writes a branch", "from revenue 7"]),
                Step(
                    column=3,
                    texts=["compares its rows", "with revenue 8:", "equal, or differs"],
                    after=[(2, 2)],
                ),
            ],
        ),
    ],
)
