"""Many triples of transactions that begin together, against the model of their rows."""

from __future__ import annotations

import pytest

from delta_ops import DeltaLog
from tests.transaction.test_serializability import check_triples, template

pytestmark = pytest.mark.long

__all__ = ["template"]


def test_many_triples_come_to_what_a_serial_order_gives(template: DeltaLog) -> None:
    check_triples(template, 250, seed=6)
