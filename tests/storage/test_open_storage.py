from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from delta_ops.errors import InvalidRequestError, MissingDependencyError
from delta_ops.storage import open_storage

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="forms of POSIX paths")


@posix_only
@pytest.mark.parametrize(
    ("address", "path"),
    [
        pytest.param("/data/t", "/data/t", id="an absolute path"),
        pytest.param("/data//t/", "/data/t", id="slashes too many"),
        pytest.param("/data/x/../t", "/data/t", id="a step up"),
        pytest.param("t", "{cwd}/t", id="a relative path"),
        pytest.param("./s3:/t", "{cwd}/s3:/t", id="a directory named like a scheme"),
        pytest.param("~/t", "{home}/t", id="the home directory"),
        pytest.param("./a::b", "{cwd}/a::b", id="a directory named like a chain"),
        pytest.param("./~/t", "{cwd}/~/t", id="a directory named like the home directory"),
        pytest.param("file:///data/t", "/data/t", id="a file URI"),
        pytest.param("file:/data/t", "/data/t", id="a file URI as Hadoop writes it"),
        pytest.param("FILE://localhost/data/t", "/data/t", id="a file URI with this host"),
        pytest.param("file:////data/t", "/data/t", id="a file URI with a slash too many"),
        pytest.param("local:///data/t", "/data/t", id="a local URI of fsspec"),
        pytest.param("/data/50%20off", "/data/50%20off", id="a percent sign in a plain path"),
        pytest.param(
            "file:///data/50% off", "/data/50% off", id="a percent sign that is no escape"
        ),
        pytest.param("file:///data/my%20lake", "/data/my lake", id="an escaped blank"),
        pytest.param("file:/data/m%C3%A4r", "/data/mär", id="an escaped umlaut"),
        pytest.param("file:///data/mär%20e", "/data/mär e", id="a blank escaped by Java"),
        pytest.param("file:///data/50%25", "/data/50%", id="an escaped percent sign"),
        pytest.param("file:///data/a%2520b", "/data/a%20b", id="an escape that was escaped"),
        pytest.param("file:///data/c%3A%5Cd", "/data/c:\\d", id="an escaped drive in a name"),
        pytest.param("/data/a?b#c::d", "/data/a?b#c::d", id="signs that mean something in URIs"),
    ],
)
def test_a_local_address_becomes_an_absolute_path(
    address: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    expected = path.format(cwd=tmp_path, home="/home/someone")
    assert open_storage(address).uri == expected


def test_a_path_object_is_an_address(tmp_path: Path) -> None:
    assert open_storage(tmp_path).uri == str(tmp_path)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        pytest.param("memory://a/b/", "memory://a/b", id="a slash at the end"),
        pytest.param("memory://", "memory://", id="all of the store"),
        pytest.param("MEMORY://a", "memory://a", id="a scheme in capitals"),
    ],
)
def test_a_uri_is_kept_as_the_user_named_it(address: str, shown: str) -> None:
    storage = open_storage(address)
    assert (storage.uri, storage.locate("c")) == (shown, f"{shown}/c")


def test_all_of_a_store_in_memory_is_a_root() -> None:
    storage, below = open_storage("memory://"), open_storage("memory://all-of-it")
    storage.create("all-of-it/p=1/a", b"content")
    assert below.read("p=1/a") == b"content"
    assert [info.path for info in storage.list_tree("all-of-it")] == ["all-of-it/p=1/a"]
    assert open_storage(storage.locate("all-of-it")).delete_many(["p=1/a"]) == []
    assert list(below.list_tree("")) == []


@posix_only
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        pytest.param("", "it is empty", id="nothing"),
        pytest.param("/a\0", "NUL", id="NUL"),
        pytest.param("s3:/bucket/t", "one slash after s3:", id="a slash too few"),
        pytest.param(str(Path("s3://bucket/t")), "one slash", id="a URI spoilt by pathlib"),
        pytest.param("file://host/t", "names a host", id="a file URI of another host"),
        pytest.param("file:t", "relative path", id="a relative file URI"),
        pytest.param("file:///a%20b/c d", "neither", id="a URI with a blank and an escape"),
        pytest.param("file:///a%20b/50%", "neither", id="a URI with a bare percent sign"),
        pytest.param("file:///a%2Fb", "neither", id="an escaped slash in a file URI"),
        pytest.param("file:///a%FFb", "neither", id="an escape in a file URI that is no UTF-8"),
        pytest.param("file:///a%00b", "NUL", id="an escaped NUL"),
        pytest.param("~nobody-of-that-name/t", "no home directory", id="an unknown user"),
        pytest.param("C:\\data\\t", "Windows drive", id="a drive without Windows"),
        pytest.param("file:///C:/t", "Windows drive", id="a drive in a file URI without Windows"),
        pytest.param("s3://", "names no bucket", id="no bucket"),
        pytest.param("s3:///", "names no bucket", id="no bucket but a slash"),
        pytest.param("s3://bucket/t?versionId=1", "has a query", id="a query"),
        pytest.param("s3://key:hush@bucket/t", "may be a credential", id="a key in an address"),
        pytest.param("simplecache::s3://bucket/t", "chains file systems", id="a chain"),
        pytest.param("filecache://t", "chains file systems", id="a cache"),
        pytest.param("nosuch://t", "no file system for nosuch", id="an unknown scheme"),
    ],
)
def test_an_address_that_could_mean_another_place_is_refused(address: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        open_storage(address)


@posix_only
@pytest.mark.parametrize("name", ["my lake", "mär", "50%", "a%20b", "x=1", "漢字", "a:b", "'#?"])
def test_the_uri_that_python_makes_of_a_path_means_the_path(tmp_path: Path, name: str) -> None:
    assert open_storage((tmp_path / name).as_uri()).uri == str(tmp_path / name)
    (tmp_path / name).mkdir()
    assert open_storage((tmp_path / name).as_uri()).uri == str(tmp_path / name)


@posix_only
@pytest.mark.parametrize("below", ["", "/t"])
def test_a_file_uri_is_rejected_where_a_name_has_the_escape(tmp_path: Path, below: str) -> None:
    (tmp_path / "my%20lake").mkdir()
    with pytest.raises(InvalidRequestError, match=r"there is '.*my%20lake', whose name has"):
        open_storage(f"file://{tmp_path}/my%20lake{below}")
    assert open_storage(f"{tmp_path}/my%20lake").uri == f"{tmp_path}/my%20lake"


@posix_only
def test_a_step_up_from_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    assert open_storage(tmp_path / "a" / ".." / "t").uri == str(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=r"'\.\.' after a link"):
        open_storage(tmp_path / "link" / ".." / "t")


def run_without(packages: Iterable[str], code: str) -> str:
    program = f"import sys; sys.modules.update(dict.fromkeys({sorted(packages)}))\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return done.stdout


def test_a_missing_package_is_named_with_its_extra() -> None:
    needs = {
        "s3://bucket/t": ("s3fs", "pip install 'delta_ops[s3]'"),
        "s3a://bucket/t": ("s3fs", "pip install 'delta_ops[s3]'"),
        "gs://bucket/t": ("gcsfs", "pip install 'delta_ops[gcs]'"),
        "abfss://box@account.dfs.core.windows.net/t": ("adlfs", "pip install 'delta_ops[azure]'"),
    }
    reported = run_without(
        {package for package, _ in needs.values()},
        "from delta_ops.storage import open_storage\n"
        "from delta_ops.errors import MissingDependencyError\n"
        f"for address in {list(needs)}:\n"
        "    try:\n"
        "        open_storage(address)\n"
        "    except MissingDependencyError as error:\n"
        "        print(error)\n",
    )
    assert reported.splitlines() == [
        f"{address} needs the package {package}; install it with: {cure}."
        for address, (package, cure) in needs.items()
    ]


def test_a_package_of_no_extra_is_named_by_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(MissingDependencyError, match=r"^sftp://host/t needs .*paramiko"):
        open_storage("sftp://me:secret@host/t")


def test_no_package_of_a_store_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    reported = run_without(
        [],
        "from delta_ops.storage import open_storage\n"
        f"open_storage({str(tmp_path)!r}).create('a', b'')\n"
        "open_storage('memory://t').create('a', b'')\n"
        "print({'s3fs', 'gcsfs', 'adlfs', 'aiohttp', 'botocore'} & sys.modules.keys())\n",
    )
    assert reported == "set()\n"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"key": "any", "AWS_REGION": "eu", "client_kwargs": {}}, id="of S3"),
        pytest.param({"token": "anon", "google_service_account": "x"}, id="of GCS"),
        pytest.param({"account_name": "a", "azure_storage_account_key": "YQ=="}, id="of Azure"),
        pytest.param({"fs.s3a.access.key": "x", "fs.s3a.path.style.access": "true"}, id="Hadoop's"),
        pytest.param({"default_block_size": 1 << 20, "config_kwargs": {}}, id="of a client alone"),
    ],
)
@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_place_without_options_takes_the_options_of_any_store(
    tmp_path: Path, place: str, options: dict[str, object]
) -> None:
    address = str(tmp_path) if place == "disk" else "memory://lake"
    assert open_storage(address, options).uri == address


def test_options_of_stores_on_a_local_path_import_no_client(tmp_path: Path) -> None:
    said = run_without(
        [],
        "from delta_ops.storage import open_storage\n"
        f"open_storage({str(tmp_path)!r}, {{'key': 'any', 'AWS_REGION': 'eu'}})\n"
        "import sys\n"
        "print({'s3fs', 'gcsfs', 'adlfs', 'aiohttp', 'botocore'} & sys.modules.keys())\n",
    )
    assert said == "set()\n"


def test_a_local_path_takes_options_of_clients_that_are_not_installed(tmp_path: Path) -> None:
    reported = run_without(
        ["s3fs", "gcsfs", "adlfs"],
        "from delta_ops.errors import InvalidRequestError\n"
        "from delta_ops.storage import open_storage\n"
        f"open_storage({str(tmp_path)!r}, {{'use_ssl': False, 's3_additional_kwargs': {{}}}})\n"
        "try:\n"
        f"    open_storage({str(tmp_path)!r}, {{'endpont_url': 'x'}})\n"
        "except InvalidRequestError as error:\n"
        "    print(error)\n",
    )
    assert "the closest option is endpoint_url" in reported
