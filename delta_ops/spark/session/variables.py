"""Session variables: what Spark replaces in a text of SQL before it reads it.

Spark puts the value of a setting, an environment variable or a system property in the place of
`${name}` anywhere in a text, also inside of names and of texts in quotes. Where `${` is meant, as
in the name of a column, the text is written in another way that says the same: `'$' '{name}'` is
one text to Spark, and `IDENTIFIER('`$' '{name}`')` is a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set

from delta_ops.protocol.schema import StructType, walk

_MARK = "${"
_NAME = r"(?:`(?:[^`]|``)*`|\w+)"
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    rf"|(?P<name>{_NAME}(?:\s*\.\s*{_NAME})*)",
    re.DOTALL,
)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def names_like_variables(*schemas: StructType) -> frozenset[str]:
    """The names in these schemas, of columns and of fields, that Spark takes for a variable."""
    return frozenset(_find_names(schemas))


def escape_variables(text: str, names: Set[str] | None = None) -> str:
    """A text of SQL in which Spark finds no variable.

    Args:
        names: The only names to write otherwise; None: all names, and texts in quotes.
    """
    if _MARK not in text or names == frozenset():
        return text

    def escape(found: re.Match[str]) -> str:
        token = found[0]
        if _MARK not in token or found["comment"]:
            return token
        if found["text"]:
            quote = token[0]
            return token if names is not None else token.replace(_MARK, f"${quote} {quote}{{")
        parts = [each.replace("``", "`") for each in _QUOTED.findall(token)]
        if names is not None and names.isdisjoint(parts):
            return token
        literal = token.replace("\\", "\\\\").replace("'", "\\'").replace(_MARK, "$' '{")
        return f"IDENTIFIER('{literal}')"

    return _TOKEN.sub(escape, text)


def _find_names(schemas: Collection[StructType]) -> Iterator[str]:
    for schema in schemas:
        for data_type in (schema, *(each for _, each in walk(schema))):
            if isinstance(data_type, StructType):
                yield from (each.name for each in data_type.fields if _MARK in each.name)
