"""Paths in queries of Spark Connect become fields, and all other text stays. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.statements.frames_for_paths import frames_for_paths, may_name_paths


@pytest.mark.parametrize(
    ("text", "wanted", "paths"),
    [
        (
            "SELECT '{x}' FROM delta.`/a``b@v3` t JOIN Delta . `/c` ON t.x = 1 -- {",
            "SELECT '{{x}}' FROM {delta_ops_table_0} t JOIN {delta_ops_table_1} ON t.x = 1 -- {{",
            ["/a`b@v3", "/c"],
        ),
        ("SELECT * FROM t, delta.`/a`", "SELECT * FROM t, {delta_ops_table_0}", ["/a"]),
        ("SELECT delta.`a` FROM t", "SELECT delta.`a` FROM t", []),
        ("SELECT a, delta.`b` FROM t AS delta", "SELECT a, delta.`b` FROM t AS delta", []),
        (
            "SELECT extract(YEAR FROM delta.`d`) FROM delta.`/a` delta, (delta.`/b`) WHERE "
            "x IS DISTINCT FROM delta.`y` AND f(1, delta.`z`) ORDER BY 1, delta.`d`",
            "SELECT extract(YEAR FROM delta.`d`) FROM {delta_ops_table_0} delta, "
            "({delta_ops_table_1}) WHERE "
            "x IS DISTINCT FROM delta.`y` AND f(1, delta.`z`) ORDER BY 1, delta.`d`",
            ["/a", "/b"],
        ),
        (
            "SELECT (SELECT max(x), delta.`q` FROM u, delta.`/a`) FROM (FROM delta.`/b` SELECT 1)",
            "SELECT (SELECT max(x), delta.`q` FROM u, {delta_ops_table_0}) "
            "FROM (FROM {delta_ops_table_1} SELECT 1)",
            ["/a", "/b"],
        ),
        ("SELECT 1 FROM delta.", "SELECT 1 FROM delta.", []),
        ("SELECT '{FROM delta.`/a`}'", "SELECT '{FROM delta.`/a`}'", []),
        ("SELECT * FROM delta.`/a` WHERE '", "SELECT * FROM delta.`/a` WHERE '", []),
    ],
)
def test_a_path_becomes_a_field(text: str, wanted: str, paths: list[str]) -> None:
    made, frames = frames_for_paths(text, lambda path: path)
    assert (made, list(frames.values())) == (wanted, paths)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("SELECT * FROM Delta . `/a`", True), ("SELECT delta FROM t", False)],
)
def test_only_texts_with_a_path_are_searched(text: str, expected: bool) -> None:
    assert may_name_paths(text) is expected
