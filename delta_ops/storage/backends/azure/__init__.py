"""The Azure backend: Blob Storage and Data Lake Storage. The client is adlfs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from delta_ops.storage.backends.azure import create
from delta_ops.storage.backends.backend import Backend, Entry, Options
from delta_ops.storage.backends.endpoints import split_user_info, warn_of_unused
from delta_ops.storage.backends.hadoop_connector import Hadoop
from delta_ops.storage.backends.option_names import is_true, keep_value, option_names
from delta_ops.storage.exclusive_create import split_directory
from delta_ops.store_names import StoreNames

__all__ = ["AZURE"]


def _canonical_authority(authority: str) -> str:
    return authority.lower().replace(".blob.", ".dfs.")


def _account_of(authority: str) -> str | None:
    return authority.partition("@")[2] or None


def _drop_credentials(options: Options) -> Options:
    by_environment = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    found = {
        "connection_string": options.get("connection_string") or by_environment,
        "account_host": options.get("account_host"),
    }
    cleaned = {
        name: ";".join(_cleaned_setting(part) for part in str(text).split(";"))
        for name, text in found.items()
        if text
    }
    changed = {name: text for name, text in cleaned.items() if text != found[name]}
    return {**options, **changed}


def _cleaned_setting(setting: str) -> str:
    """Remove user and password from a part of a connection string, or from a host."""
    name, equals, value = setting.partition("=")
    if equals and not name.lower().endswith("endpoint"):
        return setting
    address, user_info = split_user_info(value if equals else name)
    if user_info is None:
        return setting
    warn_of_unused("Azure", address)
    return f"{name}{equals}{address}" if equals else address


def _list_from(fs: Any, directory: str, start: str) -> Iterator[Entry]:  # noqa: ARG001
    """List the whole directory with one request per page; `ls` would first look it up.

    The service has a parameter `start_from`. Its clients disagree on whether the name is relative
    to the prefix, and a wrong choice would hide the newest versions.
    """
    from azure.core.exceptions import ResourceNotFoundError
    from azure.storage.blob import BlobProperties

    container, prefix = split_directory(directory)

    async def list_blobs() -> list[Entry]:
        async with fs.service_client.get_container_client(container=container) as client:
            return [
                {
                    "name": f"{container}/{blob.name}",
                    "size": blob.size,
                    "type": "file",
                    "last_modified": blob.last_modified,
                    "etag": blob.etag,
                }
                async for blob in client.walk_blobs(name_starts_with=prefix, include=["metadata"])
                if isinstance(blob, BlobProperties) and not _is_directory(blob)
            ]

    try:
        from fsspec.asyn import sync  # local tables do not need fsspec

        yield from sync(fs.loop, list_blobs)
    except ResourceNotFoundError as error:
        raise FileNotFoundError(directory) from error


def _is_directory(blob: Any) -> bool:
    """Whether the blob represents a directory, in an account with a hierarchical namespace."""
    return (blob.metadata or {}).get("hdi_isfolder") == "true"


def _hadoop() -> Hadoop:
    from delta_ops.storage.backends.azure.hadoop import HADOOP  # only for Spark and Hadoop settings

    return HADOOP


AZURE = Backend(
    names=StoreNames(
        schemes=("abfss", "abfs", "az"),
        foreign_schemes=("wasb", "wasbs"),
        canonical_authority=_canonical_authority,
        service_of=_account_of,
        is_container_first=True,
        has_own_service=True,
    ),
    package="adlfs",
    extra="azure",
    passes_options_on=True,  # for Azure's many kinds of credentials
    option_names=option_names(
        (
            "account_name",
            "azure_storage_account_name azure_account_name azure_storage_account",
            keep_value,
        ),
        (
            "account_key",
            "azure_storage_account_key azure_storage_access_key azure_account_key "
            "azure_storage_master_key azure_storage_key access_key",
            keep_value,
        ),
        ("sas_token", "azure_storage_sas_token azure_storage_sas_key sas_key", keep_value),
        ("connection_string", "azure_storage_connection_string", keep_value),
        ("client_id", "azure_client_id azure_storage_client_id", keep_value),
        ("client_secret", "azure_client_secret azure_storage_client_secret", keep_value),
        (
            "tenant_id",
            "azure_tenant_id azure_storage_tenant_id azure_storage_authority_id azure_authority_id",
            keep_value,
        ),
        ("anon", "azure_skip_signature skip_signature", is_true),
    ),
    variable_prefixes=("azure_",),
    option_hint="adlfs: account_name, account_key, connection_string, ...",
    drop_credentials=_drop_credentials,
    exclusive_create=create.EXCLUSIVE_CREATE,
    is_atomic=True,
    address_of=lambda fs: fs.service_client.primary_endpoint,
    slow_address_of=lambda fs: fs.service_client.url,
    list_from=_list_from,
    is_misread=lambda path: "?" in path,
    hadoop=_hadoop,
)
