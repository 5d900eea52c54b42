"""The grammar of Delta's statements: what it reads, and what it leaves to Spark. No JVM."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.parse import may_be_ours, parse
from tests.support.examples import check_examples, few_or_many

PLAIN = Quotes()


def target(*parts: str, text: str | None = None) -> nodes.Target:
    return nodes.Target(parts=parts, text=text or ".".join(parts))


T = target("t")


def changed(*changes: nodes.ColumnChange) -> nodes.AlterColumns:
    return nodes.AlterColumns(target=T, changes=changes)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DELETE FROM t", nodes.Delete(target=T, alias=None, condition=None)),
        (
            "-- a\n/* b /* c */ */ delete from t as x where x.a = 'it;s' -- d\n ; ;",
            nodes.Delete(target=T, alias="x", condition="x.a = 'it;s'"),
        ),
        (
            "DELETE FROM a.`b.c``d` x WHERE CASE WHEN p THEN q END",
            nodes.Delete(
                target=target("a", "b.c`d", text="a.`b.c``d`"),
                alias="x",
                condition="CASE WHEN p THEN q END",
            ),
        ),
        (
            "UPDATE t SET a = f(1, 2), t.`b c`.d = (SELECT 1 WHERE true) WHERE a = 1",
            nodes.Update(
                target=T,
                alias=None,
                assignments=(("a", "f(1, 2)"), ("t.`b c`.d", "(SELECT 1 WHERE true)")),
                condition="a = 1",
            ),
        ),
        (
            "INSERT INTO TABLE t (a, `b c`) VALUES (1, 2)",
            nodes.Insert(target=T, columns=("a", "b c"), query="VALUES (1, 2)"),
        ),
        ("INSERT INTO t (SELECT 1)", nodes.Insert(target=T, query="(SELECT 1)")),
        (
            "INSERT INTO t BY NAME WITH q AS (SELECT 1 a) SELECT * FROM q",
            nodes.Insert(target=T, is_by_name=True, query="WITH q AS (SELECT 1 a) SELECT * FROM q"),
        ),
        ("INSERT OVERWRITE t TABLE u", nodes.Insert(target=T, overwrites=True, query="TABLE u")),
        (
            "INSERT INTO t REPLACE WHERE a > 1 SELECT 2",
            nodes.Insert(target=T, replace_where="a > 1", query="SELECT 2"),
        ),
        ("TRUNCATE TABLE t", nodes.Truncate(target=T)),
        (
            "OPTIMIZE t WHERE p = 1 ZORDER BY (a, b.c)",
            nodes.Optimize(target=T, condition="p = 1", zorder_by=("a", "b.c"), is_full=False),
        ),
        (
            "OPTIMIZE '/a' FULL",
            nodes.Optimize(
                target=nodes.Target(path="/a", text="'/a'"),
                condition=None,
                zorder_by=(),
                is_full=True,
            ),
        ),
        (
            "VACUUM t DRY RUN LITE RETAIN 0.5 HOURS",
            nodes.Vacuum(target=T, retention_hours=0.5, is_dry_run=True, mode="lite"),
        ),
        ("DESC HISTORY t LIMIT 3", nodes.DescribeHistory(target=T, limit=3)),
        ("DESCRIBE DETAIL t", nodes.DescribeDetail(target=T)),
        ("RESTORE t VERSION AS OF 3", nodes.Restore(target=T, version=3, timestamp=None)),
        (
            "RESTORE TABLE t TO TIMESTAMP AS OF '2026-01-31'",
            nodes.Restore(target=T, version=None, timestamp="2026-01-31"),
        ),
        ("GENERATE m FOR TABLE t", nodes.Generate(target=T, mode="m")),
        ("REORG TABLE t WHERE p = 1 APPLY (PURGE)", nodes.Reorg(target=T, condition="p = 1")),
        (
            "CONVERT TO DELTA parquet.`/a` PARTITIONED BY (p INT, q STRING)",
            nodes.ConvertToDelta(
                target=target("parquet", "/a", text="parquet.`/a`"),
                partition_schema="p INT, q STRING",
            ),
        ),
        (
            "CREATE TABLE t SHALLOW CLONE u VERSION AS OF 2 TBLPROPERTIES ('a' = 'b')",
            nodes.ShallowClone(
                target=T,
                source=target("u"),
                version=2,
                timestamp=None,
                mode="create",
                properties=(("a", "b"),),
                location=None,
            ),
        ),
        (
            "CREATE TABLE t SHALLOW CLONE u TIMESTAMP AS OF date_sub(current_date(), 1) "
            "LOCATION '/x'",
            nodes.ShallowClone(
                target=T,
                source=target("u"),
                version=None,
                timestamp=None,
                time_expression="date_sub(current_date(), 1)",
                mode="create",
                properties=(),
                location="/x",
            ),
        ),
        (
            "CREATE TABLE IF NOT EXISTS t LIKE u USING delta LOCATION '/x' "
            "TBLPROPERTIES ('a' = 'b')",
            nodes.CreateTableLike(
                target=T,
                source=target("u"),
                mode="create if not exists",
                is_delta=True,
                properties=(("a", "b"),),
                location="/x",
            ),
        ),
        (
            "INSERT OVERWRITE t PARTITION (p = DATE '2026-01-31', q) (a) SELECT 1, 2",
            nodes.Insert(
                target=T,
                columns=("a",),
                overwrites=True,
                query="SELECT 1, 2",
                partition=(("p", "DATE '2026-01-31'"), ("q", None)),
            ),
        ),
        (
            "INSERT INTO t VALUES (1, default), (f(1, 2), 'DEFAULT')",
            nodes.Insert(
                target=T,
                query="VALUES (1, default), (f(1, 2), 'DEFAULT')",
                value_rows=(("1", "default"), ("f(1, 2)", "'DEFAULT'")),
            ),
        ),
        (
            "WITH a AS (SELECT 1), b(x) AS (SELECT 2) INSERT INTO t SELECT * FROM a, b",
            nodes.Insert(
                target=T,
                query="WITH a AS (SELECT 1), b(x) AS (SELECT 2) SELECT * FROM a, b",
            ),
        ),
        (
            "WITH a AS (SELECT 1) INSERT INTO t WITH b AS (SELECT 2) SELECT * FROM a, b",
            nodes.Insert(
                target=T,
                query="WITH a AS (SELECT 1) SELECT * FROM "
                "(WITH b AS (SELECT 2) SELECT * FROM a, b)",
            ),
        ),
        (
            "WITH a AS (SELECT 1 AS id) MERGE INTO t USING a ON t.id = a.id "
            "WHEN MATCHED THEN DELETE",
            nodes.MergeInto(
                target=T,
                alias=None,
                source="a",
                source_name="a",
                condition="t.id = a.id",
                clauses=(nodes.MergeClause(action="delete", applies_to="matched", condition=None),),
                adds_columns=False,
                with_tables="WITH a AS (SELECT 1 AS id)",
            ),
        ),
        (
            "SHOW TBLPROPERTIES t (a.b)",
            nodes.Show(target=T, what="properties", name="a.b"),
        ),
        ("SHOW COLUMNS IN t", nodes.Show(target=T, what="columns")),
        ("SHOW PARTITIONS t", nodes.Show(target=T, what="partitions")),
        ("SHOW CREATE TABLE t", nodes.Show(target=T, what="create table")),
        (
            "ALTER TABLE t SET TBLPROPERTIES ('a.b' = 'c', d.e = TRUE, f = 3, g = 1.50)",
            nodes.SetProperties(
                target=T,
                properties=(("a.b", "c"), ("d.e", "true"), ("f", "3"), ("g", "1.50")),
            ),
        ),
        (
            "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a')",
            nodes.UnsetProperties(target=T, names=("a",), if_exists=True),
        ),
        (
            "ALTER TABLE t ADD COLUMNS (a STRUCT<x: INT, y: ARRAY<STRING>> COMMENT 'c' FIRST)",
            nodes.AddColumns(
                target=T,
                columns=(
                    nodes.ColumnDefinition(
                        name="a",
                        data_type="STRUCT<x: INT, y: ARRAY<STRING>>",
                        comment="c",
                        is_first=True,
                    ),
                ),
            ),
        ),
        (
            "ALTER TABLE t RENAME COLUMN a.b TO c",
            nodes.RenameColumn(target=T, column="a.b", name="c"),
        ),
        ("ALTER TABLE t DROP COLUMN a", nodes.DropColumns(target=T, columns=("a",))),
        (
            "ALTER TABLE t DROP COLUMNS IF EXISTS (a.b, c)",
            nodes.DropColumns(target=T, columns=("a.b", "c"), if_exists=True),
        ),
        (
            "ALTER TABLE t ALTER COLUMN a TYPE DECIMAL(10, 2)",
            changed(nodes.ColumnChange(column="a", change="type", value="DECIMAL(10, 2)")),
        ),
        (
            "ALTER TABLE t CHANGE a AFTER b",
            changed(nodes.ColumnChange(column="a", change="after", value="b")),
        ),
        (
            "ALTER TABLE t ALTER COLUMN a TYPE STRUCT<x: INT, y: INT>, b SET DEFAULT f(1, 2), "
            "c DROP NOT NULL",
            changed(
                nodes.ColumnChange(column="a", change="type", value="STRUCT<x: INT, y: INT>"),
                nodes.ColumnChange(column="b", change="default", value="f(1, 2)"),
                nodes.ColumnChange(column="c", change="drop not null"),
            ),
        ),
        (
            "ALTER TABLE t CHANGE COLUMN a.b b BIGINT COMMENT 'c' AFTER d",
            changed(
                nodes.ColumnChange(column="a.b", change="type", value="BIGINT"),
                nodes.ColumnChange(column="a.b", change="comment", value="c"),
                nodes.ColumnChange(column="a.b", change="after", value="d"),
            ),
        ),
        (
            "TRUNCATE TABLE IDENTIFIER('db.`t``u`')",
            nodes.Truncate(
                target=nodes.Target(parts=("db", "t`u"), text="IDENTIFIER('db.`t``u`')")
            ),
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT c CHECK (a > (1 + 2))",
            nodes.AddConstraint(target=T, name="c", condition="a > (1 + 2)"),
        ),
        ("ALTER TABLE t CLUSTER BY NONE", nodes.ClusterBy(target=T, columns=())),
        (
            "ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY",
            nodes.DropFeature(target=T, name="deletionVectors", truncates_history=True),
        ),
        ("COMMENT ON TABLE t IS NULL", nodes.CommentOnTable(target=T, comment=None)),
        (
            r"COMMENT ON COLUMN t.a IS 'it\'s \u00e9\n'",
            nodes.CommentOnColumn(target=T, column="a", comment="it's \u00e9\n"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_statement_is_read(text: str, wanted: nodes.Statement) -> None:
    assert may_be_ours(text)
    assert parse(text, PLAIN) == wanted


@pytest.mark.parametrize(
    ("text", "operation", "condition"),
    [
        (
            "ALTER TABLE t ADD IF NOT EXISTS PARTITION (p = 1) LOCATION '/x'",
            "ALTER TABLE ... ADD PARTITION",
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        ),
        (
            "ALTER TABLE t DROP PARTITION (p = 1), PARTITION (p = 2)",
            "ALTER TABLE ... DROP PARTITION",
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        ),
        (
            "ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 2)",
            "ALTER TABLE ... PARTITION",
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        ),
        ("MSCK REPAIR TABLE t", "MSCK REPAIR TABLE", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        (
            "LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE t PARTITION (p = 1)",
            "LOAD DATA",
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        ),
        (
            "DESC FORMATTED t PARTITION (p = 1)",
            "DESCRIBE ... PARTITION",
            "DELTA_OPERATION_NOT_ALLOWED_DETAIL",
        ),
        (
            "TRUNCATE TABLE t PARTITION (p = 1)",
            "TRUNCATE TABLE ... PARTITION",
            "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED",
        ),
    ],
)
def test_a_statement_that_delta_tables_lack_is_read(
    text: str, operation: str, condition: str
) -> None:
    found = parse(text, PLAIN)
    assert may_be_ours(text)
    assert isinstance(found, nodes.Unsupported)
    assert (found.target, found.operation, found.condition) == (T, operation, condition)


def test_partition_columns_with_types_follow_the_other_columns() -> None:
    found = parse(
        "CREATE TABLE t (a INT) USING delta PARTITIONED BY (`b c` STRING COMMENT 'x', d DATE)",
        PLAIN,
    )
    assert isinstance(found, nodes.CreateTable)
    assert found.partition_by == ("b c", "d")
    assert found.columns == (
        nodes.ColumnDefinition(name="a", data_type="INT"),
        nodes.ColumnDefinition(name="`b c`", data_type="STRING", comment="x"),
        nodes.ColumnDefinition(name="d", data_type="DATE"),
    )


def test_all_clauses_of_a_merge_are_read() -> None:
    found = parse(
        "MERGE WITH SCHEMA EVOLUTION INTO t AS a USING (SELECT 1 id) b ON a.id = b.id "
        "WHEN MATCHED AND CASE WHEN b.x THEN true END THEN UPDATE SET a.v = b.v, w = 1 "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY TARGET AND b.y THEN INSERT (id, v) VALUES (b.id, f(b.v, 1)) "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0",
        PLAIN,
    )
    assert found == nodes.MergeInto(
        target=T,
        alias="a",
        source="(SELECT 1 id) b",
        source_name="b",
        condition="a.id = b.id",
        adds_columns=True,
        clauses=(
            nodes.MergeClause(
                action="update",
                applies_to="matched",
                condition="CASE WHEN b.x THEN true END",
                assignments=(("a.v", "b.v"), ("w", "1")),
            ),
            nodes.MergeClause(action="delete", applies_to="matched", condition=None),
            nodes.MergeClause(
                action="insert",
                applies_to="not matched",
                condition="b.y",
                assignments=(("id", "b.id"), ("v", "f(b.v, 1)")),
            ),
            nodes.MergeClause(action="insert all", applies_to="not matched", condition=None),
            nodes.MergeClause(
                action="update",
                applies_to="not matched by source",
                condition=None,
                assignments=(("v", "0"),),
            ),
        ),
    )


@pytest.mark.parametrize("option", ["path '/x'", "'path' = '/x'", "PATH='/x'"])
def test_a_path_may_be_an_option(option: str) -> None:
    found = parse(f"CREATE TABLE t (a INT) USING delta OPTIONS ({option}) COMMENT 'c'", PLAIN)
    assert isinstance(found, nodes.CreateTable)
    assert (found.location, found.comment) == ("/x", "c")


def test_the_clauses_of_a_new_table_are_read() -> None:
    found = parse(
        "CREATE OR REPLACE TABLE t (id BIGINT NOT NULL COMMENT 'key', d DATE DEFAULT current_date()"
        ", y INT GENERATED ALWAYS AS (year(d)), n BIGINT GENERATED BY DEFAULT AS IDENTITY "
        "(START WITH -5 INCREMENT BY 2)) USING Delta COMMENT 'c' PARTITIONED BY (d) "
        "TBLPROPERTIES ('a' = 'b') LOCATION '/x'",
        PLAIN,
    )
    assert found == nodes.CreateTable(
        target=T,
        mode="create or replace",
        columns=(
            nodes.ColumnDefinition(name="id", data_type="BIGINT", is_nullable=False, comment="key"),
            nodes.ColumnDefinition(name="d", data_type="DATE", default="current_date()"),
            nodes.ColumnDefinition(name="y", data_type="INT", generated_as="year(d)"),
            nodes.ColumnDefinition(
                name="n",
                data_type="BIGINT",
                identity=nodes.Identity(start=-5, step=2, allows_values=True),
            ),
        ),
        partition_by=("d",),
        cluster_by=(),
        properties=(("a", "b"),),
        comment="c",
        location="/x",
        query=None,
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("SELECT 1", id="a query"),
        pytest.param("DELETE FROM t; DROP TABLE u", id="two statements"),
        pytest.param("DELETE FROM t WHERE", id="an empty condition"),
        pytest.param("DELETE FROM t WHERE (a = 1", id="an open bracket"),
        pytest.param("DELETE FROM t WHERE a = 1)", id="a bracket too many"),
        pytest.param("DELETE FROM t WHERE a = 'x", id="an open string"),
        pytest.param("DELETE FROM t WHERE CASE WHEN a THEN b", id="an open CASE"),
        pytest.param("DELETE FROM t WHERE end = 1", id="END as a name"),
        pytest.param("DELETE FROM t /* a", id="an open comment"),
        pytest.param("DELETE FROM t /* /* */", id="an open nested comment"),
        pytest.param("DELETE FROM t /* /*+ */ */", id="a hint in a comment"),
        pytest.param("DELETE FROM t\u0430ble", id="a Cyrillic letter in a plain name"),
        pytest.param("DELETE FROM t\u00a0WHERE a = 1", id="a blank that is not of ASCII"),
        pytest.param("DELETE FROM t WHERE a = $$x$$", id="a dollar-quoted string"),
        pytest.param("DELETE FROM ${table}", id="a variable as a name"),
        pytest.param("DELETE FROM IDENTIFIER('t' || 'u')", id="a computed name"),
        pytest.param("DELETE FROM IDENTIFIER('t', 'u')", id="two names"),
        pytest.param("DELETE FROM IDENTIFIER('t;')", id="a semicolon in a computed name"),
        pytest.param("DELETE FROM IDENTIFIER('t -- u')", id="a comment in a computed name"),
        pytest.param("DELETE FROM IDENTIFIER(:t)", id="a parameter as a name"),
        pytest.param("ALTER TABLE t CHANGE a b INT", id="a second name of a column"),
        pytest.param("ALTER TABLE t ALTER COLUMN a COMMENT 'c', b", id="a column without a change"),
        pytest.param(
            "CREATE TABLE t (a INT) USING delta PARTITIONED BY (a, b INT)",
            id="only some partition columns with types",
        ),
        pytest.param(
            "CREATE TABLE t (a INT) USING delta OPTIONS ('path' = '/x', 'b' = 'c')",
            id="another option than the path",
        ),
        pytest.param(
            "CREATE TABLE t (a INT) USING delta OPTIONS (path '/x') LOCATION '/y'",
            id="two locations",
        ),
        pytest.param("SELECT * FROM t@v1", id="a query of a version"),
        pytest.param("DELETE FROM s3://bucket/t", id="an address without quotes"),
        pytest.param("DELETE FROM t x y", id="two aliases"),
        pytest.param("DELETE t", id="without FROM"),
        pytest.param("UPDATE t SET a", id="without a value"),
        pytest.param("UPDATE t SET a = 1,", id="a comma at the end"),
        pytest.param("INSERT INTO t PARTITION (p = ) SELECT 1", id="a partition without a value"),
        pytest.param(
            "INSERT OVERWRITE t PARTITION (p = 1 OR true) SELECT 1", id="a condition as a value"
        ),
        pytest.param("INSERT OVERWRITE t PARTITION (p = q) SELECT 1", id="a column as a value"),
        pytest.param("INSERT INTO t PARTITION (p = 1) IF NOT EXISTS SELECT 1", id="a condition"),
        pytest.param("WITH a AS (SELECT 1) SELECT * FROM insert", id="a query with WITH"),
        pytest.param("WITH RECURSIVE a AS (SELECT 1) INSERT INTO t SELECT 1", id="recursion"),
        pytest.param("CREATE OR REPLACE TABLE t LIKE u", id="LIKE that replaces"),
        pytest.param("SHOW PARTITIONS t PARTITION (p = 1)", id="some partitions"),
        pytest.param("SHOW COLUMNS IN t IN d", id="a database apart from the table"),
        pytest.param(
            "CREATE TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY (START 1 START 2)) USING delta",
            id="two starts",
        ),
        pytest.param("INSERT INTO t SELECT 1 )", id="a bracket after the query"),
        pytest.param("MERGE INTO t USING s ON a = b", id="no clause"),
        pytest.param(
            "MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            id="fewer values than columns",
        ),
        pytest.param(
            "MERGE INTO t USING s ON a = b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
            id="all columns without a source",
        ),
        pytest.param("VACUUM t RETAIN -1 HOURS", id="a negative number"),
        pytest.param("VACUUM t RETAIN 1 HOURS RETAIN 2 HOURS", id="a repeated clause"),
        pytest.param("VACUUM t LITE FULL", id="two modes"),
        pytest.param("VACUUM t USING INVENTORY", id="no inventory"),
        pytest.param("VACUUM t RETAIN 1 HOURS USING INVENTORY u", id="a late inventory"),
        pytest.param("DESCRIBE TABLE EXTENDED t", id="another DESCRIBE"),
        pytest.param("DESCRIBE HISTORY t LIMIT x", id="a limit that is no number"),
        pytest.param("RESTORE t TO VERSION AS OF '1 '", id="a version that is no number"),
        pytest.param("COMMENT ON TABLE t IS 'a''b'", id="a doubled quote in a value"),
        pytest.param("COMMENT ON TABLE t IS '${x}'", id="a variable in a value"),
        pytest.param("COMMENT ON TABLE t IS 'a' 'b'", id="two strings"),
        pytest.param("COMMENT ON COLUMN a IS 'b'", id="a column without a table"),
        pytest.param("ALTER TABLE t RENAME TO u", id="a change of the catalog"),
        pytest.param("CREATE TABLE t (a INT) USING parquet", id="another provider"),
        pytest.param("CREATE TABLE t (a INT) USING delta AS", id="AS without a query"),
        pytest.param("CREATE TABLE t (a INT a INT) USING delta", id="a column of two types"),
        pytest.param("CREATE VIEW v AS SELECT 1", id="a view"),
    ],
)
def test_what_is_not_certain_is_left_to_spark(text: str) -> None:
    assert parse(text, PLAIN) is None


def test_double_quotes_are_names_if_the_session_says_so() -> None:
    text = 'COMMENT ON TABLE t IS "a"'
    assert parse(text, PLAIN) == nodes.CommentOnTable(target=T, comment="a")
    assert parse(text, Quotes(doubles_are_names=True)) is None


def test_backslashes_are_kept_if_the_session_says_so() -> None:
    text = r"COMMENT ON TABLE t IS 'a\n'"
    assert parse(text, PLAIN) == nodes.CommentOnTable(target=T, comment="a\n")
    kept = parse(text, Quotes(keeps_backslashes=True))
    assert kept == nodes.CommentOnTable(target=T, comment=r"a\n")


_PIECES = [*"aeE'\"`\\;-/*(),.=<>?:$ {}\n", "CASE ", "END ", "WHERE ", "é"]
_TEXTS = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)


@few_or_many(200, 3000)
def test_a_value_in_backticks_or_a_comment_never_changes_the_statement(num_examples: int) -> None:
    def check(name: str, remark: str) -> None:
        quoted = "`" + (name or "a").replace("`", "``") + "`"
        clean = remark.replace("*", "").replace("/", "")
        found = parse(f"DELETE /* {clean} */ FROM delta.{quoted} WHERE {quoted} = 1", PLAIN)
        if found is None:  # only a variable is left to Spark
            assert "${" in name
            return
        assert isinstance(found, nodes.Delete)
        assert found.target.parts == ("delta", name or "a")
        assert found.condition == f"{quoted} = 1"

    check_examples(num_examples, check, _TEXTS, _TEXTS)


@few_or_many(300, 5000)
def test_a_condition_is_a_slice_of_the_text(num_examples: int) -> None:
    def check(condition: str) -> None:
        text = f"DELETE FROM t WHERE a = 1 AND ({condition})"
        found = parse(text, PLAIN)
        if found is not None:
            assert isinstance(found, nodes.Delete)
            assert found.condition is not None
            assert text.startswith(f"DELETE FROM t WHERE {found.condition}")

    check_examples(num_examples, check, _TEXTS)
