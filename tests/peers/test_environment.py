"""Missing tools: tests with delta-spark skip or fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.environment import MavenMissingError, ensure_delta_spark


def maven_that_prints(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "mvn"
    program.write_text(f"#!/bin/sh\necho '{text}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_a_machine_without_maven_has_no_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MavenMissingError, match="no mvn on the path"):
        ensure_delta_spark(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        "Could not transfer artifact a:b:jar:1 from/to central: Connect timed out",
        "Cannot access central in offline mode and the artifact a:b:jar:1 has not been downloaded",
    ],
)
def test_nor_has_one_that_reaches_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    maven_that_prints(message, tmp_path, monkeypatch)
    with pytest.raises(MavenMissingError, match="reaches no repository"):
        ensure_delta_spark(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        "Could not find artifact a:b:jar:1 in central",
        "Could not transfer artifact a:b:jar:1: Checksum validation failed",
        "Non-parseable POM",
    ],
)
def test_any_other_failure_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    maven_that_prints(message, tmp_path, monkeypatch)
    with pytest.raises(RuntimeError, match=r"mvn.* failed"):
        ensure_delta_spark(tmp_path)
