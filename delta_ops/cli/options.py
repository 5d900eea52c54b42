"""Options of several commands, and the parsing of their values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from math import isfinite
from typing import Any, TypeVar

import click

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.predicate import Predicate, parse_predicate

F = TypeVar("F", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d{1,19})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_YEAR_S = 365 * 86_400
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class FiniteRange(click.FloatRange):
    """A number within bounds; NaN and infinity are rejected."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert the text of an argument."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def table_argument(command: F) -> F:
    """Add TABLE and `--storage-option`, passed as `table` and `storage_options`."""
    return click.argument("table")(storage_options_option(command))


def storage_options_option(command: F) -> F:
    """Add `--storage-option`, passed as `storage_options`."""
    return click.option(
        "storage_options",
        "--storage-option",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_storage_options,
        help=(
            "Store option, such as AWS_PROFILE=etl; may be repeated. Keep credentials in the "
            "environment."
        ),
    )(command)


def json_option(command: F) -> F:
    """Add `--json`, passed as `as_json`."""
    return click.option(
        "as_json",
        "--json",
        is_flag=True,
        help="Print JSON, with exact values.",
    )(command)


def dry_run_option(command: F) -> F:
    """Add `--dry-run`, passed as `dry_run`."""
    return click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")(
        command
    )


def busy_options(command: F) -> F:
    """Add `--timeout` and `--vacuum-was-killed`, passed as `timeout` and `vacuum_was_killed`."""
    timeout = click.option(
        "--timeout",
        type=FiniteRange(min=0, max=_YEAR_S),
        default=0.0,
        metavar="SECONDS",
        callback=lambda _ctx, _param, seconds: timedelta(seconds=seconds),
        help=(
            "How long to retry when other writers commit first, and to wait for the end of a "
            "vacuum; 0 if not given."
        ),
    )
    killed = click.option(
        "--vacuum-was-killed",
        is_flag=True,
        help="Confirm that a vacuum without an end was killed and deletes nothing more.",
    )
    return timeout(killed(command))


def where_option(command: F) -> F:
    """Add `--where`, passed as a predicate or None."""
    return click.option(
        "--where",
        metavar="CONDITION",
        callback=_predicate,
        help=(
            "Only rows or files that match this Spark SQL condition, such as \"day >= '2026-01-31' "
            "AND country IN ('NL', 'BE')\"."
        ),
    )(command)


def target_size_option(command: F) -> F:
    """Add `--target-size`, passed in bytes."""
    return click.option(
        "--target-size",
        metavar="SIZE",
        callback=_size,
        help="The target file size, as 128MB or 1GiB; units are powers of 1024.",
    )(command)


def budget_option(command: F) -> F:
    """Add `--budget`, passed in bytes."""
    return _budget(command, "Rewrite")


def index_budget_option(command: F) -> F:
    """Add `--budget` of an index, passed in bytes."""
    return _budget(command, "Index")


def _budget(command: F, verb: str) -> F:
    return click.option(
        "--budget",
        metavar="SIZE",
        callback=_size,
        help=f"{verb} no more than this in one run, as 10GB; the next run continues.",
    )(command)


def max_size_option(command: F) -> F:
    """Add `--max-size`, passed in bytes."""
    return click.option(
        "--max-size",
        metavar="SIZE",
        callback=_size,
        help="Cut larger files, as 1GB, into files of about the target size; leave them if not "
        "given.",
    )(command)


def min_size_option(command: F) -> F:
    """Add `--min-size`, passed in bytes."""
    return click.option(
        "--min-size",
        metavar="SIZE",
        callback=_size,
        help=(
            "Files of this size or more, as 64MB, are large enough; three quarters of the target "
            "size if not given."
        ),
    )(command)


def max_row_group_size_option(command: F) -> F:
    """Add `--max-row-group-size`, passed in bytes."""
    return click.option(
        "--max-row-group-size",
        metavar="SIZE",
        callback=_size,
        help=(
            "With --purge: also files with a row group larger than this without compression, as "
            "256MB."
        ),
    )(command)


def version_options(command: F) -> F:
    """Add `--version`, `--timestamp` and `--ref`, passed as `version`, `timestamp` and `ref`."""
    for option in (
        click.option("--ref", help="The table at this tag or branch, such as tag:2026-11."),
        click.option(
            "--timestamp",
            metavar="TIME",
            help="The table at this time, in UTC if it has no time zone.",
        ),
        click.option("--version", type=click.IntRange(min=0), help="The table at this version."),
    ):
        command = option(command)
    return command


def open_table(table: str, storage_options: dict[str, Any]) -> DeltaLog:
    """The handle of the command's table."""
    return DeltaLog(table, storage_options)


def open_snapshot(
    table: str,
    storage_options: dict[str, Any],
    version: int | None,
    timestamp: str | None,
    ref: str | None,
) -> Snapshot:
    """Open the version that the command names; without one, the latest version."""
    if version is not None and timestamp is not None:
        raise click.UsageError("give --version or --timestamp, not both")
    if ref is not None and (version is not None or timestamp is not None):
        raise click.UsageError("give --ref, or --version or --timestamp, not both")
    return open_table(table, storage_options).snapshot(version, timestamp, ref=ref)


def pairs_callback(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Parse repeated NAME=VALUE options to pairs."""
    pairs = [text.partition("=") for text in texts]
    # The value may be a secret, so the message does not repeat it.
    if not all(name and equals for name, equals, _ in pairs):
        raise click.BadParameter("write it as NAME=VALUE")
    return [(name, value) for name, _, value in pairs]


def _predicate(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Predicate | None:
    try:
        return None if text is None else parse_predicate(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from error


def _size(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a size; write it as 128MB")
    return int(found[1]) << _SHIFTS[found[2].upper()]


def _storage_options(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Any]:
    return {name: _parse_value(text) for name, text in pairs_callback(ctx, param, texts)}


def _parse_value(text: str) -> Any:
    """Parse a value as JSON; a number stays a string, because names may consist of digits."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | dict | list) else text
