"""Refusals: why a statement of Delta's does not run, where Spark only reports a syntax error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.lexer import UnclearError, tokens_of
from delta_ops.spark.statements.nodes import Statement, Target
from delta_ops.spark.statements.parse import parse


class _Unsupported(NamedTuple):
    """A statement that delta_ops does not run."""

    start: tuple[str, ...]
    """Its first words."""
    words: tuple[str, ...]
    """Words that follow each other later in the statement."""
    reason: str


_UNSUPPORTED = (
    _Unsupported(
        ("COPY", "INTO"),
        (),
        "COPY INTO is not supported; read the files with spark.read and add their rows with "
        "INSERT INTO or df.write",
    ),
    _Unsupported(
        ("CONVERT", "TO", "DELTA"),
        ("NO", "STATISTICS"),
        "CONVERT TO DELTA always collects statistics; leave NO STATISTICS out",
    ),
    _Unsupported(
        ("CONVERT", "TO", "DELTA"),
        (),
        "CONVERT TO DELTA takes a directory of Parquet files; write parquet.`/path`, and create a "
        "name for it afterwards with CREATE TABLE ... USING delta LOCATION",
    ),
    _Unsupported(
        ("REORG",),
        ("UPGRADE",),
        "REORG TABLE has APPLY (PURGE) only; UniForm is not supported",
    ),
    _Unsupported(
        ("ALTER", "TABLE"),
        ("SYNC", "IDENTITY"),
        "SYNC IDENTITY is not supported; each write moves the identity column past its values",
    ),
    _Unsupported(
        ("ANALYZE",),
        ("DELTA", "STATISTICS"),
        "ANALYZE TABLE has no DELTA STATISTICS; call "
        "delta_ops.maintenance.backfill_statistics(path)",
    ),
)
_CLONES = (
    "a clone that copies files is not supported; write SHALLOW CLONE, or copy the rows with "
    "CREATE TABLE ... AS SELECT"
)
_ONLY_DELTA = {
    nodes.Optimize: "OPTIMIZE",
    nodes.Vacuum: "VACUUM",
    nodes.DescribeHistory: "DESCRIBE HISTORY",
    nodes.DescribeDetail: "DESCRIBE DETAIL",
    nodes.Restore: "RESTORE",
    nodes.Generate: "GENERATE",
    nodes.Reorg: "REORG TABLE",
    nodes.AddConstraint: "ADD CONSTRAINT",
    nodes.DropConstraint: "DROP CONSTRAINT",
    nodes.DropFeature: "DROP FEATURE",
}
"""Statements that only Delta tables have."""


def refusal_of(
    text: str, quotes: Quotes, is_delta: Callable[[Target], bool], *, is_syntax_error: bool
) -> str | None:
    """The reason not to run a statement that Spark rejects; None for other statements.

    Args:
        is_delta: Whether a target is a Delta table.
        is_syntax_error: Whether Spark cannot parse the statement. It parses DESCRIBE HISTORY, as
            the description of a column.
    """
    try:
        words = [each.upper for each in tokens_of(text)]
    except UnclearError:
        return None
    for each in _UNSUPPORTED if is_syntax_error else ():
        if _begins(words, each.start) and (not each.words or _contains(words, each.words)):
            return each.reason
    if is_syntax_error and _clones_files(words):
        return _CLONES
    statement = parse(text, quotes)
    describes = isinstance(statement, nodes.DescribeHistory | nodes.DescribeDetail)
    if statement is None or is_delta(statement.target) or not (is_syntax_error or describes):
        return None
    return _refuse_other_tables(statement)


def _refuse_other_tables(statement: Statement) -> str | None:
    name = _ONLY_DELTA.get(type(statement))
    if name is None:
        return None
    return (
        f"{statement.target.text} is not a Delta table, and {name} is a statement for Delta tables "
        "only; check the name, or give the path as delta.`/path`"
    )


def _clones_files(words: Sequence[str]) -> bool:
    """Whether the word CLONE follows the name of a new table, without SHALLOW."""
    if words[:1] not in (["CREATE"], ["REPLACE"]) or "TABLE" not in words or "CLONE" not in words:
        return False
    table, clone = words.index("TABLE"), words.index("CLONE")
    before = words[clone - 1]
    return clone > table + 1 and before not in ("SHALLOW", "EXISTS", ".", "(", ",", "AS")


def _begins(words: Sequence[str], start: Sequence[str]) -> bool:
    return list(words[: len(start)]) == list(start)


def _contains(words: Sequence[str], wanted: Sequence[str]) -> bool:
    size = len(wanted)
    return any(list(words[at : at + size]) == list(wanted) for at in range(len(words)))
