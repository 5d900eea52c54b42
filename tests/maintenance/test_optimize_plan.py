"""Which files are combined: the plan, without a table."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import plan_optimize
from delta_ops.protocol.actions import AddFile
from tests.support.tables import add


def file(path: str, size: int, partition: str | None = "a", time: int = 0) -> AddFile:
    return add(path, size=size, partition_values={"p": partition}, modification_time=time)


def groups(files: Iterable[AddFile], target: int = 100, min_files: int = 2) -> list[str]:
    plan = plan_optimize(files, target_size_bytes=target, min_files=min_files)
    return ["".join(add.path for add in group.files) for group in plan.groups]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([], [], id="no files"),
        pytest.param([file("a", 10)], [], id="one small file"),
        pytest.param([file("a", 10), file("b", 10)], ["ab"], id="two small files"),
        pytest.param([file("a", 74), file("b", 10)], ["ab"], id="just under three quarters"),
        pytest.param([file("a", 75), file("b", 10)], [], id="three quarters are large enough"),
        pytest.param([file("a", 60), file("b", 60)], [], id="two that do not fit together"),
        pytest.param([file("a", 50), file("b", 50)], ["ab"], id="two that just fit"),
        pytest.param([file("a", 60), file("b", 30), file("c", 50)], ["ab"], id="one remains alone"),
        pytest.param(
            [file("a", 40), file("b", 40), file("c", 40), file("d", 40)],
            ["ab", "cd"],
            id="as many groups as are needed",
        ),
        pytest.param(
            [file("b", 40, time=2), file("a", 40, time=3), file("c", 40, time=1)],
            ["cb"],
            id="in the order of their age",
        ),
        pytest.param(
            [file("a", 1, "x"), file("b", 1, "y"), file("c", 1, "x"), file("d", 1, None)],
            ["ac"],
            id="partitions do not mix",
        ),
        pytest.param([file("a", 0), file("b", 0)], ["ab"], id="empty files"),
    ],
)
def test_groups(files: list[AddFile], expected: list[str]) -> None:
    assert groups(files) == expected


def test_groups_of_fewer_files_than_wanted_are_left() -> None:
    files = [file(name, 10) for name in "abc"]
    assert groups(files, min_files=3) == ["abc"]
    assert groups(files, min_files=4) == []


@pytest.mark.parametrize(
    ("target", "min_files"),
    [
        pytest.param(0, 2, id="a target of nothing"),
        pytest.param(1, 1, id="groups of one file"),
    ],
)
def test_refused(target: int, min_files: int) -> None:
    with pytest.raises(InvalidRequestError):
        plan_optimize([], target_size_bytes=target, min_files=min_files)


files_of_tables = st.lists(
    st.tuples(st.integers(0, 120), st.sampled_from(["x", "y", None]), st.integers(0, 3))
).map(lambda rows: [file(f"{n}", *row) for n, row in enumerate(rows)])


@given(files_of_tables)
def test_every_group_is_of_one_partition_fits_the_target_and_shares_no_file(
    files: list[AddFile],
) -> None:
    plan = plan_optimize(files, target_size_bytes=100)
    for group in plan.groups:
        assert len(group.files) >= 2
        assert len({add.partition_values["p"] for add in group.files}) == 1
        assert sum(add.size for add in group.files) <= 100
    chosen = [add.path for group in plan.groups for add in group.files]
    assert len(chosen) == len(set(chosen)) == plan.num_files


@given(files_of_tables, st.floats(0.1, 1))
def test_planning_over_the_results_comes_to_an_end(files: list[AddFile], shrink: float) -> None:
    for _ in range(len(files) + 1):
        plan = plan_optimize(files, target_size_bytes=100)
        if not plan.has_work:
            return
        gone = {add.path for group in plan.groups for add in group.files}
        merged = [
            file(
                f"m{group.files[0].path}",
                int(sum(add.size for add in group.files) * shrink),
                group.files[0].partition_values["p"],
                time=9,
            )
            for group in plan.groups
        ]
        files = [add for add in files if add.path not in gone] + merged
    pytest.fail("it goes on for ever")
