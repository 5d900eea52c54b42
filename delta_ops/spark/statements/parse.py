"""Parse: recognizes Delta's statements in SQL text.

1. `may_be_ours` compares the first word, after blanks and comments, with a table. It rejects nearly
   all other statements within microseconds.
2. `parse` reads all tokens by a strict grammar. It accepts a statement only if it understands each
   token; otherwise the statement goes to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from delta_ops.spark.statements import command_grammar, ddl_grammar, dml_grammar
from delta_ops.spark.statements.cursor import Cursor, Quotes
from delta_ops.spark.statements.lexer import UnclearError, skip_blanks
from delta_ops.spark.statements.nodes import Statement

_GRAMMARS: Mapping[str, Callable[[Cursor], Statement]] = {
    "DELETE": dml_grammar.delete_of,
    "UPDATE": dml_grammar.update_of,
    "MERGE": dml_grammar.merge_of,
    "INSERT": dml_grammar.insert_of,
    "TRUNCATE": dml_grammar.truncate_of,
    "OPTIMIZE": command_grammar.optimize_of,
    "VACUUM": command_grammar.vacuum_of,
    "DESCRIBE": command_grammar.describe_of,
    "DESC": command_grammar.describe_of,
    "RESTORE": command_grammar.restore_of,
    "GENERATE": command_grammar.generate_of,
    "REORG": command_grammar.reorg_of,
    "CONVERT": command_grammar.convert_of,
    "ALTER": ddl_grammar.alter_of,
    "COMMENT": ddl_grammar.comment_of,
    "CREATE": ddl_grammar.create_of,
    "REPLACE": ddl_grammar.create_of,
    "SHOW": command_grammar.show_of,
    "MSCK": command_grammar.repair_of,
    "REPAIR": command_grammar.repair_of,
    "LOAD": command_grammar.load_of,
    "WITH": dml_grammar.change_with_tables,
}
"""The grammar by the first word of a statement."""

_FIRST_WORDS = frozenset({*_GRAMMARS, "ANALYZE", "COPY"})
"""First words of all statements of Delta's, also of those that are refused."""
_CHANGES = re.compile(r"\b(?:INSERT|MERGE)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")
_LONGEST = max(map(len, _FIRST_WORDS))


def may_be_ours(text: str) -> bool:
    """Whether a statement begins as one of Delta's statements.

    Most statements with WITH are queries; the words of a change decide.
    """
    word = _first_word(text)
    return word in _FIRST_WORDS and (word != "WITH" or _CHANGES.search(text) is not None)


def parse(text: str, quotes: Quotes) -> Statement | None:
    """Parse one of Delta's statements.

    Returns:
        The statement, or None if the text is not certainly one of them.
    """
    read = _GRAMMARS.get(_first_word(text))
    if read is None:
        return None
    try:
        cursor = Cursor(text, quotes)
        statement = read(cursor)
        cursor.expect_end()
    except UnclearError:
        return None
    return statement


def _first_word(text: str) -> str:
    try:
        found = _WORD.match(text, skip_blanks(text, 0))
    except UnclearError:
        return ""
    return found[0].upper() if found and len(found[0]) <= _LONGEST else ""
