"""A forked child process, killed if it does not end by itself."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import IO, TypeVar

import pytest

T = TypeVar("T")

PATIENCE_S = 300
"""Seconds; far more than a child needs, so a longer run hangs."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def call_in_child(call: Callable[[], T]) -> T:
    """The result of the call in a forked child; fails if the call raises or hangs."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stacks, open(reading, "rb") as pipe:
        faulthandler.cancel_dump_traceback_later()  # a child of a child lacks its thread
        child = _fork()
        if not child:
            _answer(call, writing, stacks)
        os.close(writing)
        is_answered = bool(select.select([pipe], [], [], PATIENCE_S)[0])
        if not is_answered:
            os.kill(child, signal.SIGKILL)
        answer = pipe.read() if is_answered else b""
        os.waitpid(child, 0)
        stacks.seek(0)
        shown = stacks.read().decode()
    if not is_answered:
        pytest.fail(f"the child hangs:\n{shown}")
    if not answer:
        pytest.fail(f"the child died:\n{shown}")
    result, failure = pickle.loads(answer)
    if failure:
        pytest.fail(f"the child failed:\n{failure}")
    return result  # type: ignore[no-any-return]


def _fork() -> int:
    with warnings.catch_warnings():
        # Since Python 3.12. The tests' parent process has threads, as a user's process may.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        return os.fork()


def _answer(call: Callable[[], object], writing: int, stacks: IO[bytes]) -> None:
    try:
        faulthandler.dump_traceback_later(PATIENCE_S * 0.9, file=stacks)
        try:
            answer = pickle.dumps((call(), None))
        except BaseException:
            answer = pickle.dumps((None, traceback.format_exc()))
        with open(writing, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)
