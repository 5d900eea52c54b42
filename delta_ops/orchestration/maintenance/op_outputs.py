"""Outputs and jobs of our ops, independent of the location's IO manager.

The `io_manager` of a location is made for assets, and may do anything with the output of an op. So
each job has an `io_manager` of its own. This includes jobs whose ops have no output, because
Dagster sets up the IO manager before an op runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from delta_ops.orchestration.dagster_versions import BetaWarning, job_owners


def no_output() -> dg.Out:
    """The output of an op that passes nothing on."""
    return dg.Out(dg.Nothing)


def op_name(job: str, step: str) -> str:
    """The name of an op's definition. It must be unique in a location, which may repeat a job."""
    return f"{job}_{step}"


def build_job(
    compose: Callable[[], None],
    name: str,
    *,
    description: str,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    executor_def: dg.ExecutorDefinition = dg.in_process_executor,
    io_manager: Any = dg.mem_io_manager,
) -> dg.JobDefinition:
    """A job with an IO manager of its own.

    Args:
        compose: Calls the ops.
        tags: Tags of the job and its runs.
        io_manager: Passes the outputs between the ops.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # owners of a job are new
        return dg.job(
            name=name,
            description=description,
            **job_owners(owners),
            tags=tags,
            executor_def=executor_def,
            resource_defs={"io_manager": io_manager},
        )(compose)


def build_single_op_job(
    op: dg.OpDefinition,
    name: str,
    *,
    step: str,
    description: str,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
) -> dg.JobDefinition:
    """A job of one op with `no_output`, which runs in the process of the run.

    Args:
        step: Name of the op in config and events.
        tags: Tags of the job and its runs.
    """

    def compose() -> None:
        op.alias(step)()

    return build_job(compose, name, description=description, owners=owners, tags=tags)
