"""A disk without directory descriptors lists and deletes in the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_ops.storage import open_storage
from delta_ops.storage.local import directories as local_directories


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def root(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(local_directories, "HAS_DESCRIPTORS", request.param)
    for path in ("a", "b", "d/e", "d/f/g", "d/.e.crc"):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "d")
    return tmp_path


def test_directories_are_listed(root: Path) -> None:
    storage = open_storage(root)
    assert [(info.path, info.size) for info in storage.list_from("", "b")] == [("b", 1)]
    assert [info.path for info in storage.list_from("nowhere", "")] == []
    assert {info.path for info in storage.list_tree("")} == {"a", "b", "d/e", "d/f/g", "d/.e.crc"}
    assert [info.path for info in storage.list_tree("a")] == []
    wanted = {info.path for info in storage.list_tree("", wanted=lambda paths: paths)}
    assert wanted == {"a", "b", "d/e", "d/f/g", "d/.e.crc", "empty/"}


def test_files_are_deleted_with_their_checksums(root: Path) -> None:
    assert open_storage(root).delete_many(["d/e", "d/gone", "nowhere/x", "a"]) == []
    assert sorted(each.name for each in root.rglob("*")) == ["b", "d", "empty", "f", "g", "link"]
