"""Run by the crash-point test: one write whose process dies at a storage call, or that counts them.

python crash_script.py TABLE MODE CALL MOMENT     (CALL 0: print the number of calls)
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Literal

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.protocol.predicate import col
from delta_ops.storage import open_storage
from tests.counting_storage import CountingStorage

ROWS = pa.table({"id": [10, 11, 12], "p": ["a", "b", "b"]})


def main(table: str, mode: str, call: int, moment: str) -> None:
    calls = 0

    def on_call(number: int, name: str, path: str, when: Literal["before", "after"]) -> None:
        nonlocal calls
        calls = number
        if number == call and when == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    log = DeltaLog("", storage=CountingStorage(open_storage(table), on_call))
    if mode == "append":
        da.write(log, ROWS, txn=("crash", 1), partition_by=["p"])
    else:
        da.write(log, ROWS.slice(1), "overwrite", replace_where=col("p") == "b", txn=("crash", 1))
    print(calls)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
