"""Handover: what the ops of our jobs give to each other, whatever IO manager a location has.

The location's `io_manager` is made for assets: ours refuses the output of an op, which has no
table, and anybody else's may do anything. So each op of ours names an IO manager of the job's own,
also where it gives nothing: what an op names is set up before it runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

IO_MANAGER_KEY = "delta_ops_handover"


def no_output() -> dg.Out:
    """The output of an op that gives nothing to another."""
    return dg.Out(dg.Nothing, io_manager_key=IO_MANAGER_KEY)


def op_name(job: str, step: str) -> str:
    """The name of an op's definition: a location has each but once, and may have a job twice."""
    return f"{job}_{step}"


def handover_resources(io_manager: Any) -> dict[str, Any]:
    """The resources of a job of ours.

    Nobody uses its `io_manager`: Dagster copies a job without one into one with the location's,
    and the sensors for it too, with warnings of what Dagster itself does.
    """
    return {IO_MANAGER_KEY: io_manager, "io_manager": io_manager}


def build_single_op_job(
    op: dg.OpDefinition,
    name: str,
    *,
    step: str,
    description: str,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
) -> dg.JobDefinition:
    """A job of one op with `no_output`, which runs in the run's own process.

    Args:
        step: What config and events call the op.
        tags: What the job and its runs are marked with.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # owners of a job are new

        @dg.job(
            name=name,
            description=description,
            owners=list(owners) or None,
            tags=tags,
            executor_def=dg.in_process_executor,
            resource_defs=handover_resources(dg.mem_io_manager),
        )
        def job() -> None:
            op.alias(step)()

    return job
