"""Writes the pictures of the documentation, as SVG: python -m scripts.docs.pictures.

The file names of the pictures are the keys of `PICTURES`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.docs import lanes
from scripts.docs.svg import LINE, PAD, box, label, rectangle, svg

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / "docs" / "images"
_LABEL, _COLUMN, _GAP = 230, 225, 16
"""Widths of the layers' names, of a path, and of the space between paths."""

PATHS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "a read": {
        "orchestration": ["1 the IO manager pins a version"],
        "arrow": ["2 to_table() or read()", "6 reads the data files"],
        "planning": ["3 selects files by partition", "   values and statistics"],
        "log": ["4 Snapshot: segment, replay,", "   reconciliation"],
        "storage": ["5 lists the log, reads commits", "   and the checkpoint"],
    },
    "a write": {
        "orchestration": ["1 the IO manager adds the txn", "   of the run"],
        "arrow": ["2 builds a request", "4 writes data files and", "   their statistics"],
        "transaction": [
            "3 computes the definition",
            "5 commit loop; after a lost",
            "   race: conflicts",
        ],
        "log": ["6 the commit file"],
        "storage": ["7 creates it if absent"],
    },
    "a vacuum": {
        "orchestration": ["1 the op of a job; reports", "   the result as metadata"],
        "maintenance": ["2 vacuum()", "5 plan_vacuum() selects files", "   that no version needs"],
        "log": ["3 Snapshot: live files and", "   tombstones"],
        "storage": ["4 lists the directory", "6 deletes the selected files"],
    },
}
"""The steps of each path, by a package of the layer that does them."""


def layers_picture() -> str:
    """The layers, from the contract of import-linter, and three paths through them."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    rows = [layer.split(" : ") for layer in layers[: layers.index("events")]]
    columns = {name: _LABEL + index * (_COLUMN + _GAP) for index, name in enumerate(PATHS)}
    width = _LABEL + len(PATHS) * (_COLUMN + _GAP)
    stripes, boxes = [], [label(x + PAD, 20, name, "title") for name, x in columns.items()]
    middles: dict[str, list[int]] = {name: [] for name in PATHS}
    top = 32
    for row in rows:
        steps = {name: _steps(path, row) for name, path in PATHS.items()}
        height = max(1, *map(len, steps.values())) * LINE + 2 * PAD
        stripes.append(rectangle("layer", 0, top, width, height))
        stripes.append(label(PAD, top + PAD + 11, " | ".join(row), "name"))
        for name, texts in steps.items():
            if texts:
                boxes.append(box(columns[name], top + 4, _COLUMN, texts))
                middles[name].append(top + height // 2)
        top += height + 6
    lines = [
        f'<path class="line" d="M{columns[name] + _COLUMN // 2} {each[0]}V{each[-1]}"/>'
        for name, each in middles.items()
    ]
    return svg(width, top, "The layers, and three paths through them", [*stripes, *lines, *boxes])


def _steps(path: Mapping[str, Sequence[str]], layer: Sequence[str]) -> Sequence[str]:
    return next((texts for package, texts in path.items() if package in layer), ())


COMMITS: Sequence[tuple[str, Sequence[str]]] = (
    ("00000.json", ["add A, add B"]),
    ("00001.json", ["add C"]),
    ("00002.json", ["remove A", "add D (A without", "one row)"]),
    ("00003.json", ["remove B and C", "add E (B and C", "in one file)"]),
)
FILES: Sequence[tuple[str, str, bool]] = (
    ("A", "removed by 2", False),
    ("B", "removed by 3", False),
    ("C", "removed by 3", False),
    ("D", "added by 2", True),
    ("E", "added by 3", True),
)


def table_picture() -> str:
    """A table of four commits: its log, a checkpoint, live files and removed files."""
    width, step = 710, 142
    parts = [label(0, 20, "_delta_log", "title")]
    for index, (name, texts) in enumerate(COMMITS):
        parts.append(box(index * step, 32, step - 10, [name, *texts]))
    parts.append(
        box(4 * step, 32, step - 10, ["00003.checkpoint", "live: D, E", "removed: A, B, C"])
    )
    parts.append(label(0, 140, "data files", "title"))
    for index, (name, text, is_live) in enumerate(FILES):
        kind = "box" if is_live else "gone"
        parts.append(box(index * step, 152, step - 10, [f"{name}.parquet", text], kind))
    return svg(width, 210, "A table with four commits and five data files", parts)


PICTURES: Mapping[str, Callable[[], str]] = {
    "layers.svg": layers_picture,
    "table.svg": table_picture,
    "tags.svg": lanes.TAGS.draw,
    "branches.svg": lanes.BRANCHES.draw,
    "sessions.svg": lanes.SESSIONS.draw,
    "releases.svg": lanes.RELEASES.draw,
    "audit.svg": lanes.AUDIT.draw,
    "reproduce.svg": lanes.REPRODUCE.draw,
}

if __name__ == "__main__":
    for name, picture in PICTURES.items():
        (FOLDER / name).write_text(picture())
