"""Op tables: outputs of ops that dagster-deltalake and dagster-delta store as tables.

The output of an op without an asset is a table if it names one: by the metadata `schema` or
`table`, or by a name other than "result". The table is `<root>/<schema>/<name>`. A later op reads
the version that the earlier op wrote, whoever writes the table in the meantime. Rows that name no
table are pickled, as by `DeltaIOManager`. Other values are rejected unless `op_outputs` is
"pickle".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.orchestration.dagster_compat import CheckFailure
from delta_ops.orchestration.io_manager.type_handlers import has_handler

_DEFAULT_NAME = "result"


class OpTable(NamedTuple):
    """The table and the version that an op has written; pickled for the ops after it."""

    name: tuple[str, ...]
    """The folders of the table below the root."""
    version: int


class NoHandlerError(InvalidRequestError, CheckFailure):
    """The output of an op has no rows. The other packages raise Dagster's `CheckError`."""


def validate_is_rows(value: Any) -> None:
    """Reject the output of an op that has no rows; None and handles of a table pass.

    Raises:
        NoHandlerError: The value has no rows.
    """
    if value is None or isinstance(value, Snapshot | DeltaLog) or has_handler(type(value)):
        return
    raise NoHandlerError(
        f"DeltaLakeIOManager does not have a handler for type '{type(value)}'. Return rows, give "
        'the output another io_manager_key, or set op_outputs="pickle" to pass any value to '
        "other ops"
    )


def op_table_name(
    context: dg.OutputContext, value: Any, schema: str | None
) -> tuple[str, ...] | None:
    """The folders of the table of an op's output; None if the value is pickled.

    Args:
        schema: The schema of the IO manager.

    Raises:
        InvalidRequestError: `schema` or `table` is not a string.
    """
    metadata = context.definition_metadata or {}
    folder, name = _text("schema", metadata), _text("table", metadata)
    is_named = folder is not None or name is not None or context.name != _DEFAULT_NAME
    is_rows = has_handler(type(value)) and not isinstance(value, Snapshot | DeltaLog)
    if not is_named or not is_rows:
        return None
    return folder or schema or "public", name or context.name


def _text(key: str, metadata: Mapping[str, Any]) -> str | None:
    value = metadata.get(key)
    value = value.value if isinstance(value, dg.MetadataValue) else value
    if value is None or isinstance(value, str):
        return value or None
    raise InvalidRequestError(
        f"the metadata of the op's Out have the {key} {value!r}, of type {type(value).__name__}; "
        "give a string"
    )
