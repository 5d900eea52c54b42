"""Attributes: common YAML attributes of the components, and errors with file and line.

Mistakes are reported when the file is loaded. Loading reads no store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel, ValidationError

from delta_ops.components.asset_keys import is_nameable
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.orchestration.dagster_compat import yaml_place
from delta_ops.orchestration.dagster_versions import KEY_PUNCTUATION, PROJECT_ROOT
from delta_ops.orchestration.storage_options import config_options, shows_secret
from delta_ops.storage.addresses import local_path_of, validate_remote
from delta_ops.storage.paths import split_uri


class AttributeRefusedError(InvalidRequestError):
    """The value of an attribute of a component is invalid."""

    def __init__(self, attribute: str, reason: str, place: str | None = None) -> None:
        """Create the error for an attribute.

        Args:
            attribute: Its name; names of nested attributes are joined by dots.
            place: File and line; None for a component created in Python.
        """
        where = attribute if place is None else f"{place}: {attribute}"
        super().__init__(f"{where}: {reason}")
        self.attribute, self.reason, self.place = attribute, reason, place
        self.args = (attribute, reason, place)


class PlacedAttributes(dg.Resolvable, dg.Model):
    """Attributes with file and line in their errors."""

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Any:
        """Build the component from its YAML.

        Raises:
            AttributeRefusedError: An attribute is invalid.
        """
        try:
            return super().resolve_from_model(context, model)
        except AttributeRefusedError as error:
            attribute, reason = error.attribute, error.reason
        except ValidationError as error:  # pydantic's message would repeat the resolved value
            first = error.errors()[0]
            attribute, reason = ".".join(map(str, first["loc"])), first["msg"]
        path = [int(part) if part.isdecimal() else part for part in attribute.split(".")]
        raise AttributeRefusedError(attribute, reason, yaml_place(context, path))


@contextmanager
def naming(attribute: str, place: str | None = None) -> Iterator[None]:
    """Context that adds the attribute's name to errors of delta_ops and of Dagster."""
    try:
        yield
    except (DeltaOpsError, dg.DagsterInvalidDefinitionError) as error:
        raise AttributeRefusedError(attribute, str(error), place) from error


def validate_key(attribute: str, parts: Sequence[str]) -> None:
    """Reject a key that Dagster cannot convert to a name.

    Raises:
        AttributeRefusedError: It has other characters, or is a reserved word.
    """
    if not is_nameable(parts):
        punctuation = f"{', '.join(KEY_PUNCTUATION[:-1])} and {KEY_PUNCTUATION[-1]}"
        raise AttributeRefusedError(
            attribute,
            f"Dagster cannot use the key {'/'.join(parts)!r}; use letters, digits, {punctuation} "
            "with / between the parts, and no Python keyword",
        )


def validate_name(attribute: str, name: str) -> None:
    """Reject a prefix for names of jobs and sensors with invalid characters.

    Raises:
        AttributeRefusedError: It has characters other than letters, digits and "_".
    """
    if not re.fullmatch(r"\w+", name, re.ASCII):
        reason = f"{name!r} is the prefix of job and sensor names; use letters, digits and _"
        raise AttributeRefusedError(attribute, reason)


def validate_cron(attribute: str, cron: str, timezone: str = "UTC") -> None:
    """Reject an invalid cron expression.

    Raises:
        AttributeRefusedError: The expression or the time zone is invalid.
    """
    try:
        dg.ScheduleDefinition(
            name="any", job_name="any", cron_schedule=cron, execution_timezone=timezone
        )
    except dg.DagsterInvalidDefinitionError as error:
        reason = (
            f"{cron!r} in the zone {timezone!r} is not a cron schedule; write it like '0 6 * * *'"
        )
        raise AttributeRefusedError(attribute, reason) from error


def validate_address(attribute: str, address: str) -> None:
    """Reject an address that is relative or contains a secret.

    Raises:
        AttributeRefusedError: It is relative, contains a password or a signature, or is empty.
    """
    if shows_secret(address):
        raise AttributeRefusedError(
            attribute,
            "it contains a password or a signature, which Dagster's UI would show; give the "
            "secret in storage_options, as {env: NAME}",
        )
    scheme, path = split_uri(address)
    if not scheme and not os.path.isabs(os.path.expanduser(path)):
        raise AttributeRefusedError(
            attribute,
            f"{address!r} is a relative path, but code servers and runs start in different "
            f"folders; give a URI or an absolute path, such as '{PROJECT_ROOT}/"
            f"{address.removeprefix('./')}'",
        )
    with naming(attribute):
        if local_path_of(address) is None:
            validate_remote(address)


def validate_pattern(attribute: str, pattern: str) -> None:
    """Reject a pattern that matches no path below a root.

    Raises:
        AttributeRefusedError: It begins or ends with a slash, or a part is not a folder name.
    """
    parts = pattern.split("/")
    if len(parts) > 1 and any(not part or part in (".", "..") for part in parts):
        raise AttributeRefusedError(
            attribute,
            f"{pattern!r} cannot match a path below the root; give a pattern such as 'sales/*', "
            "without a slash at the start or the end",
        )


def validate_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert storage options for a `TableRef`, with secrets as names of variables.

    Raises:
        AttributeRefusedError: A secret is in plain text, or a value has no YAML form.
    """
    try:
        return config_options(options)
    except InvalidRequestError as error:
        reason = f"{error}; in YAML, write it as {{env: NAME}}"
        raise AttributeRefusedError("storage_options", reason) from error


def _resolve_options(context: dg.ResolutionContext, value: Any) -> Any:
    """Resolve templates in options; Dagster's resolver would turn digit strings into numbers."""
    match value:
        case str() if "{{" in value or "{%" in value:
            return context.resolve_value(value)
        case dict():
            return {n: _resolve_options(context.at_path(n), each) for n, each in value.items()}
        case list():
            return [_resolve_options(context.at_path(n), each) for n, each in enumerate(value)]
    return value


StorageOptions = Annotated[
    dict[str, Any],
    dg.Resolver(
        _resolve_options,
        model_field_type=dict[str, Any],
        description=(
            "Options of fsspec's file system. Secrets come from the environment of the processes "
            "that open the tables, as {env: NAME}; a literal secret is rejected. Without "
            "options, clients use the environment."
        ),
        examples=[
            {
                "key": {"env": "LAKE_ACCESS_KEY_ID"},
                "secret": {"env": "LAKE_SECRET_ACCESS_KEY"},
                "client_kwargs": {"endpoint_url": "https://minio.example:9000"},
            }
        ],
    ),
]
