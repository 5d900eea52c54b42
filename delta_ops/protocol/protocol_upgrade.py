"""Protocol upgrade: the protocol of a table that is to have more features, or one less.

Source: PROTOCOL.md, "Protocol Evolution", "Table Features" and "Table Features for New and Existing
Tables".

A protocol is kept as low as it can be. Features that are exactly those of a version from before
features are said by that version, so that a table of those days stays one; all others are listed,
and with them those that the versions stood for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.features import (
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    feature_of,
    features_of_readers,
    features_of_writers,
)

OLDEST = Protocol(min_reader_version=1, min_writer_version=2)
"""The protocol of a new table that asks for nothing."""
_LEGACY_WRITER_VERSIONS = range(2, FEATURES_WRITER_VERSION)


def add_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The protocol with these features and all that they require; itself if it has them.

    Args:
        protocol: One that is supported: of no version to come.
        names: Features that there are.
    """
    there = dict.fromkeys((*features_of_writers(protocol), *features_of_readers(protocol)))
    wanted = there | dict.fromkeys(name for each in names for name in _find_required(each))
    if wanted == there:
        return protocol
    if protocol.min_writer_version < FEATURES_WRITER_VERSION:
        legacy = _legacy_protocol(wanted)
        if legacy is not None:
            return legacy
    return _listing_protocol(protocol, wanted)


def remove_feature(protocol: Protocol, name: str) -> Protocol:
    """The protocol without a feature, as low as it can be; itself if it has it not.

    Args:
        protocol: One that is supported: of no version to come.
        name: One that no other feature of the protocol requires.
    """
    there = dict.fromkeys((*features_of_writers(protocol), *features_of_readers(protocol)))
    if name not in there:
        return protocol
    wanted = [each for each in there if each != name]
    return _legacy_protocol(wanted) or _listing_protocol(protocol, wanted)


def _legacy_protocol(wanted: Collection[str]) -> Protocol | None:
    """The protocol from before features that has exactly these, if there is one."""
    reader = max((feature_of(name).legacy_reader_version or 1 for name in wanted), default=1)
    for writer in _LEGACY_WRITER_VERSIONS:
        legacy = Protocol(min_reader_version=reader, min_writer_version=writer)
        if set(wanted) == {*features_of_writers(legacy)}:
            return legacy
    return None


def _listing_protocol(protocol: Protocol, wanted: Iterable[str]) -> Protocol:
    names = tuple(wanted)
    for_readers = tuple(name for name in names if feature_of(name).for_readers)
    reader = _reader_version(protocol, for_readers)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=for_readers if reader == FEATURES_READER_VERSION else None,
        writer_features=names,
    )


def _reader_version(protocol: Protocol, names: tuple[str, ...]) -> int:
    """The version that tells readers of these features, be it one from before features."""
    legacy = {feature_of(name).legacy_reader_version for name in names}
    if protocol.min_reader_version < FEATURES_READER_VERSION and len(legacy) <= 1:
        return next(iter(legacy), 1) or FEATURES_READER_VERSION
    return FEATURES_READER_VERSION if names else 1


def _find_required(name: str) -> Iterator[str]:
    for required in feature_of(name).requires:
        yield from _find_required(required)
    yield name
