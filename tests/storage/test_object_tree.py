"""All objects below a prefix with few listings: over a model of a store with small pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.storage.backends.object_tree import Listing, Page, list_objects
from delta_ops.storage.remote.opening import open_remote
from tests.support.servers.s3 import S3Server, kinds


class Store:
    """Lists names as S3 does, in small pages, and records its requests."""

    def __init__(self, names: Iterable[str], of_a_page: int) -> None:
        self._names, self._of_a_page = dict.fromkeys(sorted(names)), of_a_page
        self.requests: list[Listing] = []

    def pages(self, listing: Listing) -> Iterator[Page]:
        shown = dict.fromkeys(
            shown
            for name in self._names
            if name.startswith(listing.prefix)
            and (shown := self._shown(name, listing)) > listing.after
        )
        rest = list(shown)
        while True:
            self.requests.append(listing)
            part, rest = rest[: self._of_a_page], rest[self._of_a_page :]
            objects = [{"name": name} for name in part if name in self._names]
            directories = [name for name in part if name not in self._names]
            yield Page(objects, directories, bool(rest))
            if not rest:
                return

    def _shown(self, name: str, listing: Listing) -> str:
        rest = name[len(listing.prefix) :]
        if not listing.stops_at_slash or "/" not in rest:
            return name
        return listing.prefix + rest[: rest.index("/") + 1]

    def listed(self, prefix: str) -> list[str]:
        return [each["name"] for each in list_objects(self.pages, prefix)]


PART = st.text(alphabet="!0a~é\U0001f600", min_size=1, max_size=2)
NAME = st.lists(PART, min_size=1, max_size=5).map("/".join)


@settings(deadline=None)
@given(
    names=st.sets(NAME, max_size=60),
    of_a_page=st.integers(1, 9),
    prefix=st.sampled_from(["", "a/", "a/0/", "0/"]),
)
def test_every_object_below_is_listed_once(names: set[str], of_a_page: int, prefix: str) -> None:
    names = {name for name in names if not any(each.startswith(f"{name}/") for each in names)}
    listed = Store(names, of_a_page).listed(prefix)
    assert sorted(listed) == sorted(name for name in names if name.startswith(prefix))


def of_folders(folders: int, files: int) -> list[str]:
    return [f"t/p={folder:04d}/{file:04d}" for folder in range(folders) for file in range(files)]


def of_log(files: int) -> list[str]:
    return [f"t/_log/{file:04d}" for file in range(files)]


@pytest.mark.parametrize(
    ("names", "requests"),
    [
        pytest.param(of_folders(10, 4), 1, id="names that fit a page need one request"),
        pytest.param([f"t/{n:03d}" for n in range(120)], 3, id="a flat folder page by page"),
        pytest.param(of_folders(40, 3), 1 + 1 + 3, id="small folders are listed together"),
        pytest.param(of_folders(400, 1), 1 + 10 + 11, id="so are very many"),
        pytest.param(
            of_log(1) + of_folders(60, 40),
            1 + 2 + 60,
            id="large directories are listed by themselves",
        ),
        pytest.param(
            of_log(60) + of_folders(400, 1),
            1 + 11 + 31,
            id="a long log says nothing of the folders after it",
        ),
        pytest.param(
            of_log(60) + of_folders(63, 200),
            1 + 2 + 63 * 5 + 1,
            id="a run that holds more than was expected goes on as several",
        ),
    ],
)
def test_few_requests_do(names: list[str], requests: int) -> None:
    store = Store(names, 40)
    assert sorted(store.listed("t/")) == names
    assert len(store.requests) == requests


def test_levels_of_few_directories_are_listed_together() -> None:
    names = [f"t/y={y}/m={m:02d}/{n:04d}" for y in range(3) for m in range(12) for n in range(36)]
    store = Store(names, 40)
    assert sorted(store.listed("t/")) == names
    assert len(store.requests) == 1 + 1 + 3 + 35


def test_a_store_without_order_is_refused_where_its_order_counts() -> None:
    class Shuffled(Store):
        def pages(self, listing: Listing) -> Iterator[Page]:
            for page in super().pages(listing):
                yield page._replace(objects=page.objects[::-1])

    names = of_folders(3, 4)
    assert sorted(Shuffled(names, len(names)).listed("")) == sorted(names)
    with pytest.raises(OSError, match="in their order"):
        Shuffled(names, 5).listed("")


def test_times_of_an_s3_server_are_understood_by_its_client(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    s3_server.put(bucket, {"t/a": b"1", "t/p=1/b": b"22"})
    storage = open_remote(f"s3://{bucket}/t", s3_server.storage_options, None, None)
    before = {info.path: info for info in storage.list_from("", "")}
    with s3_server.recording() as requests:
        listed = {info.path: info for info in storage.list_tree("")}
    assert kinds(requests) == {"LIST": 1}
    assert listed["a"] == before["a"] == storage.stat("a")
    assert listed["p=1/b"] == storage.stat("p=1/b")
