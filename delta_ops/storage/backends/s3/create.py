"""Exclusive create on S3: PUT, or the completion of a multipart upload, with `If-None-Match: *`.

412 means that the object exists. 409 means that another request for the same key is running and the
outcome is still open: a PUT is sent again, and a completion waits for the outcome. All other errors
are not translated.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import time
from typing import Any
from urllib.parse import urlsplit

from delta_ops.storage.exclusive_create import (
    Endpoint,
    ExclusiveCreate,
    Upload,
    file_exists_error,
    split,
)

_MARK = "deltaopscreate"
_OWN_HOST = re.compile(r"s3(-fips)?(\.dualstack)?(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
_CONFLICTS = 5
"""Number of attempts after 409; the pauses add up to at most three seconds."""
_AFTER_A_CONFLICT_S = 0.1


def _put(fs: Any, path: str, data: bytes, mark: str) -> None:
    bucket, key = split(path)
    for number in range(_CONFLICTS):
        try:
            fs.call_s3(
                "put_object",
                Bucket=bucket,
                Key=key,
                Body=data,
                IfNoneMatch="*",
                **_object_metadata(fs, mark),
            )
        except Exception as error:  # s3fs translates errors to many types
            match _status_of(error):
                case 412:
                    raise file_exists_error(path) from error
                case 409:
                    _wait(number)
                    continue
            raise
        return
    raise _busy_error(path)


def _look(fs: Any, path: str) -> str | None:
    bucket, key = split(path)
    try:
        found = fs.call_s3("head_object", Bucket=bucket, Key=key)
    except FileNotFoundError:
        return None
    return str(found.get("Metadata", {}).get(_MARK, ""))


class _Multipart:
    """An upload in parts; the bucket's lifecycle rules delete the parts of a killed process."""

    def __init__(self, fs: Any, path: str, mark: str) -> None:
        self._fs, self._path = fs, path
        bucket, key = split(path)
        begun = fs.call_s3(
            "create_multipart_upload", Bucket=bucket, Key=key, **_object_metadata(fs, mark)
        )
        self._upload = {"Bucket": bucket, "Key": key, "UploadId": begun["UploadId"]}
        self._parts: list[dict[str, Any]] = []

    def add(self, part: bytes) -> None:
        number = len(self._parts) + 1
        taken = self._fs.call_s3("upload_part", **self._upload, PartNumber=number, Body=part)
        self._parts.append({"PartNumber": number, "ETag": taken["ETag"]})

    def finish(self) -> None:
        try:
            self._fs.call_s3(
                "complete_multipart_upload",
                **self._upload,
                MultipartUpload={"Parts": self._parts},
                IfNoneMatch="*",
            )
        except Exception as error:  # s3fs translates errors to many types
            # 404: the upload is gone, because a completion was sent again after a lost answer.
            if _status_of(error) == 412 or (
                _status_of(error) in {404, 409} and _appears(self._fs, self._path)
            ):
                raise file_exists_error(self._path) from error
            raise

    def abandon(self) -> None:
        with contextlib.suppress(Exception):  # s3fs translates errors to many types
            self._fs.call_s3("abort_multipart_upload", **self._upload)


def _begin_upload(fs: Any, path: str, mark: str) -> Upload:
    return _Multipart(fs, path, mark)


def _endpoint_of(fs: Any) -> Endpoint:
    endpoint = urlsplit(fs.s3.meta.endpoint_url)  # includes environment and configuration files
    return Endpoint(endpoint.netloc, _OWN_HOST.fullmatch(endpoint.hostname or "") is not None)


def _appears(fs: Any, path: str) -> bool:
    """Wait for a running request; return whether the object then exists."""
    for number in range(_CONFLICTS):
        if _look(fs, path) is not None:
            return True
        _wait(number)
    return False


def _wait(number: int) -> None:
    time.sleep(random.uniform(0, _AFTER_A_CONFLICT_S * 2**number))  # noqa: S311  (jitter)


def _busy_error(path: str) -> OSError:
    text = f"another request to create it is still running ({os.strerror(errno.EBUSY)})"
    return OSError(errno.EBUSY, text, path)


def _object_metadata(fs: Any, mark: str) -> dict[str, dict[str, str]]:
    metadata = fs.s3_additional_kwargs.get("Metadata", {})  # the user's metadata for all objects
    return {"Metadata": {**metadata, _MARK: mark}} if mark else {}


def _status_of(error: Exception) -> int | None:
    """HTTP status of the answer.

    s3fs distinguishes 412 from bad requests by the condition's name, which only AWS sends.
    """
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status if isinstance(status, int) else None
    return None


EXCLUSIVE_CREATE = ExclusiveCreate(
    put=_put, look=_look, begin_upload=_begin_upload, endpoint_of=_endpoint_of
)
