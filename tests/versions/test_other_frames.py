"""Frames of pandas 3 and polars 1; all other tests run on pandas 2 and polars 2."""

from __future__ import annotations

import pytest

from tests.versions.environments import frames_python, run_tests

FILES = (
    "arrow/test_casting",
    "orchestration/test_every_value_of_outputs",
    "orchestration/test_input_reader",
    "orchestration/test_pandas_index",
    "orchestration/test_swap_in",
    "orchestration/test_swap_in_polars",
    "orchestration/test_type_handlers",
    "orchestration/test_values_of_any_frame",
    "protocol/test_arrow_values",
)


@pytest.mark.full
def test_the_tests_of_frames_pass_on_other_versions() -> None:
    run_tests(frames_python(), *(f"tests/{name}.py" for name in FILES))
