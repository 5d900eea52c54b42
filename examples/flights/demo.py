"""Demo: runs the pipeline headless through Dagster, and prints the result.

Uses the checks of the sensors in `jobs`, executes the runs that they would request in this process,
then maintains the tables and accounts for every input record. A second run finds no work. One more
table still needs maintenance, as an example for the UI.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table

from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import plan_maintenance
from delta_ops.orchestration import maintenance_config
from delta_ops.units import size_text
from examples.flights.accounting import account
from examples.flights.jobs import DayRun, ingest_runs, pending_files, refresh_runs
from examples.flights.settings import first_day
from examples.flights.sources import InputError, InputFile
from examples.flights.weather import HOURS, append_hours

console = Console(soft_wrap=True)
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_LAST_WAVE_DAYS = 3
_REPORTED_HOURS = 12
"""Hours of weather with an event each, for the plots of the asset page."""
_UI = "http://127.0.0.1:3000"


class DemoError(Exception):
    """A run failed; the text is the first cause."""


def main() -> int:
    """Run the pipeline until no work is left; return the exit code."""
    started = time.monotonic()
    try:
        import definitions

        num_runs = run_pipeline(definitions)
        if not definitions.WEATHER.log().exists():
            append_weather(definitions)
        maintenance = maintain(definitions)
        execute_job(definitions, "check_tables")
        balanced = report(definitions, maintenance)
    except (DeltaOpsError, InputError, DemoError) as error:
        console.print(f"[red]{error}[/red]", highlight=False)
        return 1
    if num_runs == 0:
        console.print("\nNothing was new: every file was ingested before, so no row was written.")
    console.print(f"\n{num_runs} runs, {time.monotonic() - started:.0f} s.")
    console.print("Run it again: it is safe, and finds nothing to do.")
    show_next_steps(definitions)
    return 0 if balanced else 1


def run_pipeline(definitions: Any) -> int:
    """Ingest pending files and refresh the changed days; return the number of runs."""
    raw = log_of(definitions, "flights_raw")
    files = input_of(definitions).files()
    console.print(f"Input: {definitions.INPUT} ({len(files)} files); tables: {definitions.LAKE}")
    pending = pending_files(raw, files)
    num_runs = 0
    for wave in waves(pending, generated=definitions.GENERATED):
        for run in ingest_runs(wave):
            execute(definitions, run)
            num_runs += 1
        num_runs += refresh(definitions)
    return num_runs + refresh(definitions)


def waves(pending: list[InputFile], *, generated: bool) -> list[list[InputFile]]:
    """Split the generated files into two deliveries, so late records meet finished days."""
    if not generated or not pending:
        return [pending] if pending else []
    arrivals = sorted({file.arrival_day for file in pending})
    late = set(arrivals[-_LAST_WAVE_DAYS:])
    first = [file for file in pending if file.arrival_day not in late]
    return [wave for wave in (first, [f for f in pending if f.arrival_day in late]) if wave]


def refresh(definitions: Any) -> int:
    """Execute the runs that changed rows require; return the number of runs."""
    with dg.DagsterInstance.get() as instance:
        runs, _ = refresh_runs(instance, definitions.lake, {})
    for run in runs:
        execute(definitions, run)
    return len(runs)


def execute(definitions: Any, run: DayRun) -> None:
    """Run a job over a range of days in this process."""
    started = time.monotonic()
    execute_job(definitions, run.job, tags=run.tags)
    took = time.monotonic() - started
    console.print(f"  {run.job} {run.days}: {took:.1f} s", highlight=False)


def execute_job(
    definitions: Any,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
    run_config: Mapping[str, Any] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job in this process, on the instance that `make dev` shows.

    Raises:
        DemoError: The run failed.
    """
    job: dg.JobDefinition = definitions.defs.resolve_job_def(name)
    with dg.DagsterInstance.get() as instance:
        result = job.execute_in_process(
            instance=instance,
            tags=dict(tags or {}),
            run_config={**_QUIET, **(run_config or {})},
            raise_on_error=False,
        )
        if not result.success:
            raise DemoError(first_cause(result))
        return result


def first_cause(result: dg.ExecuteInProcessResult) -> str:
    """The error of the step that made a run fail, without Dagster's text and without causes."""
    for event in result.all_events:
        failure = event.event_specific_data
        error = getattr(failure, "error", None)
        if event.is_failure and error is not None:
            while error.cause is not None and str(error.cls_name).startswith("Dagster"):
                error = error.cause
            return str(error.message).strip().partition(f"{error.cls_name}: ")[2] or error.message
    return f"job {result.job_def.name} failed; see its run in the UI"


def append_weather(definitions: Any) -> None:
    """Append the hours of weather, and report their commits as the commit sensor does."""
    append_hours(definitions.WEATHER.uri, HOURS - _REPORTED_HOURS)
    cursor = report_commits(definitions, None)
    append_hours(definitions.WEATHER.uri, _REPORTED_HOURS)
    report_commits(definitions, cursor)


def report_commits(definitions: Any, cursor: str | None) -> str | None:
    """One tick of the commit sensor; returns its cursor."""
    sensor = definitions.defs.resolve_sensor_def("delta_commit_sensor")
    with dg.DagsterInstance.get() as instance:
        context = dg.build_sensor_context(
            instance, cursor, definitions=definitions.defs, sensor_name=sensor.name
        )
        with context:
            tick = sensor.evaluate_tick(context)
        for event in tick.asset_events:
            instance.report_runless_asset_event(event)
    return str(tick.cursor)


def maintain(definitions: Any) -> list[str]:
    """Run the maintenance job over the pipeline's tables; return a sentence for each table."""
    names = [table.name for table in definitions.TABLES]
    result = execute_job(
        definitions,
        "delta_maintenance",
        run_config=maintenance_config(
            names, operations=["vacuum", "optimize", "checkpoint", "clean_up_log"]
        ),
    )
    observations = [
        event.asset_observation_data.asset_observation
        for event in result.all_events
        if event.is_asset_observation
    ]
    return [f"{seen.asset_key.to_user_string()}: {seen.description}" for seen in observations]


def report(definitions: Any, maintenance: list[str]) -> bool:
    """Print the tables, the maintenance, and the account; return whether it balances."""
    shown = Table(title="Tables", title_justify="left")
    for column in ("table", "version", "rows", "files", "size", "checkpoint", "due"):
        is_text = column in ("table", "due")
        shown.add_column(
            column, justify="left" if is_text else "right", no_wrap=column in ("table", "size")
        )
    for table in (*definitions.TABLES, definitions.WEATHER):
        snapshot = table.log().snapshot()
        rows = sum(snapshot.files(["num_records"])["num_records"].to_pylist())
        checkpoint = "" if snapshot.checkpoint is None else str(snapshot.checkpoint.version)
        shown.add_row(
            table.name,
            str(snapshot.version),
            f"{rows:,}",
            str(snapshot.num_files),
            size_text(snapshot.size_bytes),
            checkpoint,
            ", ".join(plan_maintenance(table.log()).operations),
        )
    console.print(shown)
    console.print("Maintenance")
    for sentence in maintenance:
        console.print(f"  {sentence}", highlight=False)
    result = account(Path(definitions.INPUT), definitions.LAKE, first_day())
    console.print("\nAccount: input records = flights + duplicates + quarantined")
    balanced = sum(day.balanced for day in result.days)
    console.print(f"  each of {len(result.days)} flight days: {balanced} balanced")
    total = result.total
    console.print(
        f"  in total: {total.records:,} = {total.flights_rows:,} + {total.duplicates:,} + "
        f"{total.quarantine_rows:,}, counted by deltalake and plain Python",
        highlight=False,
    )
    for problem in result.problems:
        console.print(f"[red]{problem}[/red]", highlight=False)
    return result.balanced


def show_next_steps(definitions: Any) -> None:
    """Print the locations, and suggestions for the UI."""
    lines = ["", f"Input folder: {definitions.INPUT}", f"Tables: {definitions.LAKE}"]
    due = ", ".join(plan_maintenance(definitions.WEATHER.log()).operations)
    if due:
        lines.append(f"The table weather, of another program, is left in need of: {due}")
    lines += [
        "",
        "Next: make dev, and open",
        f"  {_UI}/assets/weather: its card, its versions, and the check of its health",
        f"  {_UI}/locations/delta_ops/jobs/delta_maintenance: Launchpad, Launch Run do it",
        f"  {_UI}/automation: turn on arrivals and late_records, then "
        + ("run make demo-file" if definitions.GENERATED else "put a file of flights"),
        "  to add a day of flights" if definitions.GENERATED else "  into the input folder",
    ]
    for line in lines:
        console.print(line, highlight=False)


def log_of(definitions: Any, name: str) -> Any:
    """The log of one of the tables."""
    return next(table for table in definitions.TABLES if table.name == name).log()


def input_of(definitions: Any) -> Any:
    """The input files."""
    from examples.flights.settings import FlightsInput

    return FlightsInput(path=str(definitions.INPUT), generated=definitions.GENERATED)


if __name__ == "__main__":
    sys.exit(main())
