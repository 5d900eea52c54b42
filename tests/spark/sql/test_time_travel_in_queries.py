"""Versions of tables in queries are named by paths, and all other text stays. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.time_travel import Travel, pin_versions


def path_of(travel: Travel) -> str | None:
    name = travel.target.parts[-1].strip("/")
    version = travel.version or travel.timestamp or travel.expression
    return None if name == "other" else f"/{name}@{version}"


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
            "SELECT * FROM a@v3, db.b@20260131123456789 x",
            "SELECT * FROM delta.`/a@3` AS `a`, delta.`/b@2026-01-31 12:34:56.789` x",
        ),
        (
            "SELECT * FROM a TIMESTAMP AS OF date_sub(current_date(), 1) x WHERE true",
            "SELECT * FROM delta.`/a@date_sub(current_date(), 1)` x WHERE true",
        ),
        (
            "SELECT * FROM a FOR TIMESTAMP AS OF now() - INTERVAL '1' HOUR - (INTERVAL 2 DAYS)",
            "SELECT * FROM delta.`/a@now() - INTERVAL '1' HOUR - (INTERVAL 2 DAYS)` AS `a`",
        ),
        (
            "SELECT * FROM a TIMESTAMP AS OF TIMESTAMP '2026' JOIN b ON true",
            "SELECT * FROM delta.`/a@TIMESTAMP '2026'` AS `a` JOIN b ON true",
        ),
        (
            "WITH q AS (SELECT * FROM a VERSION AS OF 1), r (x) AS (SELECT 1) SELECT * FROM q, r",
            "WITH q AS (SELECT * FROM delta.`/a@1` AS `a`), r (x) AS (SELECT 1) SELECT * FROM q, r",
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
        pytest.param("SELECT * FROM a TIMESTAMP AS OF (SELECT now())", id="a time of a query"),
        pytest.param("SELECT * FROM a TIMESTAMP AS OF f(:v)", id="a parameter in a time"),
        pytest.param("SELECT * FROM a TIMESTAMP AS OF b", id="a column as a time"),
        pytest.param("SELECT * FROM a TIMESTAMP AS OF now() -", id="an open time"),
        pytest.param("SELECT * FROM a @v1", id="a blank before the version"),
        pytest.param("SELECT * FROM a@1", id="a version without v"),
        pytest.param("SELECT * FROM a VERSION AS OF :v", id="a parameter"),
        pytest.param("WITH a AS (SELECT 1) SELECT * FROM a VERSION AS OF 1", id="a name of WITH"),
        pytest.param(
            "WITH b AS (SELECT 1), `A` (x) AS (SELECT 1) SELECT * FROM a VERSION AS OF 1",
            id="a quoted name of WITH",
        ),
        pytest.param("SELECT a VERSION AS OF 1", id="no table"),
        pytest.param("SELECT * FROM a VERSION AS OF", id="no version"),
        pytest.param("SELECT * FROM a VERSION AS OF 1 'open", id="an open string"),
    ],
)
def test_what_is_not_certain_stays(text: str) -> None:
    assert pin_versions(text, Quotes(), path_of) == text
