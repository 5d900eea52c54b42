"""Hidden names: the files and directories that vacuum ignores. Pure.

The rule is the same as in Delta Lake. At every level names that begin with "_" or "." are hidden,
except directories of partition columns (of mapped columns by either name), `_change_data` and
`_delta_index*`. The directory `metadata` is hidden, too, if the table is also written for Iceberg
readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delta_ops.protocol.change_data import CHANGE_DATA_DIRECTORY
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import hive_directory

HIDING = ("_", ".")
_ICEBERG = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")


class HiddenNames(NamedTuple):
    """The rule that decides which names hide a file or a directory with all its files."""

    visible: tuple[str, ...]
    """Prefixes of names that are visible with any first character."""
    directories: frozenset[str] = frozenset()
    """Names of directories that are hidden in spite of their first character."""


def hidden_names(definition: TableDefinition) -> HiddenNames:
    """The rule for a table."""
    physical = map(physical_name, definition.partition_fields)
    columns = dict.fromkeys([*definition.partition_columns, *physical])
    formats = definition.metadata.configuration.get("delta.universalFormat.enabledFormats", "")
    is_shared = formats.strip() or any(map(definition.has, _ICEBERG))
    return hidden_names_except(
        tuple(columns), frozenset({"metadata"}) if is_shared else frozenset()
    )


def hidden_names_except(
    partition_columns: Sequence[str], directories: frozenset[str] = frozenset()
) -> HiddenNames:
    """The rule for a table with these partition columns."""
    escaped = (hive_directory([name], {name: "x"}) for name in partition_columns)
    columns = (directory.removesuffix("x") for directory in escaped)
    visible = ("_delta_index", *columns, *(f"{name}=" for name in partition_columns))
    return HiddenNames(visible, directories)


def is_hidden_directory(path: str, names: HiddenNames) -> bool:
    """Whether a directory or a directory above it is hidden.

    Args:
        path: Relative to the table, decoded; "" is the table, which is not hidden.
    """
    for part in path.split("/"):  # called very often
        if part in names.directories or (part[:1] in HIDING and is_hidden_name(part, names)):
            return True
    return False


def is_hidden_name(name: str, names: HiddenNames) -> bool:
    """Whether a file is hidden by its own name, without a directory."""
    return (
        name.startswith(HIDING)
        and name != CHANGE_DATA_DIRECTORY
        and not name.startswith(names.visible)
    )
