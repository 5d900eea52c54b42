"""How results are shown: tables on a terminal, tab-separated text elsewhere, JSON on request.

JSON is one object for a result and one object per line for rows, with stable names in snake_case,
times as ISO 8601 in UTC, and sizes in bytes. Text for people may change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from delta_ops.events import Event, OnEvent, Progress, ignore

_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_000
"""The years 1 and 9999, between which Python knows times; a log may say any number."""


def show_json(value: Mapping[str, Any]) -> None:
    """One object on one line."""
    click.echo(json.dumps(value, default=_json_value, ensure_ascii=False))


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on a terminal, else a header and the rows, separated by tabs."""
    texts = ([_text(value) for value in row] for row in rows)
    if not sys.stdout.isatty():
        for row in ([*columns], *texts):
            click.echo("\t".join(row))
        return
    table = Table(*columns, box=box.SIMPLE)
    for row in texts:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console().print(table)


def show_fields(fields: Mapping[str, Any]) -> None:
    """Names and values, one below the other."""
    width = max(len(name) for name in fields) + 2
    for name, value in fields.items():
        click.echo(f"{name:<{width}}{_text(value)}")


def size_text(size_bytes: int) -> str:
    """Bytes for people: `1.5 MiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if unit != "B" else f"{size_bytes} B"
        size /= 1024
    return f"{size:,.1f} TiB"


def count_text(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def utc(ms: int) -> datetime:
    """Milliseconds since the Unix epoch as a time in UTC; of one too far away, the farthest."""
    return datetime.fromtimestamp(min(max(ms, _EARLIEST_MS), _LATEST_MS) / 1000, UTC)


@contextmanager
def progress(*, wanted: bool) -> Iterator[OnEvent]:
    """A listener that shows a bar on standard error while the operation runs, if a person looks."""
    if not wanted or not sys.stderr.isatty():
        yield ignore
        return
    with ProgressBar(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Progress):
                task = tasks.get(event.operation)
                if task is None:
                    task = tasks[event.operation] = bar.add_task(event.operation)
                bar.update(task, completed=event.done, total=event.total)

        yield listen


def _text(value: Any) -> str:
    """One line without control characters: names of files may hold anything."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        text = json.dumps(value, default=_json_value, ensure_ascii=False)
    elif isinstance(value, datetime):
        text = value.isoformat(timespec="milliseconds")
    else:
        text = str(value)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _json_value(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(
                timespec="microseconds" if value.microsecond % 1000 else "milliseconds"
            )
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
    return str(value)
