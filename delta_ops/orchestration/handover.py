"""Handover: what the ops of our jobs give to each other, whatever IO manager a location has.

The location's `io_manager` is made for assets: ours refuses the output of an op, which has no
table, and anybody else's may do anything. So each op of ours names an IO manager of the job's own,
also where it gives nothing: what an op names is set up before it runs.
"""

from __future__ import annotations

import dagster as dg

IO_MANAGER_KEY = "delta_ops_handover"


def no_output() -> dg.Out:
    """The output of an op that gives nothing to another."""
    return dg.Out(dg.Nothing, io_manager_key=IO_MANAGER_KEY)


def build_single_op_job(op: dg.OpDefinition, name: str) -> dg.JobDefinition:
    """A job of one op with `no_output`, which runs in the run's own process."""

    @dg.job(
        name=name,
        executor_def=dg.in_process_executor,
        resource_defs={IO_MANAGER_KEY: dg.mem_io_manager},
    )
    def job() -> None:
        op()

    return job
