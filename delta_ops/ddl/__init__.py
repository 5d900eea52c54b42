"""DDL: what a table is, changed without rewriting its rows.

Each function commits once, or not at all where the table is as it should be.
"""

from delta_ops.ddl.constraints import add_constraint, drop_constraint, set_not_null
from delta_ops.ddl.create_table import IfExists, create_table
from delta_ops.ddl.drop_table import DropResult, drop_table
from delta_ops.ddl.features import add_feature, drop_feature, upgrade_protocol
from delta_ops.ddl.manifest import ManifestResult, generate_manifest
from delta_ops.ddl.shallow_clone import shallow_clone
from delta_ops.transaction import (
    NewColumn,
    add_columns,
    change_type,
    cluster_by,
    drop_columns,
    drop_not_null,
    rename_column,
    rename_table,
    reorder_columns,
    set_comment,
    set_default,
    set_properties,
    set_table_comment,
)

__all__ = [
    "DropResult",
    "IfExists",
    "ManifestResult",
    "NewColumn",
    "add_columns",
    "add_constraint",
    "add_feature",
    "change_type",
    "cluster_by",
    "create_table",
    "drop_columns",
    "drop_constraint",
    "drop_feature",
    "drop_not_null",
    "drop_table",
    "generate_manifest",
    "rename_column",
    "rename_table",
    "reorder_columns",
    "set_comment",
    "set_default",
    "set_not_null",
    "set_properties",
    "set_table_comment",
    "shallow_clone",
    "upgrade_protocol",
]
