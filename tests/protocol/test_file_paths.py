"""Paths as the log spells them, and the one key of each file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.errors import LogCorruptError
from delta_ops.protocol.file_paths import canonical_path, encode_path


@pytest.mark.parametrize(
    ("path", "encoded"),
    [
        pytest.param("p=a b/x.parquet", "p=a%20b/x.parquet", id="a space"),
        pytest.param("p=50%25/x.parquet", "p=50%2525/x.parquet", id="an escape of the directory"),
        pytest.param("p=é日本/x.parquet", "p=é日本/x.parquet", id="letters beyond ASCII"),
        pytest.param("p=a\u00a0b", "p=a%C2%A0b", id="a no-break space"),
        pytest.param("p=a\u3000b", "p=a%E3%80%80b", id="an ideographic space"),
        pytest.param("p=a\u2028b", "p=a%E2%80%A8b", id="a line separator"),
        pytest.param("p=a\u0085b", "p=a%C2%85b", id="a control character beyond ASCII"),
        pytest.param("p=a\x01b", "p=a%01b", id="a control character"),
        pytest.param('p="[]{}|\\^`<>#?', "p=%22%5B%5D%7B%7D%7C%5C%5E%60%3C%3E%23%3F", id="others"),
    ],
)
def test_paths_are_written_as_a_java_uri_takes_them(path: str, encoded: str) -> None:
    assert encode_path(path) == encoded


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_what_is_encoded_is_decoded_to_the_same(name: str) -> None:
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
        pytest.param("ab:cd.parquet", "/lake/t", "ab:cd.parquet", id="a colon"),
    ],
)
def test_every_spelling_has_one_key(log_path: str, table_uri: str, canonical: str) -> None:
    assert canonical_path(log_path, table_uri) == canonical


@pytest.mark.parametrize(
    "path",
    ["../x.parquet", "a/../../x.parquet", "%2e%2e/x.parquet", "..", "s3://b/t/../x.parquet"],
)
def test_a_path_that_climbs_out_of_the_table_is_an_error(path: str) -> None:
    with pytest.raises(LogCorruptError, match="climbs out of the table"):
        canonical_path(path, "s3://b/t")
