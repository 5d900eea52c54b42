"""Option names: what stores are opened with, by the names that other programs know. Pure.

`storage_options` are those of the client that fsspec has for a store: s3fs, gcsfs or adlfs. Most
users know the names of the environment and of object_store, which deltalake and polars take, in
capitals or small letters. These are put into the client's words. A name of that kind without such a
word is refused, with the names that are understood, since the client would fail with a message of
its own. Names of the client's own are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import InvalidRequestError

Options = Mapping[str, Any]

_FOREIGN = ("aws_", "google_", "gcp_", "azure_")
"""How names begin that are no client's of fsspec."""
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def client_options(scheme: str, options: Options) -> dict[str, Any]:
    """Options by the names of the client that opens this scheme.

    Raises:
        InvalidRequestError: A name is not understood, two names give one option different values,
            or a value cannot be what its name says. No value is repeated.
    """
    names = _NAMES.get(scheme)
    if names is None:
        return dict(options)
    found: dict[str, Any] = {}
    given_by: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(name, str):
            raise InvalidRequestError(
                f"The name of an option of the store is of type {type(name).__name__}; give a text"
            )
        known = names.get(name.lower())
        if known is None and name.lower().startswith(_FOREIGN):
            raise _unknown_option_error(name, scheme, names)
        option, read = known or (name, _keep_value)
        if option == "":  # it asks for what is so anyway
            read(name, value)
            continue
        if option in found and found[option] != read(name, value):
            raise InvalidRequestError(
                f"The options {given_by[option]} and {name} of the store say two things; leave one "
                "of them out"
            )
        found[option], given_by[option] = read(name, value), name
    return _nest(found, options)


def _nest(found: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Options such as `client_kwargs.verify` at their place; what stands there already wins."""
    nested: dict[str, Any] = {name: found[name] for name in found if "." not in name}
    for name, value in found.items():
        outer, dot, inner = name.partition(".")
        if dot and outer in _OUTER:
            nested[outer] = {
                inner: value,
                **(options.get(outer) or {}),
                **(nested.get(outer) or {}),
            }
        elif dot:
            nested[name] = value
    return nested


def _unknown_option_error(name: str, scheme: str, names: Mapping[str, Any]) -> InvalidRequestError:
    known = ", ".join(each for each in names if each.startswith(_FOREIGN))
    return InvalidRequestError(
        f"The option {name} is not understood for {scheme}; give one of {known}, or an option of "
        f"fsspec's client ({_CLIENTS[scheme]})"
    )


def _keep_value(_name: str, value: Any) -> Any:
    return value


def is_true(name: str, value: Any) -> bool:
    """Whether the value of an option says yes.

    Raises:
        InvalidRequestError: It says neither yes nor no.
    """
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise InvalidRequestError(f"The option {name} of the store must be true or false")
    return text in _TRUE


def _require_true(name: str, value: Any) -> None:
    if not is_true(name, value):
        raise InvalidRequestError(
            f"The option {name} of the store cannot be false, since the endpoint's scheme says "
            "whether HTTPS is used; leave it out"
        )


def _anonymous_token(name: str, value: Any) -> str | None:
    return "anon" if is_true(name, value) else None


def _key(name: str, value: Any) -> Any:
    """A service account's key, as the text of its file."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidRequestError(
            f"The option {name} of the store must be the JSON text of a service account's key; "
            "give the path of its file as GOOGLE_APPLICATION_CREDENTIALS"
        ) from None


def _addressing(name: str, value: Any) -> dict[str, str]:
    return {"addressing_style": "virtual" if is_true(name, value) else "path"}


_Reader = Callable[[str, Any], Any]
_OUTER = frozenset({"client_kwargs", "config_kwargs"})


def _names(*ways: tuple[str, str, _Reader]) -> dict[str, tuple[str, _Reader]]:
    """The option by each of its names, of which there are several in a text."""
    return {name: (option, read) for option, names, read in ways for name in names.split()}


_S3 = _names(
    ("key", "aws_access_key_id access_key_id", _keep_value),
    ("secret", "aws_secret_access_key secret_access_key", _keep_value),
    ("token", "aws_session_token session_token aws_token", _keep_value),
    ("endpoint_url", "aws_endpoint_url aws_endpoint_url_s3 aws_endpoint endpoint", _keep_value),
    (
        "client_kwargs.region_name",
        "aws_region aws_default_region region region_name",
        _keep_value,
    ),
    ("client_kwargs.verify", "aws_ca_bundle", _keep_value),
    ("profile", "aws_profile", _keep_value),
    ("anon", "aws_skip_signature skip_signature", is_true),
    ("requester_pays", "aws_request_payer aws_requester_pays", is_true),
    ("config_kwargs.s3", "aws_virtual_hosted_style_request", _addressing),
    ("", "aws_allow_http allow_http", _require_true),
)
_GCS = _names(
    (
        "token",
        "google_application_credentials application_credentials google_service_account "
        "google_service_account_path service_account service_account_path",
        _keep_value,
    ),
    ("token", "google_service_account_key service_account_key", _key),
    ("token", "google_skip_signature skip_signature", _anonymous_token),
    ("project", "google_cloud_project google_project_id google_project", _keep_value),
    ("endpoint_url", "google_base_url google_endpoint_url", _keep_value),
)
_AZURE = _names(
    (
        "account_name",
        "azure_storage_account_name azure_account_name azure_storage_account",
        _keep_value,
    ),
    (
        "account_key",
        "azure_storage_account_key azure_storage_access_key azure_account_key "
        "azure_storage_master_key azure_storage_key access_key",
        _keep_value,
    ),
    ("sas_token", "azure_storage_sas_token azure_storage_sas_key sas_key", _keep_value),
    ("connection_string", "azure_storage_connection_string", _keep_value),
    ("client_id", "azure_client_id azure_storage_client_id", _keep_value),
    ("client_secret", "azure_client_secret azure_storage_client_secret", _keep_value),
    (
        "tenant_id",
        "azure_tenant_id azure_storage_tenant_id azure_storage_authority_id azure_authority_id",
        _keep_value,
    ),
    ("anon", "azure_skip_signature skip_signature", is_true),
)
_NAMES: Mapping[str, Mapping[str, tuple[str, _Reader]]] = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GCS),
    **dict.fromkeys(("abfs", "abfss", "az"), _AZURE),
}
_CLIENTS: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a"), "s3fs: key, secret, token, endpoint_url, client_kwargs, ..."),
    **dict.fromkeys(("gs", "gcs"), "gcsfs: token, project, endpoint_url, ..."),
    **dict.fromkeys(
        ("abfs", "abfss", "az"), "adlfs: account_name, account_key, connection_string, ..."
    ),
}
