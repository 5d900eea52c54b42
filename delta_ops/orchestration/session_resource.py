"""Session resource: the ops of a graph or a job stage rows, and one op commits them.

1. The session has the run in its name, so each op of the run joins it, in any process. A
   re-execution of some steps joins the session of the failed run whose steps it completes. A
   re-execution of all steps begins a session of its own.
2. The name of a step of the session is the key of Dagster's step. A retried op begins a new attempt
   of its step, and the rows of earlier attempts do not count.
3. Each op reports its attempt as a value, which Dagster passes to the op that commits, also from an
   earlier run. Exactly these attempts are committed.
4. The commit has the same txn in each run that continues the run, see `output_txns`. So a run that
   was killed after its commit is not committed a second time.
5. A failed run commits nothing. Its session expires, or a re-execution completes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import dagster as dg
from pydantic import Field, PrivateAttr

from delta_ops.errors import InvalidRequestError, SessionConflictError, SessionEndedError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace
from delta_ops.log.session_place import fork_place_of
from delta_ops.option_words import Surface, spoken_on
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.output_txns import (
    step_output_of_op,
    user_metadata,
    write_txns,
)
from delta_ops.orchestration.io_manager.reruns import steps_origin_id
from delta_ops.orchestration.resources import DeltaLogResource, validate_fields
from delta_ops.transaction.idempotency import result_if_done
from delta_ops.units import count_text
from delta_ops.versioning import WriteSession, join_session
from delta_ops.versioning.session_state import names_of
from delta_ops.versioning.sessions import find_named_session

OpContext = dg.OpExecutionContext | dg.AssetExecutionContext


class StagedStep(NamedTuple):
    """The rows that an op has staged; the op returns it for the op that commits.

    Examples:
        >>> StagedStep(session="8f14e45f", step="load", attempt=0).step
        'load'
    """

    session: str
    """The id of the session."""
    step: str
    attempt: int


class _Fork(NamedTuple):
    """The handle of an op, and its attempt."""

    log: DeltaLog
    staged: StagedStep


class DeltaSessionResource(dg.ConfigurableResource[None]):
    """A write session for each run: its ops stage rows, and one op commits them to the table.

    Each op that stages returns `staged_step(context)`, and the op that commits gets these values.
    Until the commit, the table stays as it was. A retried op does not double its rows.

    Examples:
        >>> @dg.op(out=dg.DynamicOut(int))
        ... def split():
        ...     yield from (dg.DynamicOutput(number, f"part_{number}") for number in range(3))
        >>> @dg.op
        ... def load(context: dg.OpExecutionContext, number: int, session: DeltaSessionResource):
        ...     da.write(session.fork(context), pa.table({"id": [number], "price": [1.0]}))
        ...     return session.staged_step(context)
        >>> @dg.op
        ... def commit(context: dg.OpExecutionContext, parts: list, session: DeltaSessionResource):
        ...     session.commit(context, parts)
        >>> @dg.job
        ... def load_orders():
        ...     commit(split().map(load).collect())
        >>> session = DeltaSessionResource(lake=DeltaLogResource(root="lake"), table="orders")
        >>> load_orders.execute_in_process(resources={"session": session}).success
        True
        >>> da.count_rows("lake/orders"), session.lake.snapshot("orders").version
        (6, 1)
    """

    lake: DeltaLogResource = Field(description="The resource that has the table.")
    table: str = Field(description="Name of the table below the root of the lake.")
    name: str = Field(
        default="",
        max_length=100,
        description="Distinguishes several sessions of one run on the same table.",
    )
    expires_in_hours: float = Field(
        default=24.0,
        gt=0,
        description="When the session of a failed run expires, at most 168 hours. Until then, the "
        "run can be re-executed from its failure.",
    )
    enforce_retention: bool = Field(
        default=True,
        description="Reject a lifetime that ends less than a day before a vacuum of another engine "
        "may delete files of the session.",
    )

    _forks: dict[tuple[str, str, int], _Fork] = PrivateAttr(default_factory=dict)

    def __init__(self, **config: object) -> None:
        validate_fields(type(self), config)
        super().__init__(**config)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002
        """Forget the ops of earlier runs."""
        self._forks = {}

    def fork(self, context: OpContext) -> DeltaLog:
        """The handle for the rows of an op; each verb of both engines accepts it as the table.

        The handle sees the rows that other ops have staged until the first call, and its own rows.
        Each call in an op returns the same handle; a retry of the op gets another, and starts anew.

        Raises:
            InvalidRequestError: The run reproduces another run, or there is no run.
            TableNotFoundError: There is no table; create it with `delta_ops.ddl.create_table`.
            dagster.Failure: The session has ended.
        """
        step = _step_of(context)
        key = step.run_id, compat.step_key(step), step.retry_number
        if key not in self._forks:
            self._forks[key] = self._new_fork(step)
        return self._forks[key].log

    def _new_fork(self, context: dg.OpExecutionContext) -> _Fork:
        session, step = self.session(context), compat.step_key(context)
        try:
            log = session.fork(step)
        except SessionEndedError as error:
            raise _failure(f"{error} Or ") from error
        place = fork_place_of(log.log_directory)
        assert place is not None
        return _Fork(log, StagedStep(session.id, step, place.attempt))

    def staged_step(self, context: OpContext) -> StagedStep:
        """What the op has staged; return it from the op, for the op that commits.

        Raises:
            InvalidRequestError: The op has not called `fork`.
        """
        step = _step_of(context)
        fork = self._forks.get((step.run_id, compat.step_key(step), step.retry_number))
        if fork is None:
            raise InvalidRequestError(
                f"the op {compat.step_key(step)} has staged nothing; call fork(context) first, and "
                "write to the handle that it returns"
            )
        return fork.staged

    @spoken_on(Surface.RESOURCE)
    def session(self, context: OpContext) -> WriteSession:
        """The session of the run, for its token, its snapshot or its end.

        Raises:
            InvalidRequestError: The run reproduces another run, or there is no run.
            TableNotFoundError: There is no table.
        """
        return join_session(
            self.lake.log(self.table),
            self.session_name(_step_of(context)),
            expires_in=timedelta(hours=self.expires_in_hours),
            enforce_retention=self.enforce_retention,
        )

    def session_name(self, context: dg.OpExecutionContext) -> str:
        """The name of the session of the run."""
        name = f"dagster run {steps_origin_id(context.instance, context.run)}"
        return f"{name} {self.name}" if self.name else name

    def commit(
        self,
        context: OpContext,
        staged: Iterable[StagedStep | str],
        *,
        depends_on: Mapping[TableOrPlace, int] | None = None,
    ) -> Snapshot:
        """Commit the rows of all ops in one commit, or not at all.

        A retry of the op, or a re-execution of the run, commits nothing twice.

        Args:
            context: The context of the op.
            staged: What the ops have returned, see `staged_step`. Names of steps that other
                programs have written with the token of the session.
            depends_on: As for `WriteSession.commit`.

        Returns:
            The version that has the rows. An op of a graph asset returns it, and `DeltaIOManager`
            reports it as the asset's version.

        Raises:
            InvalidRequestError: The run reproduces another run, or there is no run.
            dagster.Failure: A commit to the table changed the same rows, or a step is missing.
                Nothing was committed.
        """
        return _Commit(self, _step_of(context), list(staged), depends_on).run()


class _Commit:
    """One call of `DeltaSessionResource.commit`, which documents the fields."""

    def __init__(
        self,
        resource: DeltaSessionResource,
        context: dg.OpExecutionContext,
        staged: Sequence[StagedStep | str],
        depends_on: Mapping[TableOrPlace, int] | None,
    ) -> None:
        self.context, self.staged, self.depends_on = context, staged, depends_on
        self.log = resource.lake.log(resource.table)
        self.session = find_named_session(self.log, resource.session_name(context))
        part = f"session of {compat.step_key(context)} {resource.name}".rstrip()
        self.output = step_output_of_op(context, part)

    def run(self) -> Snapshot:
        """Commit the session, unless a run that this run continues has committed it."""
        txns = write_txns(self.output, lambda: self.log, "run", is_repeatable=False)
        done = result_if_done(self.log, self.log.snapshot(), txns)
        if done is not None:
            self._end_session()
            return self._report(done.version, "this run or an earlier run had committed its rows")
        if self.session is None:
            if self.staged:
                raise _failure(f"{self.log.uri}: the session has expired or was abandoned; ")
            return self._report(None, "no op has staged rows")
        expected = self._expected_steps(self.session)
        try:
            result = self.session.commit(
                expected_steps=expected,
                depends_on=self.depends_on,
                txn=(txns[0].app_id, txns[0].version),
                user_metadata=user_metadata(self.output, None),
            )
        except (SessionConflictError, SessionEndedError) as error:
            raise _failure(f"{error} Or ") from error
        if result.version is None and not result.already_committed:
            return self._report(None, "no op has staged rows")
        return self._report(
            result.version,
            f"the rows of {count_text(len(expected), 'step')} were committed: "
            f"{count_text(result.added_files, 'file')} added, {result.removed_files:,} removed",
        )

    def _end_session(self) -> None:
        """End the session of a run whose rows were committed."""
        if self.session is None:
            return
        if self.session.status().state == "committing":
            self.session.commit()  # a killed call has left the session
        else:
            self.session.abandon()

    def _expected_steps(self, session: WriteSession) -> set[str]:
        """The steps whose rows to commit.

        Raises:
            dagster.Failure: An attempt that was staged does not count.
        """
        steps = {each.step: each for each in session.steps()}
        expected = {each for each in self.staged if isinstance(each, str)}
        gone = []
        for each in self.staged:
            if isinstance(each, str):
                continue
            found = steps.get(each.step)
            if found is None or (session.id, found.attempt) != (each.session, each.attempt):
                gone.append(each.step)
            elif found.operations:
                expected.add(each.step)
        if gone:
            raise _failure(
                f"{self.log.uri}: the rows of {names_of(gone)} are not in session {session.id}, "
                "because their session has ended or another attempt has begun; run these steps "
                "again, or "
            )
        return expected

    def _report(self, version: int | None, text: str) -> Snapshot:
        snapshot = self.log.snapshot(version)
        self.context.log.info(f"{self.log.uri}: version {snapshot.version}; {text}")
        return snapshot


def _step_of(context: OpContext) -> dg.OpExecutionContext:
    """The context of the op that runs.

    Raises:
        InvalidRequestError: The op was called without a run.
    """
    step = compat.running_op(context)
    if step is not None:
        return step
    raise InvalidRequestError(
        "the op was called without a run, which has no session; run it in a job, for example with "
        "execute_in_process"
    )


def _failure(text: str) -> dg.Failure:
    """A failure that a retry of the step does not cure."""
    return dg.Failure(
        f"{text}re-execute all steps of the run, which begins a session at the latest version. "
        "Nothing was committed",
        allow_retries=False,
    )
