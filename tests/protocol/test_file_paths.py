"""Path spellings in the log, and the single key of each file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import LogCorruptError
from delta_ops.protocol.file_paths import (
    canonical_path,
    canonical_paths,
    canonical_texts,
    depend_on_root,
    encode_path,
    is_absolute,
)


@pytest.mark.parametrize(
    ("path", "encoded"),
    [
        pytest.param("p=a b/x.parquet", "p=a%20b/x.parquet", id="a space"),
        pytest.param("p=50%25/x.parquet", "p=50%2525/x.parquet", id="an escape of the directory"),
        pytest.param("p=é日/x.parquet", "p=%C3%A9%E6%97%A5/x.parquet", id="letters beyond ASCII"),
        pytest.param("p=a\u00a0b", "p=a%C2%A0b", id="a no-break space"),
        pytest.param("p=a\u3000b", "p=a%E3%80%80b", id="an ideographic space"),
        pytest.param("p=a\u2028b", "p=a%E2%80%A8b", id="a line separator"),
        pytest.param("p=a\u0085b", "p=a%C2%85b", id="a control character beyond ASCII"),
        pytest.param("p=a\x01b", "p=a%01b", id="a control character"),
        pytest.param('p="[]{}|\\^`<>#?', "p=%22%5B%5D%7B%7D%7C%5C%5E%60%3C%3E%23%3F", id="others"),
    ],
)
def test_paths_are_written_as_uris_of_ascii(path: str, encoded: str) -> None:
    assert encode_path(path) == encoded


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_encoded_values_are_decoded_unchanged(name: str) -> None:
    path = f"p={name.replace('/', '_')}/x.parquet"
    assert canonical_path(encode_path(path), "/lake/table") == path


def test_escapes_that_are_no_utf8_are_an_error_and_not_one_file() -> None:
    for path in ("p%FF.parquet", "p%FE.parquet"):
        with pytest.raises(LogCorruptError, match=r"p%F[EF].parquet.*not UTF-8"):
            canonical_path(path, "/lake/table")


@pytest.mark.parametrize(
    ("log_path", "table_uri", "canonical"),
    [
        pytest.param("/lake/t/x.parquet", "/lake/t", "x.parquet", id="from the root"),
        pytest.param("file:///lake/t/x.parquet", "/lake/t", "x.parquet", id="a file URI"),
        pytest.param("file:/lake/t/x.parquet", "/lake/t", "x.parquet", id="with one slash"),
        pytest.param("/lake/t2/x.parquet", "/lake/t", "/lake/t2/x.parquet", id="of a neighbour"),
        pytest.param("/lake/t//x.parquet", "/lake/t", "x.parquet", id="with two slashes"),
        pytest.param("/lake/u/../t/x.parquet", "/lake/t", "x.parquet", id="with a step up"),
        pytest.param("/lake/t/../u/x.parquet", "/lake/t", "/lake/u/x.parquet", id="stepping out"),
        pytest.param("//lake/t/x.parquet", "/lake/t", "//lake/t/x.parquet", id="of another root"),
        pytest.param("s3://b/t//x", "s3://b/t", "x", id="an object behind two slashes"),
        pytest.param("a//b/./x.parquet", "/lake/t", "a/b/x.parquet", id="untidy"),
        pytest.param("s3://b/t/x%20y", "s3://b/t", "x y", id="an object of the table"),
        pytest.param("s3://c/t/x", "s3://b/t", "s3://c/t/x", id="an object elsewhere"),
        pytest.param("s3a://b/t/x", "s3://b/t", "x", id="another name of S3"),
        pytest.param("S3N://b/t/x", "s3a://b/t", "x", id="the oldest name of S3"),
        pytest.param("s3a://c/t/x", "s3://b/t", "s3://c/t/x", id="elsewhere by another name"),
        pytest.param("s3://c/t/x", "/lake/t", "s3a://c/t/x", id="in S3 from a local table"),
        pytest.param("s3a://c/t/x", "/lake/t", "s3a://c/t/x", id="the same by another name"),
        pytest.param("s3://b/t2/x", "s3a://b/t", "s3a://b/t2/x", id="of a neighbour in S3"),
        pytest.param("gcs://b/t/x", "gs://b/t", "x", id="another name of Google's"),
        pytest.param("gs://b/t/x", "s3://b/t", "gs://b/t/x", id="the same bucket of another store"),
        pytest.param(
            "abfs://c@a.dfs.core.windows.net/t/x",
            "abfss://c@a.dfs.core.windows.net/t",
            "x",
            id="Azure without TLS",
        ),
        pytest.param(
            "wasbs://c@a.blob.core.windows.net/t/x",
            "abfss://c@a.dfs.core.windows.net/t",
            "x",
            id="Azure's older service",
        ),
        pytest.param(
            "abfss://c@b.dfs.core.windows.net/t/x",
            "abfss://c@a.dfs.core.windows.net/t",
            "abfss://c@b.dfs.core.windows.net/t/x",
            id="another account",
        ),
        pytest.param("abfs://c/t/x", "az://c/t", "x", id="Azure without an account"),
        pytest.param("s3://b/x", "s3://b", "x", id="of a bucket"),
        pytest.param("FILE:/lake/t/x", "/lake/t", "x", id="a scheme in upper case"),
        pytest.param("file://localhost/lake/t/x", "/lake/t", "x", id="this host"),
        pytest.param("file:////lake/t/x", "/lake/t", "x", id="with four slashes"),
        pytest.param("file://h/lake/t/x", "/lake/t", "file://h/lake/t/x", id="another host"),
        pytest.param("hdfs://h:8020/t/x", "hdfs://h:8020/t", "x", id="an unknown store"),
        pytest.param("ab:cd.parquet", "/lake/t", "ab:cd.parquet", id="a colon"),
    ],
)
def test_every_spelling_has_one_key(log_path: str, table_uri: str, canonical: str) -> None:
    assert canonical_path(log_path, table_uri) == canonical
    assert canonical_texts([log_path, "y"], table_uri) == [canonical, "y"]
    assert canonical_texts(["y", log_path], table_uri) == ["y", canonical]
    among = pa.array(["y"] * 200 + [log_path])
    assert canonical_paths(among, table_uri).to_pylist() == ["y"] * 200 + [canonical]


@pytest.mark.parametrize(
    ("log_path", "table_uri", "canonical"),
    [
        pytest.param("../x", "/lake/t", "/lake/x", id="beside the table"),
        pytest.param("a/../../u/x", "/lake/t", "/lake/u/x", id="in a neighbour"),
        pytest.param("%2e%2e/x%20y", "/lake/t", "/lake/x y", id="dots that are escaped"),
        pytest.param("../../../x", "/lake/t", "/x", id="above the root of a disk"),
        pytest.param("../t/x", "/lake/t", "x", id="out and in again"),
        pytest.param("../t/./a//x", "/lake/t", "a/x", id="out and in again, untidy"),
        pytest.param("../u/x", "s3://b/t", "s3://b/u/x", id="in a bucket"),
        pytest.param("../u/x", "s3a://b/lake/t", "s3a://b/lake/u/x", id="as the table names it"),
        pytest.param("../t/x", "s3://b/t", "x", id="out and in again in a bucket"),
        pytest.param("s3://b/t/../x", "s3://b/t", "s3://b/x", id="an object beside the table"),
        pytest.param("s3a://b/u/../t/x", "s3://b/t", "x", id="an object of the table"),
        pytest.param("s3://c/a/../x", "s3://b/t", "s3://c/x", id="an object elsewhere"),
        pytest.param("../u/x", "memory://a/t", "memory://a/u/x", id="in memory"),
        pytest.param(
            "../u/x",
            "abfss://c@a.dfs.core.windows.net/t",
            "abfss://c@a.dfs.core.windows.net/u/x",
            id="in a container",
        ),
    ],
)
def test_steps_up_are_taken_from_the_root_of_the_table(
    log_path: str, table_uri: str, canonical: str
) -> None:
    assert canonical_path(log_path, table_uri) == canonical
    assert canonical_texts([log_path], table_uri) == [canonical]
    among = pa.array(["y"] * 200 + [log_path])
    assert canonical_paths(among, table_uri).to_pylist() == ["y"] * 200 + [canonical]


@pytest.mark.parametrize("path", ["../../x", "a/../../../x", "%2e%2e/../x", "s3://b/../x"])
def test_a_path_that_climbs_out_of_its_bucket_is_an_error(path: str) -> None:
    with pytest.raises(LogCorruptError, match="leaves its store"):
        canonical_path(path, "s3://b/t")


@pytest.mark.parametrize(
    ("path", "depends"),
    [
        pytest.param("a/../x", False, id="a step within the table"),
        pytest.param("../x", True, id="a step out of it"),
        pytest.param("%2e%2e/x", True, id="an escaped one"),
        pytest.param("/lake/x", True, id="an absolute path"),
    ],
)
def test_texts_that_depend_on_the_location_of_the_table(path: str, depends: bool) -> None:
    assert depend_on_root(pa.array(["y", path])) is depends


def test_a_root_that_is_a_link_has_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    for root in ("real", "link"):
        assert canonical_path(f"{tmp_path}/{root}/x", str(link)) == "x"
    paths = pa.array([f"file:{tmp_path}/real/x", f"{tmp_path}/link/x", "x"])
    assert canonical_paths(paths, str(link)).to_pylist() == ["x", "x", "x"]


def test_a_link_that_only_the_log_names_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path = f"{tmp_path}/link/x"
    assert canonical_path(path, f"{tmp_path}/real") == path


@pytest.mark.parametrize(
    ("log_path", "canonical", "absolute"),
    [
        pytest.param("ab%3Acd.parquet", "ab:cd.parquet", False, id="a colon in a name"),
        pytest.param("hour%3A12/x%20y", "hour:12/x y", False, id="a colon in a directory"),
        pytest.param("hour:12/../x", "x", False, id="a step in it"),
        pytest.param("dbfs:/u/x", "dbfs:/u/x", True, id="a URI without an authority"),
        pytest.param("s3://c/x", "s3a://c/x", True, id="a URI with one"),
    ],
)
def test_a_colon_alone_makes_no_uri(log_path: str, canonical: str, absolute: bool) -> None:
    assert canonical_path(log_path, "/lake/t") == canonical
    assert is_absolute(canonical) is absolute
