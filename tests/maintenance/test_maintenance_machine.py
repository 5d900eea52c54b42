"""The state machine of maintenance, ours and deltalake's, for some steps and for many."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.maintenance.machine_with_deltalake import MachineWithDeltalake
from tests.maintenance.maintenance_machine import many_histories

EXAMPLES, STEPS = 25, 40

TestMaintenanceMachine = MachineWithDeltalake.TestCase
TestMaintenanceMachine.settings = settings(
    max_examples=3, stateful_step_count=12, deadline=None, derandomize=True
)


@pytest.mark.long
def test_thousands_of_steps_leave_every_promised_version_as_it_was() -> None:
    run_state_machine_as_test(
        MachineWithDeltalake,
        settings=many_histories(EXAMPLES, STEPS),
    )
