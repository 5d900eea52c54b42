"""Storage configs: the store settings of dagster-deltalake and dagster-delta. No I/O.

Their fields are options of the Rust crate object_store, and are translated to `storage_options`.
Credentials may be `dg.EnvVar`s.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.azure import AZURE
from delta_ops.storage.backends.gcs import GCS
from delta_ops.storage.backends.s3 import S3


class StorageConfig:
    """Options of a store; each kind of store has a subclass."""

    options_by_name: ClassVar[Mapping[str, str]] = {}
    """Our option for each option of object_store."""
    needless: ClassVar[frozenset[str]] = frozenset()
    """Options that delta_ops accepts and does not need."""
    bucket_name: ClassVar[str] = ""
    """The option that must equal the bucket in the address."""
    schemes: ClassVar[frozenset[str]] = frozenset()
    """URI schemes of this kind of store; empty: any scheme."""
    hint: ClassVar[str] = ""

    def __init__(self, **options: Any) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._options)})"

    def dict(self) -> Mapping[str, Any]:
        """The options as they were given, for other libraries."""
        return {**self._options}

    def model_dump(self) -> Mapping[str, Any]:
        """The options as they were given, by the name that pydantic uses."""
        return self.dict()

    def str_dict(self) -> Mapping[str, str]:
        """The options as strings, for other libraries."""
        texts: dict[str, str] = {}
        for name, value in self._options.items():
            parts = asdict(value).items() if isinstance(value, BackoffConfig) else ()
            texts |= {f"{name}.{part}": str(each) for part, each in parts if each is not None}
            texts |= {} if isinstance(value, BackoffConfig) else {name: str(value)}
        return texts

    def storage_options(self, root: object) -> Mapping[str, Any]:
        """Translate to `storage_options`, and validate the address of the tables.

        Raises:
            InvalidRequestError: The address belongs to another store or another bucket, or an
                option is not supported.
        """
        self._validate_options()
        if isinstance(root, str) and not isinstance(root, dg.EnvVar):
            self._validate_root(root)
        return {
            self.options_by_name[name]: value
            for name, value in self._options.items()
            if name in self.options_by_name
        }

    def _validate_options(self) -> None:
        known = {*self.options_by_name, *self.needless, self.bucket_name, "provider"}
        for name, value in self._options.items():
            if name not in known and value is not False:
                raise InvalidRequestError(
                    f"{type(self).__name__} has no option {name} here; known are "
                    f"{', '.join(self.options_by_name) or 'none'}. {self.hint}".rstrip()
                )

    def _validate_root(self, root: str) -> None:
        address = urlsplit(root)
        if self.schemes and address.scheme not in self.schemes:
            raise InvalidRequestError(
                f"storage_options are {type(self).__name__}, but root_uri is not in such a store; "
                f"begin it with {' or '.join(f'{each}://' for each in sorted(self.schemes))}"
            )
        bucket = self._options.get(self.bucket_name)
        if bucket is not None and bucket != address.netloc.partition("@")[0]:
            raise InvalidRequestError(
                f"{type(self).__name__} has another {self.bucket_name} than root_uri; leave "
                f"{self.bucket_name} out"
            )


class LocalConfig(StorageConfig):
    """No options: for a local disk, or a store that is configured by the environment."""


class S3Config(StorageConfig):
    """Options of S3."""

    options_by_name: ClassVar[Mapping[str, str]] = {
        "access_key_id": "key",
        "secret_access_key": "secret",
        "token": "token",
        "region": "aws_region",
        "endpoint": "endpoint_url",
        "virtual_hosted_style_request": "aws_virtual_hosted_style_request",
    }
    # delta_ops creates commits with conditional puts, so it needs none of these options.
    needless = frozenset(
        {"allow_unsafe_rename", "AWS_S3_ALLOW_UNSAFE_RENAME", "copy_if_not_exists"}
    )
    bucket_name = "bucket"
    schemes = frozenset(S3.schemes)
    hint = (
        "Options of the client s3fs go into storage_options={...}; roles and instance profiles are "
        "found without any"
    )


class AzureConfig(StorageConfig):
    """Options of Azure Blob Storage and ADLS."""

    options_by_name: ClassVar[Mapping[str, str]] = {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_key": "sas_token",
        "client_id": "client_id",
        "client_secret": "client_secret",
        "tenant_id": "tenant_id",
    }
    bucket_name = "container_name"
    schemes = frozenset(AZURE.schemes)
    hint = "Options of the client adlfs go into storage_options={...}"


class GcsConfig(StorageConfig):
    """Options of Google Cloud Storage."""

    options_by_name: ClassVar[Mapping[str, str]] = {
        "service_account": "service_account",
        "service_account_key": "service_account_key",
        "application_credentials": "application_credentials",
    }
    bucket_name = "bucket"
    schemes = frozenset(GCS.schemes)
    hint = "Options of the client gcsfs go into storage_options={...}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffConfig:
    """Waits between the attempts of a request, in `ClientConfig`."""

    init_backoff: str | None = None
    max_backoff: str | None = None
    base: float | None = None


_TUNING = frozenset(
    {
        "backoff_config",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "max_retries",
        "OBJECT_STORE_CONCURRENCY_LIMIT",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "retry_timeout",
        "timeout",
        "user_agent",
    }
)
"""Options that decide how fast requests are, and when a client gives up."""


class ClientConfig(StorageConfig):
    """Options of the HTTP client. None has an effect; some are rejected."""

    # The endpoint's scheme decides between HTTP and HTTPS, and every commit is created exclusively.
    needless = frozenset({"allow_http", "MOUNT_ALLOW_UNSAFE_RENAME"}) | _TUNING
    hint = "Timeouts and proxies are options of fsspec's clients, in storage_options={...}"

    def _validate_options(self) -> None:
        super()._validate_options()
        tuning = [name for name in self._options if name in _TUNING]
        if tuning:
            warnings.warn(
                f"client_options have {', '.join(tuning)}, which changes nothing: delta_ops uses "
                f"fsspec's clients. {self.hint}",
                stacklevel=2,
            )


_PROVIDERS: Mapping[str, type[StorageConfig]] = {
    "local": LocalConfig,
    "s3": S3Config,
    "azure": AzureConfig,
    "gcs": GcsConfig,
}


def config_of_provider(options: Any) -> Any:
    """The storage config in a run config such as `{"s3": {"region": ...}}`; else the options."""
    if not isinstance(options, Mapping) or len(options) != 1:
        return options
    ((provider, settings),) = options.items()
    if provider not in _PROVIDERS or not isinstance(settings, Mapping):
        return options
    return _PROVIDERS[provider](**settings)
