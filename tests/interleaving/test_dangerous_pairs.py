"""All orders with up to two changes of turn for the riskiest pairs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleaving.search import Meeting, pair, searching

DANGEROUS = [
    pair("append", "append"),
    pair("append", "vacuum"),
    pair("optimize", "overwrite"),
    pair("restore", "vacuum"),
    pair("restore", "vacuum-retaining"),
    pair("restore-other", "vacuum-lite"),
    pair("revert", "vacuum"),
    pair("append", "drop-create"),
    pair("overwrite", "drop-create-shorter"),
    pair("restore", "drop-create"),
    pair("checkpoint", "drop-create"),
]

# A tag of an old version: its files are kept, or it is refused.
TAGGED = [pair("tag", other) for other in ("vacuum", "vacuum-retaining", "clean-up", "tag")]
# A branch of an old version, and a publication beside what may delete or move its files.
BRANCHED = [
    *(pair("branch", other) for other in ("vacuum", "vacuum-retaining", "clean-up", "branch")),
    *(pair("publish", other) for other in ("append", "optimize", "restore", "vacuum", "publish")),
    *(pair("rebase", other) for other in ("append", "overwrite", "vacuum", "clean-up", "rebase")),
    *(pair("delete-refs", other) for other in ("vacuum", "clean-up", "delete-refs")),
]
# A session beside what ends it or moves its table; a release and an anchor of an old version.
SESSIONS = [
    *(
        pair("session", other)
        for other in ("append", "optimize", "restore", "vacuum", "vacuum-retaining", "clean-up")
    ),
    *(pair("session", other) for other in ("session", "publish", "drop-create")),
    *(pair("session-brief", other) for other in ("vacuum", "vacuum-retaining", "vacuum-lite")),
]
KEPT = [
    pair(kept, other)
    for kept in ("release", "anchor")
    for other in ("vacuum", "vacuum-retaining", "clean-up", kept)
]
# One vacuum's END does not end another vacuum.
VACUUMS = Meeting(("vacuum-retaining", "vacuum", "restore-other"))
# A rewrite that loses one group to another writer commits the groups without a conflict.
LOST_GROUP = Meeting(("delete-row", "optimize", "delete-partition"))

# A scan cache and an index beside writers, and beside operations that delete what they read.
ACCELERATED = [
    *(
        pair("cache", other)
        for other in ("append", "optimize", "restore", "checkpoint", "vacuum", "clean-up")
    ),
    *(
        pair("refresh-index", other)
        for other in ("append", "optimize", "restore", "vacuum", "clean-up", "refresh-index")
    ),
    *(pair(other, "drop-index") for other in ("append", "cache", "refresh-index")),
    *(pair(other, "drop-create") for other in ("cache", "refresh-index")),
    pair("cache", "cache"),
    pair("cache", "refresh-index"),
]

# A merge of sorted files beside writers, another merge, and deletions of files.
MERGED = [
    pair("merge-runs", other)
    for other in ("append", "overwrite", "delete-partition", "restore", "vacuum", "merge-runs")
]

# The writer has values of the old type.
WIDENED = [pair(other, "widen") for other in ("append", "update-row", "merge-rows", "restore")]


SHORTER = [*MERGED, *WIDENED]
LONGER = [*DANGEROUS, *TAGGED, *BRANCHED, *SESSIONS, *KEPT, *ACCELERATED]


@pytest.mark.parametrize(
    "meeting",
    [
        *(pytest.param(each, marks=pytest.mark.full, id=str(each)) for each in SHORTER),
        *(pytest.param(each, marks=pytest.mark.long, id=str(each)) for each in LONGER),
    ],
)
def test_every_order_of_a_dangerous_pair_keeps_every_promise(
    meeting: Meeting, report: Callable[[str], None]
) -> None:
    with searching() as search:
        counts = search.explore(meeting, "two changes of turn")
        report(search.report(f"{meeting}, with two changes of turn", counts))
        assert not search.failures, search.verdict()


@pytest.mark.parametrize(
    "trio", [pytest.param(VACUUMS, marks=pytest.mark.long), LOST_GROUP], ids=str
)
def test_every_order_of_a_dangerous_trio_keeps_every_promise(
    trio: Meeting, report: Callable[[str], None]
) -> None:
    with searching() as search:
        counts = search.explore(trio, "a third in between")
        report(search.report(f"{trio}, the third in between", counts))
        assert not search.failures, search.verdict()
