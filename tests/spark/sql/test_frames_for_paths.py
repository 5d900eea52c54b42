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
        ("SELECT '{FROM delta.`/a`}'", "SELECT '{FROM delta.`/a`}'", []),
        ("SELECT * FROM delta.`/a` WHERE '", "SELECT * FROM delta.`/a` WHERE '", []),
    ],
)
def test_a_path_becomes_a_field(text: str, wanted: str, paths: list[str]) -> None:
    assert may_name_paths(text)
    made, frames = frames_for_paths(text, lambda path: path)
    assert (made, list(frames.values())) == (wanted, paths)
