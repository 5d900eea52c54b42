"""An operation of maintenance, as one entry for whoever plans, runs, offers or shows operations.

Each entry stands beside its operation's code; `operations` collects them in their order. An entry
says nothing twice: what is due, which features it needs, which settings jobs offer, and how a
result looks in figures and JSON is asked of it, wherever it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, Operation
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEntry(Generic[Result]):
    """What there is to know of an operation, but for its own words in the terminal."""

    name: Operation
    needs: Needed
    """What it does, in the words of `features`."""
    act: Callable[..., Result]
    """Runs it: takes the log, `dry_run`, what `arguments` says, and settings of its own."""
    arguments: Callable[[Request], dict[str, Any]]
    """What of a request it takes, by the name of its argument."""
    planned: Callable[[Result], dict[str, int]]
    """What was found to do, as counts and bytes by name; in a dry run too."""
    figures: Callable[[Result], dict[str, int]]
    """What was done, as counts and bytes by name; names that end in `_failures` are of files that
    could not be deleted or read."""
    json: Callable[[Result], dict[str, Any]]
    """The result as the terminal shows it with `--json`; table and dry run are put before it."""
    findings: Callable[[Facts, HealthThresholds], Sequence[Finding]] = _nothing
    """The measures that it cures. Pure."""
    opens_data_files: bool = False
    """Whether it reads or writes data files, so that it takes as long as those are large; if not,
    it works on the log, and on names of files."""
    options: tuple[Option, ...] = ()
    refusal: Callable[[Snapshot], tuple[str, ...]] = _nothing
    """What forbids it beside the table's features."""
    left: Callable[[Result], Sequence[str]] = _nothing
    """What was found and is not safe to do unasked: a sentence each."""
