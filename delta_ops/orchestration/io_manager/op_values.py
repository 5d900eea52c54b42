"""Op values: values without an asset, which ops of a graph or a job pass to each other.

Such a value has no table. Dagster's own file system IO manager stores it by pickle in the storage
of the instance, which is also the default of Dagster for ops. In a unit test without an instance,
the value stays in memory as long as the context of the output.
"""

from __future__ import annotations

import pickle
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg

from delta_ops.error_texts import class_name
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_settings import is_setting

_PICKLE_ERRORS = (
    TypeError,
    RuntimeError,  # of a Spark DataFrame
    pickle.PicklingError,
    dg.DagsterInvariantViolationError,
)

_tested_values: WeakKeyDictionary[dg.OutputContext, Any] = WeakKeyDictionary()
"""Values of contexts that a unit test built."""


def store_op_value(context: dg.OutputContext, value: Any) -> None:
    """Store the value of an op for the ops after it, with a warning if it has settings of a table.

    Raises:
        InvalidRequestError: Python cannot pickle the value.
    """
    metadata = {**(context.definition_metadata or {}), **(context.output_metadata or {})}
    if settings := [key for key in metadata if is_setting(key)]:
        context.log.warning(
            f"{compat.output_name(context)} belongs to no asset, so no table is written, and its "
            f"metadata {', '.join(settings)} have no effect; make the op an asset, or leave them "
            "out"
        )
    instance = compat.instance_of(context)
    if instance is None:
        context.log.info(
            f"{compat.output_name(context)} belongs to no asset, so no table was written; the "
            "value is kept for an input of this context. Give the context an asset_key to write a "
            "table"
        )
        _tested_values[context] = value
        return
    manager = _file_system(instance)
    try:
        manager.handle_output(context, value)
    except _PICKLE_ERRORS as error:
        raise InvalidRequestError(
            f"{compat.output_name(context)} is of type {class_name(type(value))}, which cannot be "
            "pickled, so no other op can read it; return another value, such as an Arrow table or "
            "a DeltaLog, or give the output another io_manager_key"
        ) from error


def load_op_value(context: dg.InputContext) -> Any:
    """Load the value of an earlier op.

    Raises:
        InvalidRequestError: The input is connected to no output; or a context that a unit test
            built has neither an instance nor the output of this value.
    """
    instance = compat.instance_of(context)
    if instance is not None and context.upstream_output is None:
        raise InvalidRequestError(
            f"the input {context.name} is connected to no op and to no asset, so there is no table "
            "to read; where the job calls the op, give it an asset, such as "
            "orders.to_source_asset(), or the output of another op. Nothing was read"
        )
    if instance is not None:
        return _file_system(instance).load_input(context)
    upstream = context.upstream_output
    if upstream is None or upstream not in _tested_values:
        raise InvalidRequestError(
            "the input belongs to no asset, and this context has no output whose value it could "
            "load; give build_input_context the asset_key, or the upstream_output that was stored"
        )
    return _tested_values[upstream]


def _file_system(instance: dg.DagsterInstance) -> dg.IOManager:
    factory = dg.FilesystemIOManager(base_dir=instance.storage_directory())
    return factory.create_io_manager(dg.build_init_resource_context(instance=instance))
