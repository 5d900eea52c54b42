"""A listing's pre-filter never changes the plan, for any files in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from delta_ops.clock import DAY_MS
from delta_ops.maintenance import VacuumPlan
from delta_ops.maintenance.vacuum.facts import (
    NOTHING_LISTED,
    TableListing,
    VacuumFacts,
    facts_since,
    vacuum_facts,
)
from delta_ops.maintenance.vacuum.hidden_names import hidden_names_except
from delta_ops.maintenance.vacuum.plan import plan_by_facts
from delta_ops.maintenance.vacuum.pre_filter import PreFilter
from delta_ops.storage import FileInfo
from delta_ops.storage.packed_files import pack_files

NOW = 20_000 * DAY_MS
WEEK = 7 * DAY_MS
STAGED = ".staged-" + "0" * 32

DIRECTORIES = st.lists(
    st.sampled_from(["d", "D", "_p=1", "_x", "metadata", "_delta_log", "_change_data", "l"]),
    max_size=3,
)
FILES = st.sampled_from(["a", "A", "b", "_b", ".b", STAGED])
PATHS = st.builds(lambda above, name: "/".join([*above, name]), DIRECTORIES, FILES)
PLACES = st.one_of(PATHS, DIRECTORIES.filter(bool).map("/".join))
EMPTY = DIRECTORIES.filter(bool).map(lambda parts: "/".join(parts) + "/")
LISTED = st.lists(
    st.builds(
        lambda path, days: FileInfo(path, 1, NOW - days * DAY_MS),
        st.one_of(PATHS, PATHS, EMPTY),
        st.sampled_from([0, 2, 30]),
    ),
    unique_by=lambda info: info.path,
    max_size=12,
)
LINKS = st.dictionaries(
    st.sampled_from(["l", "d/l", "L", "_x", "_delta_log", "d/_delta_log"]),
    st.one_of(st.none(), st.just(""), PLACES),
    max_size=3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts besides the listing."""

    links: Mapping[str, str | None]
    needed: Set[str]
    needed_since: Set[str]
    keep: Set[str]
    may_confuse_letters: bool


KNOWN = st.builds(
    Known,
    links=LINKS,
    needed=st.frozensets(PATHS, max_size=6),
    needed_since=st.frozensets(PATHS, max_size=2),
    keep=st.frozensets(PLACES, max_size=2),
    may_confuse_letters=st.booleans(),
)


def facts_of(listing: TableListing, known: Known) -> VacuumFacts:
    return vacuum_facts(
        listing,
        hidden_names_except(["_p"], frozenset({"metadata"})),
        known.needed,
        now_ms=NOW,
        retention_ms=WEEK,
        keep=known.keep,
    )


def plan_of(listing: TableListing, known: Known) -> VacuumPlan:
    facts = facts_of(listing, known)
    later = facts_since(facts, listing, needed=known.needed_since, keep=known.keep)
    return plan_by_facts(listing, later)


def all_listed(listed: Sequence[FileInfo], known: Known) -> TableListing:
    return TableListing(
        files=pack_files(listed), links=known.links, may_confuse_letters=known.may_confuse_letters
    )


def listed_with_a_pre_filter(listed: Sequence[FileInfo], known: Known) -> TableListing:
    """List as `list_tree` does: the files of a directory together, empty directories alone."""
    pre_filter = PreFilter(facts_of(NOTHING_LISTED, known))
    wanted: set[str] = set()
    for key, some in groupby(listed, key=lambda info: info.path.rpartition("/")[0]):
        del key
        wanted.update(pre_filter.select_paths([info.path for info in some]))
    return TableListing(
        files=pack_files(info for info in listed if info.path in wanted),
        links=known.links,
        may_confuse_letters=known.may_confuse_letters,
        tables=frozenset(pre_filter.tables),
        left_out=dict(pre_filter.left_out),
    )


@given(LISTED, KNOWN, st.randoms(use_true_random=False))
def test_the_plan_is_the_same_with_a_pre_filter_and_in_any_order(
    listed: list[FileInfo], known: Known, random: object
) -> None:
    mixed = list(listed)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    expected = plan_of(all_listed(listed, known), known)
    filtered = listed_with_a_pre_filter(mixed, known)
    event(f"left out: {bool(filtered.left_out)}, goes: {expected.has_work}")
    assert plan_of(all_listed(mixed, known), known) == expected
    assert plan_of(filtered, known) == expected


@given(LISTED, KNOWN)
def test_needed_or_kept_files_are_never_deleted_and_every_file_is_counted(
    listed: list[FileInfo], known: Known
) -> None:
    plan = plan_of(all_listed(listed, known), known)
    going = {info.path for info in (*plan.files, *plan.leftovers)}
    assert not going & (known.needed | known.needed_since | known.keep)
    assert all(info.modified_ms < NOW - WEEK for info in plan.files)
    num_files = sum(info.path[-1] != "/" for info in listed)
    assert num_files == len(going) + sum(plan.kept.values())


def test_nothing_that_certainly_stays_is_handed_on() -> None:
    known = Known(
        links={},
        needed=frozenset({"d/a"}),
        needed_since=frozenset(),
        keep=frozenset({"D"}),
        may_confuse_letters=True,
    )
    listed = [FileInfo(path, 1, 0) for path in ("d/a", "d/_b", "d/b", "D/b", "_x/b")]
    filtered = listed_with_a_pre_filter(listed, known)
    assert [info.path for info in filtered.files] == ["d/b"]
    assert filtered.left_out == {"reachable": 1, "hidden": 2, "on request": 1}


@pytest.mark.parametrize("path", ["_delta_log/x", "_delta_log/", "_delta_log/d/x"])
def test_a_pre_filter_reports_the_tables_whose_logs_it_leaves_out(path: str) -> None:
    pre_filter = PreFilter(vacuum_facts_of_nothing())
    assert not pre_filter.may_go(f"inner/{path}")
    assert pre_filter.tables == {"inner"}


def vacuum_facts_of_nothing() -> VacuumFacts:
    names = hidden_names_except(())
    return vacuum_facts(NOTHING_LISTED, names, frozenset(), now_ms=NOW, retention_ms=WEEK)
