"""OperationEntry: describes one operation to plans, jobs, the terminal and pages.

Each operation defines its entry beside its code; `registry` lists the entries in their order. The
entry alone says when the operation is due, which features it needs, which options jobs offer, and
how a result becomes figures and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds
from delta_ops.protocol.features import Operation as Needed
from delta_ops.transaction.engine import Engine, RewriteFiles


class OperationResult(Protocol):
    """The attributes that all results have."""

    @property
    def dry_run(self) -> bool:
        """Whether the operation only planned."""


Result = TypeVar("Result", bound=OperationResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Arguments for all operations; each operation takes the arguments that it uses."""

    clock: Clock = system_clock
    engine: Engine | RewriteFiles | None = None
    """Executes rewrites; the Arrow engine if None."""
    keep_versions: Collection[int] = ()
    """Versions that log clean-up keeps readable."""
    user_metadata: str | None = None
    """Any text, kept in commitInfo of each commit."""
    on_event: OnEvent = ignore

    @property
    def own_clock(self) -> Clock | None:
        """The caller's clock. None: the store's clock, if the operation compares ages of files."""
        return None if self.clock is system_clock else self.clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An argument of an operation that jobs offer."""

    name: str
    kind: Any
    """Its type; `str` if there are `choices`."""
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    at_least: int | None = None


def _nothing(*_: object) -> tuple[Any, ...]:
    return ()


def _no_savings(_: object) -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEntry(Generic[Result]):
    """The description of an operation."""

    name: str
    needs: Needed
    """The kind of access that the operation needs, as `protocol.features` names it."""
    act: Callable[..., Result]
    """Runs the operation: takes the log, `dry_run`, the result of `arguments`, and its own options.

    The first line of its docstring describes the operation to users.
    """
    arguments: Callable[[Request], dict[str, Any]]
    """Returns the arguments of `act` that come from a request."""
    planned: Callable[[Result], dict[str, int]]
    """Returns the planned work as counts and bytes by name; in a dry run too."""
    figures: Callable[[Result], dict[str, int]]
    """Returns the finished work as counts and bytes by name.

    A name that ends in `_failures` counts files that could not be deleted or read.
    """
    json: Callable[[Result], dict[str, Any]]
    """The result as `--json` prints it, without the table and `dry_run`."""
    findings: Callable[[Facts, HealthThresholds], Sequence[Finding]] = _nothing
    """Returns the measures that the operation cures. Pure."""
    opens_data_files: bool = False
    """Whether the operation reads or writes data files, so that its time depends on their size.

    Other operations work on the log and on names of files.
    """
    options: tuple[Option, ...] = ()
    refusal: Callable[[Snapshot], tuple[str, ...]] = _nothing
    """Returns reasons other than table features that forbid the operation."""
    left: Callable[[Result], Sequence[str]] = _nothing
    """Returns findings that need a person's decision, one sentence each."""
    saved: Callable[[Result], Mapping[str, int]] = _no_savings
    """Returns by how much "bytes" and "live_files" of the table decreased."""
    own_command: str | None = None
    """The terminal command that runs the operation, if it has another name."""

    @property
    def command(self) -> str:
        """The terminal command; built from `options` unless `cli` defines it."""
        return self.own_command or self.name.replace("_", "-")

    def run(
        self, log: DeltaLog, request: Request, options: Mapping[str, Any], *, dry_run: bool
    ) -> Result:
        """Run the operation."""
        return self.act(log, dry_run=dry_run, **self.arguments(request), **options)
