"""Commits that a log reads in groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.protocol.file_names import CommitName, commit_name, commit_version, log_file_name
from tests.support.tables import add, write_log

NUM_VERSIONS = 12
DAMAGED = 9


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return write_log(tmp_path, [[add(str(version))] for version in range(NUM_VERSIONS)])


def file_of(log: DeltaLog, version: int) -> Path:
    return Path(log.uri) / log.log_directory / commit_name(version)


def test_all_commits_before_a_damaged_commit_are_read(log: DeltaLog) -> None:
    file_of(log, DAMAGED).write_text("{")
    commits = log.commits(1)
    assert [next(commits).version for _ in range(1, DAMAGED)] == list(range(1, DAMAGED))
    with pytest.raises(LogCorruptError, match=commit_name(DAMAGED)):
        next(commits)


def test_a_commit_that_is_deleted_while_others_are_read_is_left_out(log: DeltaLog) -> None:
    commits = log.commits(0)
    assert next(commits).version == 0
    file_of(log, DAMAGED).unlink()
    assert [each.version for each in commits] == [*range(1, DAMAGED), DAMAGED + 1, DAMAGED + 2]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(commit_name(7), id="a commit"),
        pytest.param(f"{2**63:020d}.json", id="a version beyond 63 bits"),
        pytest.param("7.json", id="too few digits"),
        pytest.param(f"{7:021d}.json", id="too many digits"),
        pytest.param("\u0667" * 20 + ".json", id="digits of another script"),
        pytest.param(f"-{7:019d}.json", id="a sign"),
        pytest.param(f"{7:020d}.crc", id="a checksum"),
        pytest.param(f"{7:020d}.json.tmp", id="another suffix"),
    ],
)
def test_the_quick_parser_of_commit_names_agrees_with_the_parser_of_all_names(name: str) -> None:
    found = log_file_name(name)
    assert commit_version(name) == (found.version if isinstance(found, CommitName) else None)
