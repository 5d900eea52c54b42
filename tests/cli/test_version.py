"""`delta-ops --version`: one line, and with `-v` everything that a report of an error needs."""

from __future__ import annotations

import platform
from importlib.metadata import version

import pyarrow as pa
import pyspark
import pytest
from click.testing import CliRunner

from delta_ops.cli.main import cli


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, prog_name="delta-ops")
    assert done.exit_code == 0, done.output
    return done.output


def test_the_version_is_one_line() -> None:
    assert shown("--version") == f"delta-ops, version {version('delta_ops')}\n"


@pytest.mark.parametrize("arguments", [("--version", "-v"), ("-v", "--version")])
def test_with_v_it_has_the_version_of_each_part_and_the_way_of_each_engine(
    arguments: tuple[str, str],
) -> None:
    text = shown(*arguments)
    for line in (
        f"Python: {platform.python_version()}",
        f"pyarrow: {pa.__version__}",
        f"PySpark: {pyspark.__version__}",
        f"dagster: {version('dagster')}",
        f"polars: {version('polars')}",
        "Scala: 2.",
        "Hadoop: 3.",
        "Java: ",
        "Arrow engine: runs in this process",
        "Spark engine: in a classic session: compiled classes for",
        "Spark engine: over Spark Connect: Spark's public API",
    ):
        assert f"\n{line}" in text


def test_v_without_version_still_needs_a_command() -> None:
    done = CliRunner().invoke(cli, ["-v"], prog_name="delta-ops")
    assert done.exit_code == 2
    assert "Missing command" in done.output
