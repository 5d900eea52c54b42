"""Thousands of steps of the state machine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.maintenance.test_table_machine import TableMachine

pytestmark = pytest.mark.long

EXAMPLES, STEPS = 40, 30


def test_thousands_of_steps_keep_every_version_as_the_model_has_it() -> None:
    run_state_machine_as_test(
        TableMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
