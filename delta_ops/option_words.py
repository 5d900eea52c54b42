"""Option words: an error names an option as its caller writes it.

The same fault may reach a user who writes `merge_schema=True`, `.option("mergeSchema", "true")` or
`delta/merge_schema`. So a message does not contain the name of an option, but the result of
`option("merge_schema", True)`: the words of the current surface. `WORDS` has a row for
each option that messages name. A surface that lacks the option shows Python's words, and says that
they are Python's.

The entry points of a surface run within `speaking`. Threads of `storage.concurrency` inherit the
surface of the code that starts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[\w/-]+")
"""Matches a name that is followed by a value; any other word is shown as it is."""
_NO_VALUE: Any = object()


class Surface(Enum):
    """Where a caller writes options."""

    PYTHON = "functions of delta_ops"
    DATAFRAME = 'readers and writers with format("delta")'
    SQL = "Spark SQL"
    DELTA_TABLES = "delta_ops.tables"
    TERMINAL = "delta-ops"
    ASSET = "metadata of assets and inputs, and fields of the IO manager"
    RUN_CONFIG = "run config of Dagster jobs"
    RESOURCE = "fields of Dagster resources"


_surface: ContextVar[Surface] = ContextVar("surface", default=Surface.PYTHON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The word of each surface for an option; None if the surface lacks the option."""

    dataframe: str | None = None
    sql: str | None = None
    delta_tables: str | None = None
    terminal: str | None = None
    asset: str | None = None
    run_config: str | None = None
    resource: str | None = None

    def on(self, surface: Surface) -> str | None:
        """The word of a surface other than Python."""
        word: str | None = getattr(self, surface.name.lower())
        return word


def _same_word(word: str, terminal: str) -> Words:
    """Words for an option with the same name on all surfaces but the terminal."""
    return Words(
        dataframe=word,
        sql=word,
        delta_tables=word,
        terminal=terminal,
        asset=word,
        run_config=word,
        resource=word,
    )


_SET_PROPERTIES = "ALTER TABLE ... SET TBLPROPERTIES"

WORDS: Mapping[str, Words] = {
    # Opening tables
    "storage_options": _same_word("storage_options", "--storage-option"),
    "lock": Words(asset="lock", run_config="lock", resource="lock"),
    "outside": Words(),
    # Reads
    "columns": Words(terminal="--columns", asset="columns"),
    "order_by": Words(),
    "start_version": Words(dataframe="startingVersion", sql="start", terminal="--from-version"),
    "start_timestamp": Words(
        dataframe="startingTimestamp", sql="start", terminal="--from-timestamp"
    ),
    "end_version": Words(dataframe="endingVersion", sql="end", terminal="--to-version"),
    "end_timestamp": Words(dataframe="endingTimestamp", sql="end", terminal="--to-timestamp"),
    # Writes
    "mode": Words(dataframe="mode()", asset="delta/mode"),
    "merge_schema": Words(
        dataframe="mergeSchema", delta_tables="withSchemaEvolution()", asset="delta/merge_schema"
    ),
    "overwrite_schema": Words(dataframe="overwriteSchema", asset="delta/overwrite_schema"),
    "partition_by": Words(
        dataframe="partitionBy()",
        delta_tables="partitionedBy()",
        terminal="--partition",
        asset="delta/partition_by",
    ),
    "partition_overwrite_mode": Words(dataframe="partitionOverwriteMode"),
    "replace_where": Words(dataframe="replaceWhere", asset="partition_expr"),
    "except_cols": Words(asset="the except of the clause"),
    "source_alias": Words(delta_tables="alias()", asset="delta/merge_aliases"),
    "target_alias": Words(delta_tables="alias()", asset="delta/merge_aliases"),
    # Streams
    "starting_version": Words(dataframe="startingVersion"),
    "starting_timestamp": Words(dataframe="startingTimestamp"),
    "ignore_deletes": Words(dataframe="ignoreDeletes"),
    "skip_change_commits": Words(dataframe="skipChangeCommits"),
    "read_change_feed": Words(dataframe="readChangeFeed"),
    "max_files_per_trigger": Words(dataframe="maxFilesPerTrigger"),
    "max_bytes_per_trigger": Words(dataframe="maxBytesPerTrigger"),
    "exclude_regex": Words(dataframe="excludeRegex"),
    "checkpoint_location": Words(dataframe="checkpointLocation"),
    "output_mode": Words(dataframe="outputMode()"),
    "keys": Words(),
    "read_changes": Words(),
    "available_now": Words(dataframe="trigger()"),
    "processing_time": Words(dataframe="trigger()"),
    # Changes of a table
    "if_exists": Words(),
    "resume": Words(terminal="--resume"),
    "truncate_history": Words(delta_tables="truncateHistory", terminal="--truncate-history"),
    "ddl.add_feature": Words(
        delta_tables="addFeatureSupport()", terminal="delta-ops alter TABLE add-feature"
    ),
    "ddl.cluster_by": Words(terminal="delta-ops alter TABLE cluster-by"),
    "ddl.set_properties": Words(
        dataframe=_SET_PROPERTIES,
        sql=_SET_PROPERTIES,
        delta_tables=_SET_PROPERTIES,
        terminal="delta-ops properties",
    ),
    "ddl.drop_constraint": Words(terminal="delta-ops alter TABLE drop-constraint"),
    "ddl.add_constraint": Words(terminal="delta-ops alter TABLE add-constraint"),
    "drop_table": Words(terminal="delta-ops drop"),
    # Names of versions
    "list_tags": Words(terminal="delta-ops tag TABLE list"),
    "list_branches": Words(terminal="delta-ops branch TABLE list"),
    "list_sessions": Words(terminal="delta-ops session TABLE list"),
    "delete_branch": Words(terminal="delta-ops branch TABLE delete"),
    "delete_tag": Words(terminal="delta-ops tag TABLE delete"),
    "open_branch": Words(),
    "create_release": Words(terminal="delta-ops release SET create"),
    "list_releases": Words(terminal="delta-ops release SET list"),
    "roll_back_release": Words(terminal="delta-ops release SET rollback"),
    "verify_refs": Words(terminal="delta-ops refs"),
    "delete_releases": Words(terminal="delta-ops release SET delete"),
    # Maintenance
    "timeout": Words(terminal="--timeout", run_config="timeout_s"),
    "hold_writers": Words(),
    "vacuum_was_killed": Words(terminal="--vacuum-was-killed", run_config="vacuum_was_killed"),
    "part_rows": Words(terminal="--part-rows"),
    "engine": Words(),
    "min_files": Words(terminal="--min-files"),
    "min_size": Words(terminal="--min-size"),
    "max_size": Words(terminal="--max-size"),
    "max_bytes": Words(terminal="--budget", run_config="optimize_max_bytes"),
    "commit_bytes": Words(),
    "zorder_by": Words(
        delta_tables="executeZOrderBy()", terminal="--zorder", run_config="optimize_zorder_by"
    ),
    "deleted_share": Words(terminal="--deleted-share", run_config="purge_deleted_share"),
    "max_row_group_bytes": Words(terminal="--max-row-group-size"),
    "keep_last": Words(terminal="--keep-last", run_config="vacuum_keep_last"),
    "batch_files": Words(),
    "versions": Words(terminal="--version"),
    "tables": Words(),
    "allow_older": Words(terminal="--allow-older"),
    "committer_was_killed": Words(terminal="--committer-was-killed"),
    "drop_steps": Words(),
    "depends_on": Words(),
    "expected_steps": Words(terminal="--expect-step"),
    "older_than": Words(terminal="--older-than"),
    "expires_in": Words(terminal="--expires-in", resource="expires_in_hours"),
    "rebase": Words(terminal="--rebase"),
    "enforce_retention": Words(
        sql="SET spark.databricks.delta.retentionDurationCheck.enabled=false",
        delta_tables="spark.databricks.delta.retentionDurationCheck.enabled=false",
        terminal="--no-enforce-retention",
        resource="enforce_retention",
    ),
    "ignore_missing_files": Words(
        terminal="--ignore-missing-files", run_config="ignore_missing_files"
    ),
    "remove_missing": Words(terminal="--remove-missing", run_config="remove_missing"),
}
"""The words for each option, and for each call, that a message names."""


def current_surface() -> Surface:
    """The current surface, for code that continues in another thread."""
    return _surface.get()


@contextmanager
def speaking(surface: Surface) -> Iterator[None]:
    """Set the surface for messages that the body raises."""
    earlier = _surface.set(surface)
    try:
        yield
    finally:
        _surface.reset(earlier)


def spoken_on(surface: Surface) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an entry point of a surface, to set the surface for its messages."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with speaking(surface):
                return function(*args, **kwargs)

        return call

    return decorate


def option(name: str, value: object = _NO_VALUE) -> str:
    """Name an option or a call as the user of the current surface writes it.

    Args:
        name: The name in Python; a key of `WORDS`.
        value: The value to show; `...` for a value that the user has to choose.

    Examples:
        >>> option("merge_schema", True)
        'merge_schema=True'
        >>> with speaking(Surface.DATAFRAME):
        ...     option("merge_schema", True)
        'option("mergeSchema", "true")'
    """
    surface = _surface.get()
    text = None if value is _NO_VALUE else _value_text(value)
    python = name if text is None else f"{name}={text}"
    if surface is Surface.PYTHON:
        return python
    word = WORDS[name].on(surface)
    if word is None:
        return f"{python} in Python"
    return word if text is None else _join_value(word, text, surface)


def has_option(name: str) -> bool:
    """Whether the user of the current surface can give an option; a key of `WORDS`."""
    surface = _surface.get()
    return surface is Surface.PYTHON or WORDS[name].on(surface) is not None


def _join_value(word: str, text: str, surface: Surface) -> str:
    is_flag = text in ("True", "False")
    if word.endswith("()"):
        return word if is_flag else f"{word[:-1]}{text})"
    if not _NAME.fullmatch(word) or (surface is Surface.TERMINAL and is_flag):
        return word
    plain = text.strip('"')
    match surface:
        case Surface.DATAFRAME:
            return f'option("{word}", "{plain.lower() if is_flag else plain}")'
        case Surface.TERMINAL:
            return f"{word} {plain}"
        case Surface.ASSET:
            return f"{word}: {text}"
        case Surface.RUN_CONFIG:
            return f"{word}: {text.lower() if is_flag else text}"
    return f"{word}={text}"


def _value_text(value: object) -> str:
    if value is ...:
        return "..."
    return repr(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
