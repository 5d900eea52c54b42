"""Rendering: prints tables on a terminal, tab-separated text elsewhere, and JSON on request.

JSON is one object for a result and one object per line for rows. Names are stable and in
snake_case, values are as in `json_values`, times in UTC, and sizes in bytes. Text for people may
change.

Names, paths, values and other writers' log entries may contain any character, and a terminal
executes control sequences. So all output goes through this module, which prints the number of each
unprintable character instead: as Python writes it (`\\x1b`), and in JSON as JSON does (`\\u001b`).
Unprintable are control characters, line ends, marks that change the writing direction, invisible
characters, halves of surrogate pairs, and characters that the stream's encoding lacks. Pipes and
files get the same output, because somebody may look at them later.
"""

from __future__ import annotations

import codecs
import errno
import json
import logging
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from itertools import compress
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape as without_markup
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from delta_ops.cli.json_values import WideTime, plain_value
from delta_ops.error_texts import escape_unprintable
from delta_ops.errors import DeltaOpsError
from delta_ops.events import Event, OnEvent, Progress, ignore
from delta_ops.log import Snapshot
from delta_ops.protocol.schema.type_text import type_text
from delta_ops.protocol.values.wide_timestamps import time_text, utc_text
from delta_ops.units import count_text, size_text

if TYPE_CHECKING:  # commands that only look at a table do not need it
    from delta_ops.maintenance.operation import OperationEntry, Result

_ISO = re.compile(r"([+-]?\d+-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(\+00:00)?")
_NULL = "null"
"""Text of a missing value on a terminal."""
_PADDING = 2
"""Terminal cells between columns."""
_LEAST_WIDTH = 40
"""Narrower terminals break lines of this width."""
_AROUND_ROWS = 10
"""Number of lines of a page for the command, the header and the summary."""


def show_json(value: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    click.echo(_json(value))


def show_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    whole: Collection[str] = (),
    cut: Collection[str] = (),
    optional: Collection[str] = (),
) -> None:
    """Print a table on a terminal, else tab-separated lines with a header.

    Args:
        whole: Columns whose values stay on one line on a narrow terminal.
        cut: Columns whose values are cut to one line on a narrow terminal.
        optional: Columns that a terminal shows only if they have a value.
    """
    header = [make_printable(name) for name in columns]
    texts = ([_text(value) for value in row] for row in rows)
    if not is_terminal():
        for row in (header, *texts):
            click.echo("\t".join(row))
        return
    lines = list(texts)
    filled = {name for row in lines for name, text in zip(header, row, strict=True) if text}
    is_shown = [name not in optional or name in filled for name in header]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for name in compress(header, is_shown):
        table.add_column(Text(name, overflow="fold"), no_wrap=name in whole)
    for row in lines:
        cells = map(_cell, row, (name in cut for name in header))
        table.add_row(*compress(cells, is_shown))
    Console().print(table)
    click.echo()


def _cell(text: str, is_cut: bool) -> Text:
    return Text(text, overflow="ellipsis" if is_cut else "fold", no_wrap=is_cut or None)


def show_columns(snapshot: Snapshot, *, arrow: bool = False) -> None:
    """Print the columns of a table with the types of SQL, or with Arrow's types."""
    if arrow:
        types = [str(each.type) for each in snapshot.arrow_schema]
    else:
        types = [type_text(each.data_type) for each in snapshot.schema.fields]
    fields = zip(snapshot.schema.fields, types, strict=True)
    show_rows(
        ("column", "type", "nullable"), ((each.name, text, each.nullable) for each, text in fields)
    )


def show_records(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows of a user's table; on a narrow terminal, with one column per line.

    A terminal shows a missing value as `null`, to distinguish it from an empty string.
    """
    if is_terminal():
        rows = [[_NULL if value is None else value for value in row] for row in rows]
    if is_terminal() and rows and _width(columns, rows) > Console().width:
        for number, row in enumerate(rows, 1):
            click.echo(f"row {number}")
            show_fields(dict(zip(map(make_printable, columns), row, strict=True)), indent="  ")
        return
    show_rows(columns, rows)


def _width(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Width of a table in terminal cells without folded lines."""
    texts = [list(map(make_printable, columns)), *([_text(v) for v in row] for row in rows)]
    widths = (max(map(cell_len, column)) for column in zip(*texts, strict=True))
    return sum(width + _PADDING for width in widths) + _PADDING


def show_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values, one pair per line."""
    width = max(map(cell_len, fields)) + _PADDING
    for name, value in fields.items():
        click.echo(f"{indent}{set_cell_size(name, width)}{_text(value)}")


def is_terminal() -> bool:
    """Whether standard output goes to a person and not to a program."""
    return sys.stdout.isatty()


def rows_of_page() -> int | None:
    """Number of table rows that fit on a terminal; None if output does not go to a terminal."""
    return max(Console().height - _AROUND_ROWS, 5) if is_terminal() else None


def say(sentence: str) -> None:
    """Print a sentence for people; a terminal breaks it between words."""
    text = make_printable(sentence)
    click.echo(_break_lines(text) if is_terminal() else text)


def _break_lines(text: str, head: str = "") -> str:
    """Break a text between words.

    Args:
        head: Precedes the text on its first line.
    """
    width = max(Console().width, _LEAST_WIDTH)
    lines = fill(head + text, width, break_long_words=False, break_on_hyphens=False)
    return lines.removeprefix(head)


def command_error(sentence: str) -> click.ClickException:
    """The error that ends the command with this sentence."""
    text = make_printable(sentence)
    return click.ClickException(_break_lines(text, "Error: ") if sys.stderr.isatty() else text)


class Group(click.Group):
    """A group of commands whose help page shows the first line of each command in full."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section, with the first line of their help."""
        for section, names in self.sections(ctx):
            helps = [(name, self.commands[name].help or "") for name in names]
            with formatter.section(section):
                formatter.write_dl([(name, text.partition("\n")[0]) for name, text in helps])

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[str]]]:
        """The titles of the sections, with their commands."""
        yield "Commands", self.list_commands(ctx)


@contextmanager
def report_errors() -> Iterator[None]:
    """Report errors of delta_ops in one sentence, and make usage errors printable."""
    try:
        yield
    except DeltaOpsError as error:
        raise command_error(str(error)) from error
    except MemoryError as error:
        raise command_error("There is not enough memory for this command.") from error
    except OSError as error:
        # Failures of a store are DeltaOpsErrors; click handles a closed pipe.
        if error.filename is not None or error.errno == errno.EPIPE:
            raise
        _print_no_more()
        raise command_error(f"Standard output cannot be written: {error.strerror}.") from error
    except click.UsageError as error:
        # A help text is also a UsageError; it has several lines.
        error.message = "\n".join(map(make_printable, error.message.split("\n")))  # type: ignore[misc]
        raise


def _print_no_more() -> None:
    """Discard remaining output; otherwise Python would try to print it at exit and fail again."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class LogLines(logging.Formatter):
    """Formats log records as printable lines; only faults of delta_ops get a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; a library's warning loses its traceback."""
        if record.levelno < logging.CRITICAL:
            record = copy(record)
            record.exc_info = record.exc_text = record.stack_info = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Format the message without the exception."""
        return make_printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Format a traceback line by line."""
        return "\n".join(map(make_printable, super().formatException(ei).splitlines()))


def make_printable(text: str) -> str:
    """The text on one line, with characters that would affect a terminal replaced."""
    text = escape_unprintable(text)
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def show_result(entry: OperationEntry[Result], table: str, result: Result) -> None:
    """Print the result of an operation on a table as one JSON object."""
    show_json({"table": table, "dry_run": result.dry_run, **entry.json(result)})


def deletion_text(count: int, size_bytes: int, *, dry_run: bool = False) -> str:
    """A sentence with the number and size of files that were or would be deleted."""
    verb = "Would delete" if dry_run else "Deleted"
    return f"{verb} {count_text(count, 'file')}, {size_text(size_bytes)}."


def fail_for_files(failures: tuple[str, ...]) -> None:
    """End the command if files could not be deleted.

    Raises:
        ClickException: With the path of the first file.
    """
    if failures:
        raise command_error(
            f"{count_text(len(failures), 'file')} could not be deleted, the first of them "
            f"{failures[0]}; check the permissions and run this again."
        )


@contextmanager
def progress(*, wanted: bool) -> Iterator[OnEvent]:
    """Show a progress bar on standard error while the operation runs, on a terminal only."""
    if not wanted or not sys.stderr.isatty():
        yield ignore
        return
    with ProgressBar(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def listen(event: Event) -> None:
            if isinstance(event, Progress):
                task = tasks.get(event.operation)
                if task is None:
                    task = bar.add_task(without_markup(make_printable(event.operation)))
                    tasks[event.operation] = task
                bar.update(task, completed=event.done, total=event.total)

        yield listen


def moment_text(moment: datetime | WideTime | int) -> str:
    """A time for people, such as `2026-01-31 12:00:00Z`.

    Args:
        moment: A value of a table, which keeps its fraction, and has no Z if it has no time zone;
            or milliseconds since the Unix epoch of an event, which is shown in seconds.
    """
    match moment:
        case int():
            iso = utc_text(moment)
        case datetime():
            iso = time_text(moment if moment.tzinfo is None else moment.astimezone(UTC))
        case _:
            iso = moment
    found = _ISO.fullmatch(iso)
    assert found
    day, clock, fraction, zone = found.groups()
    fraction = "" if isinstance(moment, int) else (fraction or "").rstrip("0").rstrip(".")
    return f"{day} {clock}{fraction}{'Z' if zone else ''}"


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime() | WideTime():
            return moment_text(value)
        case Mapping() | list() | tuple():
            return make_printable(_json(value))
    return make_printable(str(plain_value(value)))


def _json(value: Any) -> str:
    is_unicode = codecs.lookup(sys.stdout.encoding or "utf-8").name.startswith("utf")
    text = json.dumps(plain_value(value), ensure_ascii=not is_unicode, allow_nan=False)
    # In JSON of one line, only strings can contain characters to escape.
    return escape_unprintable(text, lambda character: json.dumps(character)[1:-1])
