"""Facts of a vacuum: how each fact affects which files stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from delta_ops.maintenance.vacuum.facts import TableListing, VacuumFacts, facts_since, vacuum_facts
from delta_ops.maintenance.vacuum.hidden_names import hidden_names_except
from delta_ops.maintenance.vacuum.plan import plan_by_facts
from delta_ops.storage import FileInfo
from delta_ops.storage.packed_files import pack_files

Links = Mapping[str, str | None]


def listing_of(*paths: str, links: Links | None = None, disk: bool = True) -> TableListing:
    files = pack_files(FileInfo(path, 1, 0) for path in paths)
    return TableListing(files=files, links=links or {}, may_confuse_letters=disk)


def facts_of(
    listing: TableListing, needed: Collection[str] = (), keep: Collection[str] = ()
) -> VacuumFacts:
    names = hidden_names_except(())
    return vacuum_facts(listing, names, frozenset(needed), now_ms=10, retention_ms=1, keep=keep)


def going(listing: TableListing, facts: VacuumFacts) -> list[str]:
    return [info.path for info in plan_by_facts(listing, facts).files]


@pytest.mark.parametrize(
    ("links", "needed", "path"),
    [
        pytest.param({}, "x", "x", id="its own name"),
        pytest.param({"l": "d"}, "l/x", "d/x", id="a link"),
        pytest.param({"l": ""}, "l/x", "x", id="a link to the table itself"),
        pytest.param({}, "D/x", "d/x", id="other letters"),
        pytest.param({"l": "d"}, "L/X", "d/x", id="a link and other letters"),
        pytest.param({"L": "D"}, "l/x", "d/x", id="a link whose target has other letters"),
    ],
)
def test_a_needed_file_stays_by_each_of_its_names(links: Links, needed: str, path: str) -> None:
    listing = listing_of(path, "orphan", links=links)
    assert going(listing, facts_of(listing, [needed])) == ["orphan"]
    assert going(listing, facts_of(listing, keep=[needed])) == ["orphan"]
    before = facts_of(listing)
    assert going(listing, before) == sorted(["orphan", path])
    assert going(listing, facts_since(before, listing, needed={needed}, keep=())) == ["orphan"]
    assert going(listing, facts_since(before, listing, needed=set(), keep=[needed])) == ["orphan"]


def test_letters_count_only_where_a_store_may_confuse_them() -> None:
    listing = listing_of("d/x", disk=False)
    assert going(listing, facts_of(listing, ["D/x"])) == ["d/x"]


def test_one_name_with_other_letters_is_found_among_many() -> None:
    orphans = [f"orphan-{number:04d}" for number in range(2_500)]
    listing = listing_of(*orphans, "D/x")
    assert going(listing, facts_of(listing, ["d/x"])) == orphans


def test_files_that_became_needed_stay_needed() -> None:
    listing = listing_of("A", "b", "c")
    first = facts_of(listing)
    second = facts_since(first, listing, needed={"a"}, keep=())
    third = facts_since(second, listing, needed={"b"}, keep=())
    assert going(listing, facts_since(third, listing, needed=set(), keep=())) == ["c"]
    assert going(listing, first) == ["A", "b", "c"]


@pytest.mark.parametrize(
    ("links", "path", "stays"),
    [
        pytest.param({"_l": "d"}, "d/x", True, id="in what a hidden link leads to"),
        pytest.param({"_l": "x"}, "x", True, id="what a hidden link leads to"),
        pytest.param({"_l": "d"}, "dd/x", False, id="beside what a hidden link leads to"),
        pytest.param({"l": "d"}, "d/x", False, id="what a link that is not hidden leads to"),
        pytest.param({"d/_delta_log": None}, "d/x", True, id="a table whose log is a link"),
        pytest.param({"d/_delta_log/l": None}, "d/x", True, id="a table in whose log is a link"),
        pytest.param({"_delta_log": None}, "d/x", False, id="beside a log that is a link"),
    ],
)
def test_links_hide_their_targets_and_reveal_tables(links: Links, path: str, stays: bool) -> None:
    listing = listing_of(path, links=links)
    assert (going(listing, facts_of(listing)) == []) is stays
