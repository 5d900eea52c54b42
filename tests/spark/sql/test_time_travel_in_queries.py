"""Versions of tables in queries are named by paths, and all other text stays. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.time_travel import Travel, pin_versions


def path_of(travel: Travel) -> str | None:
    name = travel.target.parts[-1].strip("/")
    return None if name == "other" else f"/{name}@{travel.version or travel.timestamp}"


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        (
            "SELECT * FROM delta.`/a` VERSION AS OF 3 WHERE x -- VERSION AS OF 4",
            "SELECT * FROM delta.`/a@3` WHERE x -- VERSION AS OF 4",
        ),
        (
            "SELECT orders.id FROM db.orders FOR SYSTEM_VERSION as of '3'",
            "SELECT orders.id FROM delta.`/orders@3` AS `orders`",
        ),
        (
            "SELECT * FROM a TIMESTAMP AS OF '2026' o JOIN b VERSION AS OF 2 ON o.x = b.x",
            "SELECT * FROM delta.`/a@2026` o JOIN delta.`/b@2` AS `b` ON o.x = b.x",
        ),
        (
            "(SELECT * FROM (SELECT * FROM a VERSION AS OF 1) x, b VERSION AS OF 2 AS y)",
            "(SELECT * FROM (SELECT * FROM delta.`/a@1` AS `a`) x, delta.`/b@2` AS y)",
        ),
        (
            "SELECT * FROM `a``b` VERSION AS OF 1 `c d`",
            "SELECT * FROM delta.`/a``b@1` `c d`",
        ),
    ],
)
def test_a_version_is_named_by_its_path(text: str, pinned: str) -> None:
    assert pin_versions(text, Quotes(), path_of) == pinned


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT * FROM other VERSION AS OF 1", id="another table"),
        pytest.param("SELECT version AS of FROM a", id="a column named version"),
        pytest.param("SELECT 'FROM a VERSION AS OF 1', `FROM a VERSION AS OF 1`", id="quoted"),
        pytest.param("SELECT * FROM a VERSION AS OF 1 TABLESAMPLE (1 ROWS)", id="a sample"),
        pytest.param("SELECT * FROM a TIMESTAMP AS OF now()", id="a computed time"),
        pytest.param("SELECT * FROM a VERSION AS OF :v", id="a parameter"),
        pytest.param("WITH a AS (SELECT 1) SELECT * FROM a VERSION AS OF 1", id="a name of WITH"),
        pytest.param("SELECT a VERSION AS OF 1", id="no table"),
        pytest.param("SELECT * FROM a VERSION AS OF", id="no version"),
        pytest.param("SELECT * FROM a VERSION AS OF 1 'open", id="an open string"),
    ],
)
def test_what_is_not_certain_stays(text: str) -> None:
    assert pin_versions(text, Quotes(), path_of) == text
