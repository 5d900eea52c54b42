"""Storage options as Dagster's config holds them: a secret by the name of a variable, never itself.

Whoever may see Dagster's UI sees the config of resources: it stands in snapshots, GraphQL and the
launchpad. So `dg.EnvVar`s, at any depth, stay names until a table is opened, also in the process
that opens it, and a secret that is written out is refused. What is a secret is told by the names of
options, and by what gives itself away: addresses with a password or a signature, connection
strings, private keys. Here in config, `{"env": "NAME"}` is what Dagster makes of an `EnvVar`.
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
"""Also where names run together."""
_PLAIN_LAST_WORDS = frozenset(
    {"version", "type", "file", "path", "url", "uri", "endpoint", "timeout"}
)
"""What options of secrets say beside them: `signature_version`, `token_file`."""
_PLAIN_VALUES = frozenset({"", "true", "false", "anon", "cloud", "google_default", "cache"})
"""Texts that stand where a secret may: ways of gcsfs to come by a token, among others."""
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
    """Storage options as the config of a resource holds them.

    Raises:
        InvalidRequestError: They are no mapping, hold what config cannot, or a secret. No value is
            repeated.
    """
    if not isinstance(options, Mapping):
        raise InvalidRequestError(
            f"storage_options are of type {type(options).__name__}; give a mapping of options"
        )
    return {name: _config_value(each, (name,), False) for name, each in options.items()}


def validate_root(root: object) -> None:
    """Refuse a root that shows a secret.

    Raises:
        InvalidRequestError: It is an address with a password or a signature.
    """
    if shows_secret(root):
        raise InvalidRequestError(
            "root holds a password or a signature, and Dagster shows the config of a resource to "
            'everybody who sees its UI; give it as storage_options, or root=dg.EnvVar("NAME")'
        )


def resolve_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Storage options with the values of the environment in the place of their variables.

    Raises:
        InvalidRequestError: A variable is not set, or is no whole number where one is wanted.
    """
    return {name: _resolve(each, name) for name, each in options.items()}


def resolve_text(value: str, name: str) -> str:
    """A text, or the value of the variable that stands for it; `name` is that of the setting."""
    return str(_resolve(value, name))


def shows_secret(value: object) -> bool:
    """Whether a value gives itself away: an address with a password, a private key, ..."""
    # An EnvVar is a text, too: its own name.
    is_text = isinstance(value, str) and not isinstance(value, dg.EnvVar)
    return is_text and _SECRET_TEXT.search(str(value)) is not None


def _config_value(value: Any, path: tuple[str, ...], is_secret: bool) -> Any:
    if not all(isinstance(name, str) for name in path):
        raise InvalidRequestError(
            f"storage_options have a name of type {type(path[-1]).__name__}; give texts as names"
        )
    name = ".".join(path)
    is_secret = is_secret or _names_secret(path[-1])
    match value:
        case dg.EnvVar():
            return {"env": value.env_var_name}
        case _IntEnvVar():
            # Dagster itself would forget that a number is wanted.
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
                    f"the storage option {name} is a secret that is written out, and Dagster shows "
                    "the config of a resource to everybody who sees its UI; give "
                    'dg.EnvVar("NAME"), the name of an environment variable that holds it'
                )
            return value
    raise InvalidRequestError(
        f"the storage option {name} is of type {type(value).__name__}, which Dagster's config "
        "cannot hold; give texts, numbers, True, False, None, lists or mappings of these, or "
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
        # Not chained: Python's error repeats the value.
        raise InvalidRequestError(
            f"{name} is a whole number from the environment variable {variable}, which holds "
            "something else; set it to digits"
        ) from None


def _variable(variable: str, name: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise InvalidRequestError(
            f"{name} comes from the environment variable {variable}, which is not set in this "
            "process; set it where Dagster's code servers and runs start"
        )
    return value
