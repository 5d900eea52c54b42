"""The place of rows on a curve."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.arrow.rewrite.curve import axis_bits, places


@pytest.mark.parametrize("num_axes", [2, 3, 4])
def test_neighbours_on_hilberts_curve_differ_by_one_on_one_axis(num_axes: int) -> None:
    corner = list(product(range(8 if num_axes < 4 else 4), repeat=num_axes))
    axes = np.array(corner, np.uint32).T
    order = np.argsort(places(list(axes), "hilbert"))
    for before, after in pairwise(axes.T[order].astype(int)):
        assert abs(after - before).sum() == 1


@given(st.integers(2, 8), st.data())
def test_z_order_takes_the_bits_of_the_ranks_in_turn(num_axes: int, data: st.DataObject) -> None:
    bits = axis_bits(num_axes)
    row = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=num_axes, max_size=num_axes))
    texts = [f"{rank:0{bits}b}" for rank in row]
    expected = int("".join("".join(of_bit) for of_bit in zip(*texts, strict=True)), 2)
    assert places([np.array([rank], np.uint32) for rank in row], "zorder").tolist() == [expected]


@pytest.mark.full
@given(st.integers(2, 8), st.data())
def test_different_ranks_have_different_places(num_axes: int, data: st.DataObject) -> None:
    rank = st.integers(0, 2 ** axis_bits(num_axes) - 1)
    row = st.tuples(*[rank] * num_axes)
    rows = data.draw(st.lists(row, min_size=1, max_size=20, unique=True))
    found = places(list(np.array(rows, np.uint32).T), "hilbert")
    assert len(set(found.tolist())) == len(rows)
