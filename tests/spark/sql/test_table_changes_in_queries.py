"""Change feeds in queries are named by paths, and all other text stays. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.delta_format.change_paths import options_of_changes, path_with_changes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.table_changes import ChangesAt, may_read_changes, pin_changes


def path_of(changes: ChangesAt) -> str | None:
    name = changes.target.path or "/" + changes.target.parts[-1]
    end = "" if changes.end is None else changes.end
    return None if name == "/other" else path_with_changes(name, str(changes.start), str(end))


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        (
            "SELECT * FROM table_changes('t', 3) AS c WHERE x -- table_changes('t', 4)",
            "SELECT * FROM delta.`/t@changes(3,)` AS c WHERE x -- table_changes('t', 4)",
        ),
        (
            "SELECT * FROM Table_Changes('d.`a``b`', '3', 5) JOIN table_changes_by_path('/p', 0)",
            "SELECT * FROM delta.`/a``b@changes(3,5)` JOIN delta.`/p@changes(0,)`",
        ),
        (
            "SELECT * FROM table_changes('t', '2026-01-31', '2026-02-01')",
            "SELECT * FROM delta.`/t@changes(2026-01-31,2026-02-01)`",
        ),
    ],
)
def test_a_feed_is_named_by_its_path(text: str, pinned: str) -> None:
    assert may_read_changes(text)
    assert pin_changes(text, Quotes(), path_of) == pinned


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT * FROM table_changes('other', 1)", id="another table"),
        pytest.param("SELECT * FROM table_changes('t')", id="no version"),
        pytest.param("SELECT * FROM table_changes('t', :v)", id="a parameter"),
        pytest.param("SELECT * FROM table_changes('t', 1 + 1)", id="a computed version"),
        pytest.param("SELECT * FROM f.table_changes('t', 1)", id="another function"),
        pytest.param("SELECT table_changes FROM t", id="a column"),
        pytest.param("SELECT 'table_changes(1, 2)'", id="a string"),
        pytest.param("SELECT * FROM table_changes('t', 1) WHERE 'open", id="an open string"),
    ],
)
def test_what_is_not_certain_stays(text: str) -> None:
    assert pin_changes(text, Quotes(), path_of) == text


def test_a_path_of_changes_has_the_options_of_a_reader() -> None:
    def options(path: str) -> dict[str, str]:
        return dict(options_of_changes(path).values())

    assert options("/a (b)@changes(3,)") == {
        "path": "/a (b)",
        "readChangeFeed": "true",
        "startingVersion": "3",
    }
    assert options("/t@changes(2026-01-31T00:00:00+00:00,7)") == {
        "path": "/t",
        "readChangeFeed": "true",
        "startingTimestamp": "2026-01-31T00:00:00+00:00",
        "endingVersion": "7",
    }
    assert options("/t@v3") == {}
