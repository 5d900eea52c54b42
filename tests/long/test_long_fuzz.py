"""The fuzz tests of `tests/protocol` and `tests/log`, on many more inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log import test_log_fuzz as log_fuzz
from tests.protocol.test_codec_fuzz import check_codec
from tests.support.mutations import mutate

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_every_line_says_the_same_among_others(seed: int) -> None:
    check_codec(seed, 1_000)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param("_last_checkpoint", mutate, id="hint"),
        pytest.param(f"{1:020d}.crc", mutate, id="checksum"),
        pytest.param(f"{1:020d}.checkpoint.parquet", log_fuzz.damaged_parquet, id="checkpoint"),
    ],
)
def test_a_damaged_log_is_read_correctly_or_refused(
    tmp_path: Path, name: str, damage: log_fuzz.Damage
) -> None:
    root = log_fuzz.table(tmp_path)
    log_fuzz.check_reads_right_or_refuses(root, name, damage, 1000, 1_000)


def test_a_damaged_commit_is_refused_in_our_own_words(tmp_path: Path) -> None:
    log_fuzz.check_commit(log_fuzz.table(tmp_path), 1000, 2_000)
