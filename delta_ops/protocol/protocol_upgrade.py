"""Protocol upgrade: add features to a table's protocol, or remove one.

Source: PROTOCOL.md, "Protocol Evolution", "Table Features" and "Table Features for New and Existing
Tables".

A protocol gets the lowest possible versions. If a legacy version implies exactly the needed
features, the protocol uses that version, so that old clients can still use the table. Otherwise the
protocol lists all features, including the features that its old versions implied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.features import (
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    feature_of,
    features_of_readers,
    features_of_writers,
)

OLDEST = Protocol(min_reader_version=1, min_writer_version=2)
"""The protocol of a new table without special requirements."""
_LEGACY_WRITER_VERSIONS = range(2, FEATURES_WRITER_VERSION)


def features_of_versions(reader: int, writer: int) -> tuple[str, ...]:
    """The features of legacy protocol versions.

    Reader version 3 and writer version 7 list their features and have none by themselves.

    Raises:
        InvalidRequestError: A version does not exist, or the two versions do not fit together.
    """
    if not (1 <= reader <= FEATURES_READER_VERSION and 1 <= writer <= FEATURES_WRITER_VERSION):
        raise InvalidRequestError(
            f"there is no protocol of reader version {reader} and writer version {writer}; "
            f"readers have 1 to {FEATURES_READER_VERSION}, writers 1 to {FEATURES_WRITER_VERSION}"
        )
    requested = Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=() if reader == FEATURES_READER_VERSION else None,
        writer_features=() if writer == FEATURES_WRITER_VERSION else None,
    )
    of_writers, of_readers = features_of_writers(requested), features_of_readers(requested)
    if reader < FEATURES_READER_VERSION and writer < FEATURES_WRITER_VERSION:
        reader_features = {
            each for each in (*of_writers, *of_readers) if feature_of(each).for_readers
        }
        if any((each in of_writers) != (each in of_readers) for each in reader_features):
            raise InvalidRequestError(
                f"reader version {reader} does not go with writer version {writer}: "
                f"{', '.join(sorted(reader_features))} exists in only one of them; give 1 with 2 "
                "to 4, or 2 with 5 or 6, or add features by their names"
            )
    return (*of_writers, *of_readers)


def add_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The protocol with these features and their requirements; unchanged if it has them.

    Args:
        protocol: A supported protocol, of no future version.
        names: Known features.
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
    """The protocol without a feature, at the lowest versions; unchanged if it lacks the feature.

    Args:
        protocol: A supported protocol, of no future version.
        name: A feature that no other feature of the protocol requires.
    """
    there = dict.fromkeys((*features_of_writers(protocol), *features_of_readers(protocol)))
    if name not in there:
        return protocol
    wanted = [each for each in there if each != name]
    return _legacy_protocol(wanted) or _listing_protocol(protocol, wanted)


def _legacy_protocol(wanted: Collection[str]) -> Protocol | None:
    """The legacy protocol that implies exactly these features, if any."""
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
    """The lowest reader version that covers these features."""
    legacy = {feature_of(name).legacy_reader_version for name in names}
    if protocol.min_reader_version < FEATURES_READER_VERSION and len(legacy) <= 1:
        return next(iter(legacy), 1) or FEATURES_READER_VERSION
    return FEATURES_READER_VERSION if names else 1


def _find_required(name: str) -> Iterator[str]:
    for required in feature_of(name).requires:
        yield from _find_required(required)
    yield name
