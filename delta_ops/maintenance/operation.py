"""OperationEntry: what plans, jobs, the terminal and pages need to know of one operation.

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
from delta_ops.transaction.rewrite_group import Rewriter


class OperationResult(Protocol):
    """What all results have."""

    @property
    def dry_run(self) -> bool:
        """Whether nothing was to be done."""


Result = TypeVar("Result", bound=OperationResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What all operations are run with; each takes from it what concerns it."""

    clock: Clock = system_clock
    engine: Rewriter | None = None
    """Executes rewrites; `delta_ops.arrow.rewrite` if None."""
    keep_versions: Collection[int] = ()
    """Versions that log clean-up keeps readable."""
    user_metadata: str | None = None
    """Any text, kept in commitInfo of what they commit."""
    on_event: OnEvent = ignore

    @property
    def own_clock(self) -> Clock | None:
        """The clock that was asked for; None: the store's, for what goes by the age of files."""
        return None if self.clock is system_clock else self.clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An argument of an operation that jobs offer."""

    name: str
    kind: Any
    """Its type; a text of `choices` where there are any."""
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
    """What there is to know of an operation."""

    name: str
    needs: Needed
    """What it does, in the words of `protocol.features`."""
    act: Callable[..., Result]
    """Runs it: takes the log, `dry_run`, what `arguments` returns, and options of its own. The
    first line of its docstring describes the operation to users."""
    arguments: Callable[[Request], dict[str, Any]]
    """The arguments of `act` that a request decides."""
    planned: Callable[[Result], dict[str, int]]
    """What was found to do, as counts and bytes by name; in a dry run too."""
    figures: Callable[[Result], dict[str, int]]
    """What was done, as counts and bytes by name. A name that ends in `_failures` counts files that
    could not be deleted or read."""
    json: Callable[[Result], dict[str, Any]]
    """The result as `--json` prints it, without the table and `dry_run`."""
    findings: Callable[[Facts, HealthThresholds], Sequence[Finding]] = _nothing
    """The measures that it cures. Pure."""
    opens_data_files: bool = False
    """Whether it reads or writes data files, so that its time depends on their size; if not, it
    works on the log and on names of files."""
    options: tuple[Option, ...] = ()
    refusal: Callable[[Snapshot], tuple[str, ...]] = _nothing
    """What forbids it, besides features of the table."""
    left: Callable[[Result], Sequence[str]] = _nothing
    """What was found and needs a person's decision: a sentence each."""
    saved: Callable[[Result], Mapping[str, int]] = _no_savings
    """By how much "bytes" and "live_files" of the table decreased."""
    own_command: str | None = None
    """The terminal command that runs it, if that has another name than the operation."""

    @property
    def command(self) -> str:
        """The terminal command that runs it; built from `options` unless `cli` has one."""
        return self.own_command or self.name.replace("_", "-")

    def run(
        self, log: DeltaLog, request: Request, options: Mapping[str, Any], *, dry_run: bool
    ) -> Result:
        """Run the operation."""
        return self.act(log, dry_run=dry_run, **self.arguments(request), **options)
