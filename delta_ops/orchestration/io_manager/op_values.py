"""Op values: values without an asset, which ops of a graph or a job pass to each other.

Such a value has no table. Dagster's own file system IO manager stores it by pickle in the storage
of the instance, which is also the default of Dagster for ops.
"""

from __future__ import annotations

import pickle
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.frames import class_name

_PICKLE_ERRORS = (
    TypeError,
    RuntimeError,  # of a Spark DataFrame
    pickle.PicklingError,
    dg.DagsterInvariantViolationError,
)


def store_op_value(context: dg.OutputContext, value: Any) -> None:
    """Store the value of an op for the ops after it.

    Raises:
        InvalidRequestError: Python cannot pickle the value, or the context has no instance.
    """
    manager = _file_system(compat.instance_of(context), compat.output_name(context))
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
        InvalidRequestError: The context has no instance.
    """
    return _file_system(compat.instance_of(context), "the input").load_input(context)


def _file_system(instance: dg.DagsterInstance | None, name: str) -> dg.IOManager:
    if instance is None:
        raise InvalidRequestError(
            f"{name} belongs to no asset, and this context has no instance to store it in; give "
            "the context an asset_key, or run the op in a job"
        )
    factory = dg.FilesystemIOManager(base_dir=instance.storage_directory())
    return factory.create_io_manager(dg.build_init_resource_context(instance=instance))
