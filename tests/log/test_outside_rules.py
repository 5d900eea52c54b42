"""Outside files: which of them are read, and how the rules are shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, OutsideFileError
from delta_ops.log.outside_files import OutsideFiles
from delta_ops.protocol.file_paths import canonical_path

AZURE = "abfss://c@a.dfs.core.windows.net/t"


@pytest.mark.parametrize(
    ("table", "path", "admitted"),
    [
        pytest.param("/lake/t", "/lake/u/x", True, id="a disk, from it"),
        pytest.param("/lake/t", "file://h/lake/u/x", False, id="another host's disk"),
        pytest.param("/lake/t", "//lake/u/x", False, id="another root of a disk"),
        pytest.param("/lake/t", "local:///lake/x", False, id="a disk by another name"),
        pytest.param("/lake/t", "s3://b/x", True, id="S3, from a disk"),
        pytest.param("/lake/t", "gs://b/x", True, id="Google's, from a disk"),
        pytest.param("/lake/t", AZURE, True, id="Azure's, from a disk"),
        pytest.param("s3://b/t", "s3a://c/x", True, id="another bucket"),
        pytest.param("s3://b/t", "gs://c/x", True, id="another store"),
        pytest.param("s3://b/t", "/etc/x", False, id="a disk, from a store"),
        pytest.param("s3://b/t", "file:///etc/x", False, id="a disk by its scheme, from a store"),
        pytest.param("s3://b/t", "s3://c/a//x", False, id="an object that no path names"),
        pytest.param("memory://a/t", "memory://b/x", True, id="memory"),
        pytest.param("s3://b/t", "memory://b/x", False, id="memory, from a store"),
        pytest.param("/lake/t", "http://169.254.169.254/x", False, id="a host, from a disk"),
        pytest.param("http://h/t", "http://h/u/x", True, id="the same host"),
        pytest.param("http://h/t", "http://i/u/x", False, id="another host"),
        pytest.param("sftp://u@h/t", "sftp://u@i/u/x", False, id="a host that gets a password"),
        pytest.param("hdfs://h:8020/t", "hdfs://h:8020/u/x", True, id="the same cluster"),
        pytest.param("s3://b/t", "dbfs:/u/x", False, id="a store without an address"),
    ],
)
def test_a_log_leads_where_its_table_lies_and_to_stores_of_known_services(
    table: str, path: str, admitted: bool
) -> None:
    outside, canonical = OutsideFiles(), canonical_path(path, table)
    assert outside.is_admitted(canonical, table) is admitted
    if not admitted:
        with pytest.raises(OutsideFileError) as error:
            outside.validate(canonical, table)
        assert error.value.file == canonical.replace("u@", "")
    assert not OutsideFiles("refuse").is_admitted(canonical, table)


@pytest.mark.parametrize(
    ("prefix", "path", "admitted"),
    [
        pytest.param("sftp://h/", "sftp://h/x", True, id="a host"),
        pytest.param("sftp://h", "sftp://h/x", True, id="without a slash"),
        pytest.param("sftp://h/lake", "sftp://h/lake/x", True, id="a directory"),
        pytest.param("sftp://h/lake", "sftp://h/lake2/x", False, id="the beginning of a name"),
        pytest.param("sftp://h", "sftp://h2/x", False, id="the beginning of a host"),
        pytest.param("sftp://h/lake", "sftp://h/lake/../x", False, id="out of a directory"),
        pytest.param("/", "/lake/x", True, id="a disk"),
        pytest.param("file:///lake/", "/lake/x", True, id="a directory of a disk"),
        pytest.param("/lake", "/etc/x", False, id="another directory of a disk"),
    ],
)
def test_a_prefix_admits_what_is_below_it(prefix: str, path: str, admitted: bool) -> None:
    canonical = canonical_path(path, "s3://b/t")
    for outside in (
        OutsideFiles({prefix: {}}),
        pickle.loads(pickle.dumps(OutsideFiles({prefix: {}}))),
    ):
        assert outside.is_admitted(canonical, "s3://b/t") is admitted


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        pytest.param("ignore", 'outside must be "read", "refuse", or', id="an unknown word"),
        pytest.param(None, "outside is of type NoneType", id="nothing"),
        pytest.param({"lake": {}}, "or an absolute path", id="a relative path"),
        pytest.param(
            {"https://u:secret@h?sig=secret": 1}, "are not a mapping", id="options that are none"
        ),
        pytest.param({"u:secret@h": {}}, "must be a URI", id="no URI"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(rule: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=reason) as error:
        DeltaLog(tmp_path, outside=rule)
    assert "secret" not in str(error.value)


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    options = {"key": "us", "secret": "secret-of-ours"}
    log = DeltaLog(tmp_path, options, outside={"s3://other/": {"secret": "secret-of-theirs"}})
    shown = f"{log!r} {log} {log.outside!r} {log.outside}"
    assert "secret" not in shown
    with pytest.raises(OutsideFileError) as error:
        log.outside.validate("sftp://user:secret@h/x", log.uri)
    assert "secret" not in str(error.value)
    assert "user" not in str(error.value)
