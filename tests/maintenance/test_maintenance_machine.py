"""The state machine of maintenance, ours and deltalake's, for some steps and for many."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.maintenance.maintenance_machine import MaintenanceMachine

LONG = {"max_examples": 60, "stateful_step_count": 40}

TestMaintenanceMachine = MaintenanceMachine.TestCase
TestMaintenanceMachine.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, derandomize=True
)


@pytest.mark.long
def test_thousands_of_steps_leave_every_promised_version_as_it_was() -> None:
    run_state_machine_as_test(
        MaintenanceMachine,
        settings=settings(
            **LONG,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
