"""Stored SQL: expressions of constraints, generated columns and defaults, for any session.

The table has one meaning of its SQL for all engines and versions. Spark 3.5, and a session with the
setting for consecutive string literals, read a doubled quote otherwise: 'it''s' is two literals
side by side, with the text `its`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from pyspark.sql import SparkSession

from delta_ops.spark.session.variables import escape_variables
from delta_ops.spark.versions import CONSECUTIVE_LITERALS, is_on

_LITERAL = r"(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
_ONE_LITERAL = re.compile(_LITERAL, re.DOTALL)
_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/"
    r"|`(?:[^`]|``)*`"
    r"|\br'[^']*'|\br\"[^\"]*\""  # raw literals have no doubled quotes
    rf"|(?P<literals>{_LITERAL}(?:\s*{_LITERAL})*)",
    re.DOTALL | re.IGNORECASE,
)


def stored_sql(text: str, spark: SparkSession) -> str:
    """SQL of a table's definition, so that this session reads it as other sessions do."""
    if ("''" in text or '""' in text) and is_on(spark, CONSECUTIVE_LITERALS):
        text = expand_doubled_quotes(text)
    return escape_variables(text)


def expand_doubled_quotes(text: str) -> str:
    """Replace string literals with doubled quotes by calls of `concat`, which all sessions read."""
    return _TOKEN.sub(lambda found: _expand(found["literals"]) or found[0], text)


def _expand(literals: str | None) -> str | None:
    """The call for literals side by side; None if no quote is doubled."""
    parts = list(_ONE_LITERAL.finditer(literals or ""))
    pieces = [each[0] for each in parts[:1]]
    for one, other in pairwise(parts):
        if one.end() == other.start() and one[0][0] == other[0][0]:
            # A literal for the quote itself would depend on further settings.
            pieces.append(f"CAST(X'{ord(one[0][0]):02X}' AS STRING)")
        pieces.append(other[0])
    has_doubled = len(pieces) > len(parts)
    return f"concat({', '.join(pieces)})" if has_doubled else None
