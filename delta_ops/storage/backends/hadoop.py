"""Hadoop: a store's connector in Hadoop, and its settings from and to the client's options. Pure.

To Hadoop, for Spark:

1. Settings are for one store alone: for a bucket on S3, for an account or container on Azure.
   Hadoop's connector for Google Cloud Storage has one set of settings for all buckets.
2. An option that decides the place or the identity, and that Hadoop does not have, is rejected by
   its name. Options of how a client works, such as its buffers, are left out.
3. Without credentials, Hadoop gets the credentials of the environment, as the client does. Else
   it looks for them where the client would: in files, in a container, in a machine.

From Hadoop, where a user gives `fs.s3a.access.key` and its like as options:

1. A setting of one bucket or account counts for it alone, and before a setting of all.
2. A setting that decides the place or the identity is translated, or rejected by its name.
3. Settings of how Hadoop's clients work, such as their buffers and retries, are left out, and so
   are settings of other stores, since a configuration of Hadoop is for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.backends.option_names import is_true

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopStore:
    """One bucket or container as Hadoop knows it."""

    root: str
    """URI of the bucket or container, without a slash at its end."""
    place: str
    """The endpoint, as far as it is not the provider's own."""
    settings: Mapping[str, str] = field(repr=False)
    """Settings by their full names; credentials are among them."""
    unless: Mapping[str, str] = field(default_factory=dict)
    """Settings that are left out where the session sets another one, by its name."""


class GivenOptions:
    """Options of a store; options that nobody has taken are rejected in the end."""

    def __init__(self, uri: str, root: str, options: Options, outer: str = "") -> None:
        self.uri, self.root, self._outer = uri, root, outer
        self._left = {name: value for name, value in options.items() if value is not None}

    def take(self, *names: str) -> Any:
        """The value of the first of the names that has one."""
        found = [self._left.pop(name, None) for name in names]
        return next((value for value in found if value is not None), None)

    def options_in(self, name: str) -> GivenOptions:
        """The options within an option."""
        return GivenOptions(self.uri, self.root, self.take(name) or {}, f"{name}.")

    def refuse_rest(self, harmless: str) -> None:
        """Reject an option that is left and not among the names in `harmless`."""
        for name in self._left:
            if name not in harmless.split():
                raise self.refusal(name)

    def refusal(self, name: str, cure: str = "leave it out") -> InvalidRequestError:
        """The error for an option."""
        return InvalidRequestError(
            f"{self.uri}: the option {self._outer}{name} has no counterpart in Hadoop's file "
            f"systems, so that Spark could not honour it; {cure}, or configure {self.root} in the "
            "session by settings of Hadoop, which count instead of the options"
        )


class GivenSettings:
    """Settings of Hadoop for one store; settings that nobody has taken are rejected in the end."""

    def __init__(self, prefix: str, settings: Mapping[str, Any]) -> None:
        self._prefix = prefix
        self._left = {name: value for name, value in settings.items() if value is not None}

    def take(self, *names: str) -> str | None:
        """The value of the first of the names that has one."""
        found = [self._left.pop(name, None) for name in names]
        return next((str(value) for value in found if value is not None), None)

    def take_truth(self, name: str) -> bool | None:
        """Whether the setting is true; None if it is not set."""
        value = self.take(name)
        return None if value is None else is_true(f"{self._prefix}{name}", value)

    def refusal(self, name: str, cure: str) -> InvalidRequestError:
        """The error for a setting."""
        return InvalidRequestError(
            f"The setting {self._prefix}{name} of Hadoop has no counterpart in the client of the "
            f"store; {cure}"
        )

    def refuse_rest(self, harmless: str) -> None:
        """Reject a setting that is left and does not match the expression `harmless`."""
        for name in self._left:
            if not re.fullmatch(harmless, name):
                raise self.refusal(
                    name, "leave it out, or say it by the storage_options that the client has"
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
    """Takes the user's URI and settings of Hadoop; returns options of the client."""
    few_tries: Mapping[str, str] = field(default_factory=dict)
    """Settings of a client that soon gives up a store that cannot be reached."""
