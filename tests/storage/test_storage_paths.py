from __future__ import annotations

import re

import pytest

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.paths import (
    is_hidden_staged,
    is_valid,
    redact,
    split_uri,
    staged_name,
    validate,
)

ENOUGH_FOR_A_RUN_OF_DIGITS = 20_000
"""Names from plain random hexadecimal digits: one in 2,000 has 20 decimal digits in a row."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("a", id="a file in the root"),
        pytest.param("_delta_log/00000000000000000000.json", id="a commit"),
        pytest.param("p=US%2FEast/a b.parquet", id="escapes and spaces are literal"),
        pytest.param(".hidden/..a/b../...", id="dots within a name"),
        pytest.param("p=a\\b/c", id="a backslash in a name"),
        pytest.param("p=C:/c", id="a colon that makes no drive"),
        pytest.param("a:b/c", id="a letter and a colon, which name a drive on Windows only"),
        pytest.param("ä/漢字/\U0001f600", id="any letters"),
    ],
)
def test_a_path_below_the_root_is_returned_as_it_is(path: str) -> None:
    assert validate(path) == path
    assert is_valid(path)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("/a", "is absolute", id="absolute"),
        pytest.param("\\a", "is absolute", id="absolute on Windows"),
        pytest.param("a//b", "has an empty part", id="an empty part"),
        pytest.param("s3://bucket/a", "has an empty part", id="a URI"),
        pytest.param("a/", "has an empty part", id="a slash at the end"),
        pytest.param("/", "is absolute", id="only a slash"),
        pytest.param("\\\\host\\share", "is absolute", id="a network path of Windows"),
        pytest.param("../a", "has a part '.' or '..'", id="above the root"),
        pytest.param("a/..", "has a part '.' or '..'", id="climbing at the end"),
        pytest.param("a/./b", "has a part '.' or '..'", id="a dot"),
        pytest.param("..", "has a part '.' or '..'", id="two dots"),
        pytest.param("a/..\\b", "has a part '.' or '..'", id="two dots before a backslash"),
        pytest.param("a\0", "contains a NUL character", id="NUL"),
        pytest.param("a\ud800", "is not valid Unicode", id="half a character"),
    ],
)
def test_any_other_path_is_refused_with_its_problem(path: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(f"is invalid because it {problem}.")):
        validate(path)
    assert not is_valid(path)


def test_a_drive_is_rejected_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delta_ops.storage.paths.os.name", "nt")
    with pytest.raises(InvalidRequestError, match="starts with a drive letter"):
        validate("c:a")


def test_staged_names_are_hidden_and_never_look_like_a_version() -> None:
    names = {staged_name() for _ in range(ENOUGH_FOR_A_RUN_OF_DIGITS)}
    assert len(names) == ENOUGH_FOR_A_RUN_OF_DIGITS
    assert all(name.startswith(".") and is_hidden_staged(name) for name in names)
    assert not any(re.search(r"\d{20}", name) for name in names)


@pytest.mark.parametrize(
    "name",
    ["staged-" + "a" * 32, ".staged-", ".staged-" + "a" * 31, ".staged-" + "a" * 32 + ".json", ""],
)
def test_other_names_are_not_taken_for_staged(name: str) -> None:
    assert not is_hidden_staged(name)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("s3://bucket/a", ("s3", "bucket/a")),
        ("S3A://bucket", ("s3a", "bucket")),
        ("/a/b://c", ("", "/a/b://c")),
        ("C://a", ("", "C://a")),
        ("relative", ("", "relative")),
    ],
)
def test_an_address_is_split_at_its_scheme(address: str, parts: tuple[str, str]) -> None:
    assert split_uri(address) == parts


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        pytest.param("s3://bucket/a", "s3://bucket/a", id="nothing to hide"),
        pytest.param("s3://key:sec/ret@bucket", "s3://key:sec/ret@bucket", id="no user info"),
        pytest.param("sftp://me:secret@host:22/a", "sftp://host:22/a", id="a password"),
        pytest.param("hdfs://me@host/a@b", "hdfs://host/a@b", id="a user"),
        pytest.param("https://host/a?sig=secret", "https://host/a", id="a signed query"),
        pytest.param(
            "abfss://box@account.dfs.core.windows.net/a",
            "abfss://box@account.dfs.core.windows.net/a",
            id="a container is no user",
        ),
        pytest.param(
            "abfss://box:secret@account/a", "abfss://box@account/a", id="unless it has one"
        ),
        pytest.param("/home/me@host/a?b", "/home/me@host/a?b", id="a local path"),
    ],
)
def test_an_address_is_shown_without_credentials(address: str, shown: str) -> None:
    assert redact(address) == shown
