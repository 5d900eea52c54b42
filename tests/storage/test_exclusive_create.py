"""Answers of a store to conditional writes: their meaning; a server proves their form."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any

import fsspec
import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.backends.azure.create import EXCLUSIVE_CREATE as AZURE
from delta_ops.storage.backends.gcs import EXCLUSIVE_CREATE as GCS
from delta_ops.storage.backends.s3.create import EXCLUSIVE_CREATE as S3
from delta_ops.storage.exclusive_create import PART_BYTES, ExclusiveCreate
from tests.support.servers.azure import AzureServer
from tests.support.servers.s3 import Failure, S3Server, kinds

CONFLICT = Failure(409, "ConditionalRequestConflict")
PATH = "_delta_log/a"


def write_large(stream: IO[bytes]) -> None:
    for _ in range(5):
        stream.write(bytes(PART_BYTES // 2))


def write_small(stream: IO[bytes]) -> None:
    stream.write(b"small")


Write = Callable[[IO[bytes]], None]

both_sizes = pytest.mark.parametrize(
    "write", [pytest.param(write_small, id="small"), pytest.param(write_large, id="in parts")]
)


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> str:
    """A probed bucket, so that the recorded requests are the test's own."""
    name = s3_server.new_bucket()
    open_storage(f"s3://{name}", s3_server.storage_options).create_from_stream("a", write_large)
    return name


@pytest.fixture
def patient(bucket: str, s3_server: S3Server) -> Storage:
    return open_storage(f"s3://{bucket}/{uuid.uuid4().hex}", s3_server.storage_options)


@pytest.fixture
def impatient(bucket: str, s3_server: S3Server) -> Storage:
    """Without the client's own retries."""
    options = {**s3_server.storage_options, "config_kwargs": {"retries": {"max_attempts": 0}}}
    return open_storage(f"s3://{bucket}/{uuid.uuid4().hex}", options)


def paths(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_tree("")]


def uploads_under_way(server: S3Server, storage: Storage) -> list[object]:
    fs = fsspec.filesystem("s3", **server.storage_options)
    bucket = storage.uri.split("/")[2]
    return fs.call_s3("list_multipart_uploads", Bucket=bucket).get("Uploads", [])  # type: ignore[no-any-return]


@pytest.mark.full
def test_a_conflict_is_no_answer_and_the_request_is_sent_again(
    impatient: Storage, s3_server: S3Server
) -> None:
    with s3_server.failing(CONFLICT, CONFLICT), s3_server.recording() as requests:
        impatient.create(PATH, b"ours")
    assert kinds(requests) == {"PUT": 3}
    assert impatient.read(PATH) == b"ours"


def test_a_conflict_with_one_who_wins_is_lost(impatient: Storage, s3_server: S3Server) -> None:
    impatient.create(PATH, b"another's")
    with s3_server.failing(CONFLICT), pytest.raises(FileExistsError):
        impatient.create(PATH, b"ours")
    assert impatient.read(PATH) == b"another's"


@both_sizes
def test_a_conflict_that_does_not_end_is_neither_success_nor_an_existing_file(
    impatient: Storage, s3_server: S3Server, write: Write
) -> None:
    with s3_server.failing(*[CONFLICT] * 50), pytest.raises(StorageError, match="created"):
        impatient.create_from_stream(PATH, write)
    assert paths(impatient) == []
    assert uploads_under_way(s3_server, impatient) == []


def test_an_answer_that_does_not_name_the_condition_is_understood(
    impatient: Storage, s3_server: S3Server
) -> None:
    """Answers of stores other than AWS."""
    with s3_server.failing(Failure(412, "PreconditionFailed")), pytest.raises(FileExistsError):
        impatient.create(PATH, b"ours")


FAILURES = {
    "throttled": Failure(503, "SlowDown"),
    "unavailable": Failure(503, "ServiceUnavailable"),
    "an error of its own": Failure(500, "InternalError"),
    "too slow": Failure(400, "RequestTimeout"),
    "forbidden": Failure(403, "AccessDenied"),
}
OF_PARTS = ("throttled", "forbidden")
"""One failure that is retried and one that is not; the others of parts are `full`."""


@pytest.mark.some_cases(3)
@pytest.mark.parametrize(
    ("failure", "write"),
    [
        *(pytest.param(each, write_small, id=f"{name}, small") for name, each in FAILURES.items()),
        *(
            pytest.param(
                each,
                write_large,
                id=f"{name}, in parts",
                marks=[] if name in OF_PARTS else [pytest.mark.full],
            )
            for name, each in FAILURES.items()
        ),
    ],
)
def test_a_store_that_fails_is_a_storage_error_and_nothing_is_there(
    impatient: Storage, s3_server: S3Server, failure: Failure, write: Write
) -> None:
    with s3_server.failing(*[failure] * 50), pytest.raises(StorageError, match=r"^s3://.*/a could"):
        impatient.create_from_stream(PATH, write)
    assert paths(impatient) == []
    assert uploads_under_way(s3_server, impatient) == []


def test_a_refusal_says_that_nothing_was_created(impatient: Storage, s3_server: S3Server) -> None:
    """Found by the version that the commit loop looks for."""
    with (
        s3_server.failing(Failure(403, "AccessDenied")),
        pytest.raises(StorageError, match="access is denied") as caught,
    ):
        impatient.create(PATH, b"")
    assert isinstance(caught.value.__cause__, PermissionError)
    assert caught.value.__cause__.errno == errno.EACCES


def test_metadata_of_the_user_for_all_objects_are_kept(bucket: str, s3_server: S3Server) -> None:
    data = {"s3_additional_kwargs": {"Metadata": {"team": "ours"}}}
    storage = open_storage(f"s3://{bucket}/m", {**s3_server.storage_options, **data})
    storage.create_from_stream("a", write_small)
    storage.create("b", b"")
    fs = fsspec.filesystem("s3", **s3_server.storage_options)
    for name in "ab":
        found = fs.call_s3("head_object", Bucket=bucket, Key=f"m/{name}")["Metadata"]
        assert found["team"] == "ours"


def test_a_throttled_request_is_sent_again(patient: Storage, s3_server: S3Server) -> None:
    with s3_server.failing(Failure(503, "SlowDown")):
        patient.create(PATH, b"ours")
    assert patient.read(PATH) == b"ours"


def test_a_client_that_repeats_a_lost_request_recognizes_its_own_file(
    patient: Storage, s3_server: S3Server
) -> None:
    """`txnId` identifies a commit, so `create` saves the loser of a race a lookup."""
    with (
        s3_server.failing(Failure(500, "InternalError", lands=True)),
        pytest.raises(FileExistsError),
    ):
        patient.create(PATH, b"ours")
    assert patient.read(PATH) == b"ours"


@both_sizes
def test_a_stream_whose_answer_was_lost_is_known_again_by_its_mark(
    patient: Storage, s3_server: S3Server, write: Write
) -> None:
    with s3_server.failing(Failure(500, "InternalError", lands=True)):
        info = patient.create_from_stream(PATH, write)
    assert info == patient.stat(PATH)


@both_sizes
def test_a_stream_that_landed_though_every_answer_was_lost_is_known_again(
    impatient: Storage, s3_server: S3Server, write: Write
) -> None:
    with s3_server.failing(Failure(500, "InternalError", lands=True)):
        info = impatient.create_from_stream(PATH, write)
    assert info == impatient.stat(PATH)


def finished(exclusive: ExclusiveCreate, fs: Any, path: str, mark: str) -> None:
    assert exclusive.begin_upload is not None
    upload = exclusive.begin_upload(fs, path, mark)
    upload.add(b"ours")
    upload.finish()


@pytest.mark.parametrize(
    ("store", "exclusive"),
    [
        pytest.param(
            "s3",
            replace(S3, put=lambda f, p, _, m: finished(S3, f, p, m)),
            id="s3-parts",
        ),
        pytest.param("s3", S3, id="s3"),
        pytest.param("gcs", GCS, id="gcs"),
        pytest.param("azure", AZURE, id="azure"),
        pytest.param(
            "azure",
            replace(AZURE, put=lambda f, p, _, m: finished(AZURE, f, p, m)),
            id="azure-parts",
        ),
    ],
)
def test_a_file_is_known_again_by_its_mark(
    request: pytest.FixtureRequest, store: str, exclusive: ExclusiveCreate
) -> None:
    """A client that repeats a request and finds the file existing recognizes its own file."""
    server = request.getfixturevalue(f"{store}_server")
    place = server.new_container() if store == "azure" else server.new_bucket()
    protocol = {"gcs": "gs", "azure": "az"}.get(store, store)
    fs = fsspec.filesystem(protocol, **server.storage_options)
    assert exclusive.look(fs, f"{place}/a") is None
    exclusive.put(fs, f"{place}/a", b"ours", "mark1")
    with pytest.raises(FileExistsError):
        exclusive.put(fs, f"{place}/a", b"ours", "mark2")
    fs.pipe_file(f"{place}/b", b"another's")
    assert [exclusive.look(fs, f"{place}/{name}") for name in "ab"] == ["mark1", ""]


@both_sizes
def test_the_same_bytes_of_another_are_not_taken_for_ours(patient: Storage, write: Write) -> None:
    patient.create_from_stream(PATH, write)
    with pytest.raises(FileExistsError):
        patient.create_from_stream(PATH, write)


def test_contents_longer_than_a_part_are_uploaded_in_parts(
    patient: Storage, s3_server: S3Server
) -> None:
    with s3_server.recording() as requests:
        patient.create_from_stream(PATH, write_large)
    begun_and_finished, parts, described = 2, 3, 1
    assert kinds(requests) == {"POST": begun_and_finished, "PUT": parts, "HEAD": described}


def test_content_of_one_part_is_uploaded_at_once(patient: Storage, s3_server: S3Server) -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(bytes(PART_BYTES))

    with s3_server.recording() as requests:
        patient.create_from_stream(PATH, write)
    assert kinds(requests) == {"PUT": 1, "HEAD": 1}


def test_parts_of_a_writer_that_fails_are_dropped(patient: Storage, s3_server: S3Server) -> None:
    def write(stream: IO[bytes]) -> None:
        write_large(stream)
        raise ValueError("of the writer's own")

    with pytest.raises(ValueError, match="of the writer's own"):
        patient.create_from_stream(PATH, write)
    assert paths(patient) == []
    assert uploads_under_way(s3_server, patient) == []


def test_a_container_that_is_not_there_is_no_existing_file(azure_server: AzureServer) -> None:
    storage = open_storage("az://no-such-container/t", azure_server.storage_options)
    with pytest.raises(StorageError, match="_delta_ops could not be probed"):
        storage.create(PATH, b"")


@pytest.fixture
def on_azure(azure_server: AzureServer) -> Storage:
    return open_storage(f"az://{azure_server.new_container()}/t", azure_server.storage_options)


@pytest.mark.full
def test_blocks_of_two_writers_do_not_mix(on_azure: Storage) -> None:
    """Staged blocks of both writers share one name until one writer commits its list."""

    def write_while_another_does(stream: IO[bytes]) -> None:
        stream.write(b"o" * 2 * PART_BYTES)
        on_azure.create_from_stream(PATH, write_large)
        stream.write(b"o" * 2 * PART_BYTES)

    with pytest.raises(FileExistsError):
        on_azure.create_from_stream(PATH, write_while_another_does)
    assert set(on_azure.read(PATH)) == {0}


@pytest.mark.full
def test_an_upload_that_is_under_way_is_no_existing_file(on_azure: Storage) -> None:
    """Azurite rejects a blob that has uncommitted blocks, and does not list it."""

    def write_while_another_does(stream: IO[bytes]) -> None:
        stream.write(b"o" * 2 * PART_BYTES)
        with pytest.raises(
            StorageError, match="the store reports that it exists, but does not show it"
        ):
            on_azure.create_from_stream(PATH, write_small)

    on_azure.create_from_stream(PATH, write_while_another_does)
    assert set(on_azure.read(PATH)) == {ord("o")}
