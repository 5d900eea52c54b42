"""Session variables: escapes SQL so that Spark replaces no variables in it.

Before parsing, Spark replaces `${name}` anywhere in a text by a setting, an environment variable or
a system property, also inside names and string literals. If `${` is meant literally, as in a column
name, an equivalent text is used: Spark reads `'$' '{name}'` as one string and `IDENTIFIER('`$'
'{name}`')` as a name.
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
    """Names of columns and fields that Spark would read as variables."""
    return frozenset(_find_names(schemas))


def escape_variables(text: str, names: Set[str] | None = None) -> str:
    """Rewrite SQL so that Spark finds no variables in it.

    Args:
        names: Escape only these names. None: escape all names and string literals.
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
