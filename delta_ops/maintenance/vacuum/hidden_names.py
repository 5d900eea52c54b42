"""Hidden names: what of a table's directory is none of vacuum's business. Pure.

The rule is the reference's. At every level names that begin with "_" or "." are hidden, except
directories of partition columns (of mapped columns by either name), `_change_data` and
`_delta_index*`. So is the directory `metadata` of a table that is kept for readers of Iceberg too.
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
    """Which names hide what they name, and all below it."""

    visible: tuple[str, ...]
    """What a name may begin with and be visible, whatever its first character is."""
    directories: frozenset[str] = frozenset()
    """Names of directories that are hidden though they do not begin like that."""


def hidden_names(definition: TableDefinition) -> HiddenNames:
    """The rule for a table."""
    physical = map(physical_name, definition.partition_fields)
    columns = dict.fromkeys([*definition.partition_columns, *physical])
    formats = definition.metadata.configuration.get("delta.universalFormat.enabledFormats", "")
    is_shared = formats.strip() or any(map(definition.has, _ICEBERG))
    return names_hidden_but_for(
        tuple(columns), frozenset({"metadata"}) if is_shared else frozenset()
    )


def names_hidden_but_for(
    partition_columns: Sequence[str], directories: frozenset[str] = frozenset()
) -> HiddenNames:
    """The rule for a table of these partition columns."""
    escaped = (hive_directory([name], {name: "x"}) for name in partition_columns)
    columns = (directory.removesuffix("x") for directory in escaped)
    visible = ("_delta_index", *columns, *(f"{name}=" for name in partition_columns))
    return HiddenNames(visible, directories)


def is_hidden_directory(path: str, names: HiddenNames) -> bool:
    """Whether a directory is hidden, or lies in one that is.

    Args:
        path: Relative to the table, decoded; "" is the table, which is not.
    """
    for part in path.split("/"):  # asked of very many
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
