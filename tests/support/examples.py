"""Random examples: few for `make test`, and many for `make test-all`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def few_or_many(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrize a test by `num_examples`."""
    return pytest.mark.parametrize(
        "num_examples",
        [
            pytest.param(few, id="few examples"),
            pytest.param(many, id="many examples", marks=pytest.mark.full),
        ],
    )


def check_examples(
    num_examples: int, check: Callable[..., None], *strategies: SearchStrategy[Any]
) -> None:
    """Call `check` with values of the strategies, in the order of the strategies."""
    settings(max_examples=num_examples, deadline=None)(given(*strategies)(check))()
