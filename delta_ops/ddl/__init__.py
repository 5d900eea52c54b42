"""DDL: columns, properties, constraints, features and whole tables.

Each function commits once, or not at all if the table is already as requested.
"""

from delta_ops.ddl.clone import shallow_clone
from delta_ops.ddl.clustering import cluster_by
from delta_ops.ddl.columns import (
    add_columns,
    change_type,
    drop_columns,
    drop_not_null,
    rename_column,
    reorder_columns,
    set_comment,
    set_default,
    set_not_null,
)
from delta_ops.ddl.constraints import add_constraint, drop_constraint
from delta_ops.ddl.create import IfExists, create_table
from delta_ops.ddl.drop import DropResult, drop_table
from delta_ops.ddl.features import add_feature, drop_feature, upgrade_protocol
from delta_ops.ddl.manifest import ManifestResult, generate_manifest
from delta_ops.ddl.new_columns import NewColumn
from delta_ops.ddl.properties import rename_table, set_properties, set_table_comment

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
