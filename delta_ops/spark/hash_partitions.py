"""Hash partitions: numbers that Spark's hash partitioning sends to a chosen partition.

Source: `HashPartitioning` of Spark, the hash `Murmur3Hash` with the seed 42 modulo the partitions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 42
_CANDIDATES_OF_PARTITION = 64
"""Candidates tried at once, for each partition; a missing partition gets further candidates."""


def hash_of(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's hash of ints, as the SQL function `hash` returns it."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotate(mixed, 15) * np.uint32(0x1B873593)
        found = _rotate(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        found ^= np.uint32(4)  # the length of an int in bytes
        found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (found ^ (found >> np.uint32(16))).view(np.int32)


def numbers_by_hash(num_partitions: int) -> npt.NDArray[np.int32]:
    """For each partition, an int that Spark's hash partitioning sends there."""
    chosen = np.full(num_partitions, -1, np.int32)
    first, step = 0, _CANDIDATES_OF_PARTITION * num_partitions
    while (chosen < 0).any():
        candidates = np.arange(first, first + step, dtype=np.int32)
        chosen[np.mod(hash_of(candidates), num_partitions)] = candidates
        first += step
    return chosen


def _rotate(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
