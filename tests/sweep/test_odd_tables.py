"""Each feature on tables of odd shapes: rows equal to a model, or an error of delta_ops."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sweep.features import FEATURES
from tests.sweep.odd_tables import SHAPES, copy_of
from tests.sweep.row_model import OddTable

NAMES = list(SHAPES)
EVERY = 12
"""`make test-all` crosses a shape with one in this many features."""


def cross(name: str, feature: str, root: Path) -> None:
    """Use a feature on a table of a shape."""
    shape = SHAPES[name]
    shape.build(root / "built" / "t")
    table = copy_of(root / "built" / "t", root / "used")
    FEATURES[feature](OddTable(root=table, rows=shape.rows))
    shutil.rmtree(root)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_some_features_on_an_odd_table(tmp_path: Path, name: str) -> None:
    for feature in list(FEATURES)[NAMES.index(name) % EVERY :: EVERY]:
        cross(name, feature, tmp_path / feature)


@pytest.mark.long
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_on_all_odd_tables(tmp_path: Path, feature: str) -> None:
    found = {}
    for number, name in enumerate(NAMES):
        try:
            cross(name, feature, tmp_path / str(number))
        except Exception as error:
            found[name] = repr(error)[:500]
    assert found == {}
