"""A made-up store in this one file: its file system, its backend, and its behaviour everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, OutsideFileError
from delta_ops.log.outside_files import OutsideFiles
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage import open_storage
from delta_ops.storage.backends import forget, register
from delta_ops.storage.backends.backend import Backend
from delta_ops.storage.backends.hadoop_connector import Hadoop, HadoopStore
from delta_ops.storage.backends.memory import MEMORY
from delta_ops.storage.backends.option_names import keep_value, option_names
from delta_ops.storage.hadoop import hadoop_store
from delta_ops.store_names import StoreNames
from tests.support.tables import add, write_log

TABLE = "shelf://room/orders"
OPTIONS = {"token": "a-token"}


class ShelfFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """The client of the store."""

    protocol = ("shelf", "shelves")
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, token: str = "", **options: Any) -> None:
        super().__init__(token=token, **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        path = path.removeprefix("shelf://").removeprefix("shelves://")
        return str(super()._strip_protocol(path))


def load_hadoop() -> Hadoop:
    return Hadoop(
        connector="shelf",
        file_system="org.example.ShelfFileSystem",
        root=lambda uri, *_: "/".join(uri.split("/")[:3]),
        store=lambda _, root, options, *__: HadoopStore(
            root=root, place="", settings={"fs.shelf.token": options["token"]}
        ),
        settings_pattern=lambda _: r"^fs\.shelf\.",
        client_options=lambda _, settings: {"token": settings["fs.shelf.token"]},
    )


SHELF = Backend(
    names=StoreNames(schemes=("shelf", "shelves"), service_of=lambda _: ""),
    refuses_user_info=True,
    package=ShelfFileSystem.__module__.partition(".")[0],
    option_names=option_names(("token", "shelf_token", keep_value)),
    variable_prefixes=("shelf_",),
    option_hint="shelffs: token",
    exclusive_create=MEMORY.exclusive_create,
    is_atomic=True,
    lock=MEMORY.lock,
    shares_open_files=True,
    address_of=lambda _: "the one shelf",
    is_misread=lambda path: "#" in path,
    hadoop=load_hadoop,
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for scheme in SHELF.schemes:
        fsspec.register_implementation(scheme, ShelfFileSystem, clobber=True)
    register(SHELF)
    yield
    forget(SHELF)
    ShelfFileSystem.store.clear()


def test_a_table_is_committed_to_and_read() -> None:
    for number in range(2):
        da.write(TABLE, pa.table({"id": [number]}), storage_options=OPTIONS)
    log = DeltaLog(TABLE, OPTIONS)
    assert log.snapshot().version == 1
    assert sorted(da.to_table(log)["id"].to_pylist()) == [0, 1]


def test_one_of_several_writers_creates_a_file() -> None:
    storage = open_storage(TABLE, OPTIONS)

    def is_created(number: int) -> bool:
        try:
            storage.create("a", b"%d" % number)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(is_created, range(8))) == 1


def test_a_store_without_a_backend_is_not_committed_to() -> None:
    forget(SHELF)
    with pytest.raises(InvalidRequestError, match="shelf has no known way"):
        da.write(TABLE, pa.table({"id": [1]}), storage_options=OPTIONS)


def test_all_schemes_name_the_same_files() -> None:
    assert canonical_path("shelves://room/orders/a.parquet", TABLE) == "a.parquet"
    assert canonical_path("shelves://room/b.parquet", TABLE) == "shelf://room/b.parquet"


@pytest.mark.parametrize(
    ("address", "options", "reason"),
    [
        pytest.param("shelf://", {}, "names no bucket", id="an address without a bucket"),
        pytest.param("shelf://key@room/t", {}, "before the bucket", id="a credential"),
        pytest.param(
            TABLE, {"tokn": "x"}, "closest option of the client .* is token", id="a misspelt option"
        ),
        pytest.param(TABLE, {"SHELF_KEY": "x"}, "give one of shelf_token", id="a foreign name"),
    ],
)
def test_a_mistake_is_refused(address: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        open_storage(address, options)


@pytest.mark.parametrize("name", ["SHELF_TOKEN", "fs.shelf.token"])
def test_options_have_other_names(name: str) -> None:
    assert open_storage(TABLE, {name: "a-token"}).client_options == OPTIONS


def test_files_in_other_buckets_are_read_with_the_options_of_the_table() -> None:
    storage = open_storage("shelf://other", OPTIONS)
    storage.create("a", b"outside")
    found, path = OutsideFiles("read", OPTIONS).find("shelf://other/a", TABLE)
    assert found.read(path) == b"outside"


def test_a_local_table_does_not_lead_to_the_store(tmp_path: Any) -> None:
    write_log(tmp_path, [[add("shelf://other/a.parquet")]])
    with pytest.raises(OutsideFileError, match="outside the table's location"):
        da.to_table(tmp_path)


def test_spark_gets_the_settings_of_the_connector() -> None:
    store = hadoop_store(TABLE, OPTIONS, {})
    assert store is not None
    assert (store.root, store.settings) == ("shelf://room", {"fs.shelf.token": "a-token"})
