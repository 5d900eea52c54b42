"""Hadoop connector: converts options of a store's client to Hadoop settings and back. Pure.

To Hadoop, for Spark:

1. Settings apply to one store alone: to a bucket on S3, to an account or container on Azure.
   Hadoop's connector for Google Cloud Storage has one set of settings for all buckets.
2. An option that determines the location or the identity and has no counterpart in Hadoop is
   rejected by its name. Options for the way a client works, such as its buffers, are left out.
3. Without credentials, Hadoop gets the credentials of the environment, as the client does. If there
   are none, it looks where the client would: in files, in a container, on a machine.

From Hadoop, if a user gives `fs.s3a.access.key` and similar names as options:

1. A setting of one bucket or account applies to it alone, and overrides a setting for all.
2. A setting that determines the location or the identity is translated, or rejected by its name.
3. Settings for the way Hadoop's clients work, such as buffers and retries, are left out. Settings
   of other stores are left out too, since a Hadoop configuration covers all stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.storage.backends.option_names import is_true

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopStore:
    """One bucket or container with its Hadoop settings."""

    root: str
    """URI of the bucket or container, without a trailing slash."""
    place: str
    """The endpoint; "" for the provider's own."""
    settings: Mapping[str, str] = field(repr=False)
    """Settings by their full names, including credentials."""
    unless: Mapping[str, str] = field(default_factory=dict)
    """Settings to leave out if the session sets another setting: maps names to the other names."""


class RemainingOptions:
    """A user's options for a store; options that no code takes are rejected at the end."""

    def __init__(self, uri: str, root: str, options: Options, outer: str = "") -> None:
        self.uri, self.root, self._outer = uri, root, outer
        self._left = {name: value for name, value in options.items() if value is not None}

    def take(self, *names: str) -> Any:
        """Remove the options with these names, and return the first value that is set."""
        found = [self._left.pop(name, None) for name in names]
        return next((value for value in found if value is not None), None)

    def options_in(self, name: str) -> RemainingOptions:
        """Remove an option that is a mapping, such as `client_kwargs`; return its entries."""
        return RemainingOptions(self.uri, self.root, self.take(name) or {}, f"{name}.")

    def refuse_rest(self, harmless: str) -> None:
        """Reject any remaining option that is not named in `harmless`."""
        for name in self._left:
            if name not in harmless.split():
                raise self.refusal(name)

    def refusal(self, name: str, cure: str = "leave it out") -> InvalidRequestError:
        """The error for an option without a counterpart."""
        return InvalidRequestError(
            f"{self.uri}: the option {self._outer}{name} has no equivalent in Hadoop's file "
            f"systems, so Spark cannot apply it; {cure}, or configure {self.root} in the session "
            "with Hadoop settings, which take precedence over the options"
        )


class RemainingSettings:
    """Hadoop settings for one store; settings that no code takes are rejected at the end."""

    def __init__(self, prefix: str, settings: Mapping[str, Any]) -> None:
        self._prefix = prefix
        self._left = {name: value for name, value in settings.items() if value is not None}

    def take(self, *names: str) -> str | None:
        """Remove the settings with these names, and return the first value that is set."""
        found = [self._left.pop(name, None) for name in names]
        return next((str(value) for value in found if value is not None), None)

    def take_flag(self, name: str) -> bool | None:
        """Remove a boolean setting and return its value; None if it is not set."""
        value = self.take(name)
        return None if value is None else is_true(f"{self._prefix}{name}", value)

    def refusal(self, name: str, cure: str) -> InvalidRequestError:
        """The error for a setting without a counterpart."""
        return InvalidRequestError(
            f"The setting {self._prefix}{name} of Hadoop has no equivalent in the client of the "
            f"store; {cure}"
        )

    def refuse_rest(self, harmless: str) -> None:
        """Reject any remaining setting that does not match the expression `harmless`."""
        for name in self._left:
            if not re.fullmatch(harmless, name):
                raise self.refusal(
                    name, f"leave it out, or use the {option('storage_options')} of the client"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hadoop:
    """Hadoop's connector for one store."""

    connector: str
    """Name of the connector for `delta_ops.spark.packages`."""
    file_system: str
    """Java class of the connector."""
    root: Callable[[str, Options, Mapping[str, str]], str]
    """Takes the user's URI, the client's options and the environment.

    Returns the URI of the bucket or container; raises `InvalidRequestError` if Hadoop cannot name
    it.
    """
    store: Callable[[str, str, Options, Mapping[str, str], str | None], HadoopStore]
    """Takes the user's URI without credentials, the root, options, environment and endpoint."""
    settings_pattern: Callable[[str], str]
    """Takes a root; returns a regular expression of all settings for it."""
    client_options: Callable[[str, Options], dict[str, Any]]
    """Takes the user's URI and Hadoop settings; returns options of the client."""
    few_tries: Mapping[str, str] = field(default_factory=dict)
    """Settings for a client that quickly gives up an unreachable store."""
