"""A table that one version of Spark writes is read by every other version, and by deltalake."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import delta_ops.arrow as da
from tests.support.tables import rows
from tests.versions.environments import SPARK, run_in, spark_python
from tests.versions.tables_program import TABLES, VARIANTS_AS_JSON, texts_of, variants

VERSIONS = (*SPARK, "newest")
PROGRAM = "tests.versions.tables_program"
_DIFFERS = re.compile(
    r"^(path|size|pathOrInlineDv|offset|txnId|engineInfo)$|(Time|Ms)$|Bytes|imestamp"
)
"""Names of ids, times and sizes."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
pytestmark = pytest.mark.full


def python_of(version: str) -> Path:
    return Path(sys.executable) if version == "newest" else spark_python(version)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of each version."""
    folder = tmp_path_factory.mktemp("versions")
    for version in VERSIONS:
        done = run_in(python_of(version), PROGRAM, "write", str(folder / version))
        assert done.returncode == 0, done.stderr[-6000:]
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_reads_the_tables_of_all_versions(written: Path, version: str) -> None:
    done = run_in(python_of(version), PROGRAM, "read", str(written))
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    expected = {
        f"{writer}/{name}": texts_of(da.to_table(written / writer / name))
        for writer in VERSIONS
        for name in TABLES
    }
    for writer in set(VERSIONS) - {"3.5"}:
        of_variants = found.pop(f"{writer}/{variants.__name__}")
        if version == "3.5":
            assert "needs Spark 4.0 or later" in of_variants
        else:
            assert of_variants == sorted(map(repr, VARIANTS_AS_JSON))
    assert found == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_deltalake_reads_the_tables_of_each_version(written: Path, version: str) -> None:
    for name in ("plain", "vectors", "merged"):
        table = written / version / name
        query = QueryBuilder().register("t", DeltaTable(str(table)))
        found = rows(pa.table(query.execute("SELECT * FROM t")))
        assert sorted(map(repr, found)) == sorted(map(repr, rows(da.to_table(table)))), name


@pytest.mark.parametrize("version", SPARK)
def test_the_logs_of_all_versions_are_alike(written: Path, version: str) -> None:
    for name in TABLES:
        found, newest = (
            [list(actions_of(commit)) for commit in commits_of(written / each / name)]
            for each in (version, "newest")
        )
        assert found == newest, name


def commits_of(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def actions_of(commit: Path) -> Iterator[str]:
    """The actions of a commit without what differs even if one version writes a table twice."""
    lines = commit.read_text(encoding="utf-8").splitlines()
    return iter(sorted(json.dumps(alike(json.loads(line)), sort_keys=True) for line in lines))


def alike(value: Any) -> Any:
    """A value of an action without ids, times and sizes."""
    match value:
        case dict():
            kept = (name for name in value if not _DIFFERS.search(name))
            return {name: alike(value[name]) for name in kept}
        case list():
            return [alike(each) for each in value]
        case str():
            return _UUID.sub("uuid", value)
    return value
