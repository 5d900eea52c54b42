"""The pages for each other integration list every name, and say the truth about it."""

import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.swap_in.merge_translations import MERGE_FLAGS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "coming-from"
SWAP_IN = "delta_ops.orchestration.swap_in"
PACKAGES = {
    "dagster-deltalake": (
        "dagster_deltalake",
        "dagster_deltalake_pandas",
        "dagster_deltalake_polars",
    ),
    "dagster-delta": ("dagster_delta",),
    "dagster-polars": ("dagster_polars",),
    "dagster-iceberg": ("dagster_iceberg",),
}
MANAGERS = {
    "dagster-deltalake": "DeltaLakeIOManager",
    "dagster-delta": "BaseDeltaLakeIOManager",
    "dagster-polars": "PolarsDeltaIOManager",
    "dagster-iceberg": "DeltaLakeIOManager",
}
OURS = {"columns", "partition_expr", "delta/read"}
OF_OPS = {"table"}
"""Metadata of the Out of an op."""
OF_ITS_FORK = {"merge_config", "merge_predicate", "merge_operations_config", "commit_properties"}
OF_ITS_FORK |= {"table_configuration", "parquet_read_options", "table_version", "predicate"}
OF_ITS_FORK |= {"schema_mode"}
"""Names of dagster-delta, which dagster-deltalake's classes accept, too."""


class Row(NamedTuple):
    """A row of a table: names with one verdict."""

    names: list[str]
    verdict: str
    says: str


def rows_of(package: str, section: str) -> list[Row]:
    page = (PAGES / f"{package}.md").read_text()
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = [
        re.split(r"(?<!\\) ?\| ?", line.strip("|")) for line in re.findall(r"^\| .*$", text, re.M)
    ]
    return [
        Row(re.findall(r"`([^`]+)`", names), verdict.strip(), says.strip())
        for names, verdict, says in rows[1:]
    ]


def manager_of(package: str) -> Any:
    module = importlib.import_module(f"{SWAP_IN}.{PACKAGES[package][0]}")
    return getattr(module, MANAGERS[package])


def find(package: str, name: str) -> bool:
    for each in PACKAGES[package]:
        module = importlib.import_module(f"{SWAP_IN}.{each}")
        try:
            getattr(module, name)
        except (AttributeError, InvalidRequestError):
            continue
        return True
    return False


def listed(rows: list[Row]) -> set[str]:
    return {name for row in rows for name in row.names}


packages = pytest.mark.parametrize("package", PACKAGES)


@packages
def test_every_verdict_is_one_of_three_and_an_absent_name_says_what_to_do(package: str) -> None:
    page = (PAGES / f"{package}.md").read_text()
    for section in re.findall(r"^## (Classes|Fields|Metadata)(.*)$", page, re.MULTILINE):
        for row in rows_of(package, "".join(section)):
            assert row.verdict in ("same", "other name", "not there"), row
            assert row.verdict == "same" or row.says, row


@packages
def test_a_class_that_is_the_same_can_be_imported_and_every_export_is_listed(package: str) -> None:
    rows = rows_of(package, "Classes and constants")
    for row in rows:
        for name in row.names:
            assert find(package, name) is (row.verdict == "same"), name
    for each in PACKAGES[package]:
        module = importlib.import_module(f"{SWAP_IN}.{each}")
        known = {"DeltaLakeIOManager"} if package == "dagster-iceberg" else set()
        assert set(module.__all__) <= listed(rows) | known


@packages
def test_a_field_that_is_the_same_is_accepted_and_every_field_is_listed(package: str) -> None:
    manager, rows = manager_of(package), rows_of(package, "Fields of the IO manager")
    renamed = {manager.root_field, manager.schema_field, "storage_options", "client_options"}
    accepted = {*manager.field_translations, *renamed, "cloud_storage_options"}
    for row in rows:
        for name in row.names:
            assert (name in accepted) is (row.verdict == "same"), name
    missing = set(manager.field_translations) - listed(rows)
    assert missing <= (OF_ITS_FORK if package == "dagster-deltalake" else set())


@packages
@pytest.mark.parametrize("kind", ["assets", "inputs"])
def test_metadata_that_are_the_same_are_known_and_all_are_listed(package: str, kind: str) -> None:
    manager, rows = manager_of(package), rows_of(package, f"Metadata of {kind}")
    translations = manager.output_translations if kind == "assets" else manager.input_translations
    known = {*translations, *manager.table_keys, *OURS, *OF_OPS, *MERGE_FLAGS}
    for row in rows:
        if row.verdict == "same":
            assert set(row.names) <= known, row
    missing = set(translations) - listed(rows)
    assert missing <= (OF_ITS_FORK if package == "dagster-deltalake" else set())
