"""Storage options in Dagster's config: secrets appear only as names of environment variables.

Everybody who sees Dagster's UI sees the config of resources, in snapshots, GraphQL and the
launchpad. A `dg.EnvVar`, at any depth, therefore stays a name until a table is opened, and a
literal secret is rejected. A secret is recognized by the name of its option, or by its value: an
address with a password or a signature, a connection string, or a private key. Dagster stores an
`EnvVar` in config as `{"env": "NAME"}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import dagster as dg

from delta_ops.errors import InvalidRequestError

_IntEnvVar = type(dg.EnvVar.int(""))
_SECRET_WORDS = frozenset(
    {"key", "keys", "token", "tokens", "passwd", "pwd", "passphrase", "auth", "authorization"}
    | {"sas", "signature", "cookie"}
)
_SECRET_PARTS = (
    *("secret", "password", "credential", "connectionstring"),
    *("accesskey", "accountkey", "apikey", "privatekey"),
)
"""Parts of option names that mark a secret, even in the middle of a word."""
_PLAIN_LAST_WORDS = frozenset(
    {"version", "type", "file", "path", "url", "uri", "endpoint", "timeout"}
)
"""Last words of options that describe a secret: `signature_version`, `token_file`."""
_PLAIN_VALUES = frozenset({"", "true", "false", "anon", "cloud", "google_default", "cache"})
"""Values of secret options that are not secrets, such as the ways of gcsfs to get a token."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_KEY_FILE = re.compile(r"[/~.][\w./~-]*\.json")
_SECRET_TEXT = re.compile(
    r"://[^/\s@]*:[^/\s@]*@"
    r"|[?&](?:sig|signature|token|awsaccesskeyid|x-amz-[a-z-]+)="
    r"|(?:AccountKey|SharedAccessKey|SharedAccessSignature|Password|Pwd)\s*="
    r"|-----BEGIN|^(?:Bearer|Basic)\s",
    re.IGNORECASE,
)


def config_options(options: object) -> dict[str, Any]:
    """Convert storage options to the config of a resource.

    Raises:
        InvalidRequestError: The options are not a mapping, hold a value that config cannot hold, or
            hold a literal secret. The error repeats no value.
    """
    if not isinstance(options, Mapping):
        raise InvalidRequestError(
            f"storage_options are of type {type(options).__name__}; give a mapping of options"
        )
    return {name: _config_value(each, (name,), False) for name, each in options.items()}


def validate_root(root: object) -> None:
    """Reject a root that shows a secret.

    Raises:
        InvalidRequestError: The root is an address with a password or a signature.
    """
    if shows_secret(root):
        raise InvalidRequestError(
            "root contains a password or a signature, which Dagster's UI would show; give it in "
            'storage_options, as dg.EnvVar("NAME")'
        )


def resolve_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace environment variables in storage options by their values.

    Raises:
        InvalidRequestError: A variable is not set, or is not a whole number as required.
    """
    return {name: _resolve(each, name) for name, each in options.items()}


def resolve_text(value: str, name: str) -> str:
    """Replace an environment variable by its value; `name` is the setting, for errors.

    Raises:
        InvalidRequestError: The variable is not set, or the text is empty. As a location, it would
            be the root of the file system.
    """
    text = str(_resolve(value, name))
    if not text.strip():
        raise InvalidRequestError(
            f"{name} is empty; give a folder or a URI, and set the environment variable if it "
            "comes from one. Nothing was read or written"
        )
    return text


def shows_secret(value: object) -> bool:
    """Whether a value looks like a secret: an address with a password, a private key, ..."""
    # An EnvVar is a str that holds the variable's name.
    is_text = isinstance(value, str) and not isinstance(value, dg.EnvVar)
    return is_text and _SECRET_TEXT.search(str(value)) is not None


def _config_value(value: Any, path: tuple[str, ...], is_secret: bool) -> Any:
    if not all(isinstance(name, str) for name in path):
        raise InvalidRequestError(
            f"storage_options have a name of type {type(path[-1]).__name__}; give strings as names"
        )
    name = ".".join(path)
    is_secret = is_secret or _names_secret(path[-1])
    match value:
        case dg.EnvVar():
            return {"env": value.env_var_name}
        case _IntEnvVar():
            # Dagster's own config would lose the type.
            return {"env": value.env_var_name, "type": "int"}
        case {"env": str(), **rest} if rest in ({}, {"type": "int"}):
            return dict(value)
        case Mapping():
            return {each: _config_value(value[each], (*path, each), is_secret) for each in value}
        case list() | tuple():
            return [_config_value(each, path, is_secret) for each in value]
        case None | bool():
            return value
        case str() | int() | float():
            if _is_literal_secret(value, is_secret):
                raise InvalidRequestError(
                    f"the storage option {name} is a literal secret, which Dagster's UI would "
                    'show; give dg.EnvVar("NAME"), the name of an environment variable with the '
                    "secret"
                )
            return value
    raise InvalidRequestError(
        f"the storage option {name} is of type {type(value).__name__}, which Dagster's config "
        "cannot hold; give strings, numbers, True, False, None, lists or mappings of these, or "
        "dg.EnvVar"
    )


def _is_literal_secret(value: object, is_secret: bool) -> bool:
    if isinstance(value, str) and (value.lower() in _PLAIN_VALUES or _KEY_FILE.fullmatch(value)):
        return False
    return is_secret or shows_secret(value)


def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if "kms" in name.lower() or (words and words[-1] in _PLAIN_LAST_WORDS):
        return False
    joined = "".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(each in joined for each in _SECRET_PARTS)


def _resolve(value: Any, name: str) -> Any:
    match value:
        case dg.EnvVar():
            return _variable(value.env_var_name, name)
        case _IntEnvVar():
            return _whole_number(value.env_var_name, name)
        case {"env": str(variable), "type": "int", **rest} if not rest:
            return _whole_number(variable, name)
        case {"env": str(variable), **rest} if not rest:
            return _variable(variable, name)
        case Mapping():
            return {each: _resolve(value[each], f"{name}.{each}") for each in value}
        case list():
            return [_resolve(each, name) for each in value]
        case tuple():
            return tuple(_resolve(each, name) for each in value)
    return value


def _whole_number(variable: str, name: str) -> int:
    text = _variable(variable, name)
    try:
        return int(text)
    except ValueError:
        # Not chained, because Python's error repeats the value.
        raise InvalidRequestError(
            f"{name} is a whole number from the environment variable {variable}, whose value is "
            "not a number; set it to digits"
        ) from None


def _variable(variable: str, name: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InvalidRequestError(
            f"{name} comes from the environment variable {variable}, which is not set in this "
            "process; set it where Dagster's code servers and runs start"
        )
    return value
