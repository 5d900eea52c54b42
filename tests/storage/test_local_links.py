"""Local storage and symbolic links: nothing outside the root is listed, written or deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.storage import Storage, open_storage

LOG = "_delta_log"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.mkdir()
    return path


@pytest.fixture
def storage(root: Path) -> Storage:
    return open_storage(root)


def files_in(directory: Path) -> list[str]:
    """Every existing path, listed by the operating system."""
    return sorted(
        str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()
    )


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "table_of_others"  # starts like the root
    path.mkdir()
    (path / "theirs").write_bytes(b"precious")
    return path


def test_links_are_not_listed_and_not_entered(storage: Storage, root: Path, outside: Path) -> None:
    storage.create("real/a", b"")
    (root / "to_directory").symlink_to(outside)
    (root / "to_file").symlink_to(outside / "theirs")
    (root / "to_nothing").symlink_to(outside / "gone")
    (root / "to_itself").symlink_to(root)
    assert [info.path for info in storage.list_tree("")] == ["real/a"]
    assert list(storage.list_from("", "")) == []


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda s, path: s.create(path, b"ours"), id="create"),
        pytest.param(lambda s, path: s.replace(path, b"ours"), id="replace"),
        pytest.param(lambda s, path: s.delete(path), id="delete"),
        pytest.param(
            lambda s, path: s.create_from_stream(path, lambda stream: stream.close()),
            id="create_from_stream",
        ),
        pytest.param(
            lambda s, path: s.create_from_stream(path, lambda stream: None, is_durable=False),
            id="create_from_stream, not durable yet",
        ),
    ],
)
@pytest.mark.parametrize("path", ["link/theirs", "link/new", "link/new/new", "inner/up/theirs"])
def test_nothing_is_written_or_deleted_through_a_link_that_leaves_the_root(
    storage: Storage, root: Path, outside: Path, act: Callable[[Storage, str], object], path: str
) -> None:
    (root / "link").symlink_to(outside)
    (root / "inner").mkdir()
    (root / "inner" / "up").symlink_to("../../table_of_others")
    with pytest.raises(InvalidRequestError, match="leads out of"):
        act(storage, path)
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [
        ("theirs", b"precious")
    ]


def test_delete_many_goes_on_after_what_it_may_not_delete(
    storage: Storage, root: Path, outside: Path
) -> None:
    (root / "link").symlink_to(outside)
    for name in ["a", "b"]:
        storage.create(name, b"")
    assert storage.delete_many(["a", "link/theirs", "b"]) == ["link/theirs"]
    assert (files_in(outside), list(storage.list_tree(""))) == (["theirs"], [])


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda s: s.delete("link"), id="delete"),
        pytest.param(lambda s: s.replace("link", b"ours"), id="replace"),
    ],
)
def test_a_link_itself_is_replaced_or_deleted_but_not_its_target(
    storage: Storage, root: Path, outside: Path, act: Callable[[Storage], object]
) -> None:
    (root / "link").symlink_to(outside / "theirs")
    act(storage)
    assert not (root / "link").is_symlink()
    assert (outside / "theirs").read_bytes() == b"precious"


def test_a_link_is_not_created_through(storage: Storage, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside / "new")
    with pytest.raises(FileExistsError):
        storage.create("link", b"ours")
    assert files_in(outside) == ["theirs"]


def test_a_link_within_the_root_is_written_through(storage: Storage, root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    storage.create("link/a", b"content")
    assert [info.path for info in storage.list_tree("")] == ["real/a"]


def test_the_root_itself_may_be_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    storage = open_storage(tmp_path / "link")
    storage.create(f"{LOG}/a", b"content")
    storage.replace("hint", b"")
    assert storage.uri == str(tmp_path / "link")
    assert sorted(info.path for info in storage.list_tree("")) == [f"{LOG}/a", "hint"]
    assert storage.delete_many([f"{LOG}/a", "hint"]) == []
    assert files_in(root) == []
