"""Deletion vectors: decoding restores the encoded rows, or rejects the bytes."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from delta_ops.errors import LogPathError
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vectors import (
    BLOCK_BITS,
    MalformedVectorError,
    blocks_of,
    chosen_rows,
    decode_inline,
    decode_stored,
    is_large,
    kept_rows,
    stored_path,
    stored_range,
    validate_size,
)
from tests.support.tiers import seeded

MAGIC = bytes.fromhex("d1d33964")
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

row_numbers = st.sets(
    st.one_of(
        st.integers(0, 300),
        st.integers(2**16 - 3, 2**16 + 3),
        st.integers(2**32 - 3, 2**32 + 3),
        st.integers(0, 2**63 - 1),
    ),
    max_size=50,
)


def data_of(rows: BitMap64) -> bytes:
    return MAGIC + rows.serialize()


def text_of(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    return base64.b85encode(padded).decode().translate(str.maketrans(B85, Z85))


def inline(rows: BitMap64) -> DeletionVector:
    data = data_of(rows)
    return DeletionVector(
        storage_type="i",
        path_or_inline_dv=text_of(data),
        size_in_bytes=len(data),
        cardinality=len(rows),
    )


def stored(rows: BitMap64) -> tuple[DeletionVector, bytes]:
    data = data_of(rows)
    vector = DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=1,
        size_in_bytes=len(data),
        cardinality=len(rows),
    )
    crc = zlib.crc32(data).to_bytes(4, "big")
    return vector, len(data).to_bytes(4, "big") + data + crc


@given(row_numbers)
def test_a_vector_in_the_log_is_what_was_written(numbers: set[int]) -> None:
    assert set(decode_inline(inline(BitMap64(numbers)))) == numbers


@given(row_numbers)
def test_a_vector_in_a_file_is_what_was_written(numbers: set[int]) -> None:
    vector, content = stored(BitMap64(numbers))
    start, end = stored_range(vector)
    assert (start, end - start) == (1, len(content))
    assert set(decode_stored(content, vector)) == numbers


def padded_text_of(data: bytes) -> str:
    """The encoding of Rust's z85 library: a `#` at a group's start for each missing byte."""
    lacking = -len(data) % 4
    whole = len(data) - len(data) % 4
    if not lacking:
        return text_of(data)
    last = text_of(bytes(lacking) + data[whole:])
    return text_of(data[:whole]) + "#" * lacking + last[lacking:]


@given(row_numbers)
def test_a_vector_with_the_padding_of_rust_is_what_was_written(numbers: set[int]) -> None:
    rows = BitMap64(numbers)
    text = padded_text_of(data_of(rows))
    assert set(decode_inline(replace(inline(rows), path_or_inline_dv=text))) == numbers


@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_the_padding_of_rust_fills_the_last_group(lacking: int) -> None:
    data = data_of(BitMap64([3]))
    data += bytes((-len(data) - lacking) % 4)  # bytes after a bitmap are skipped
    vector = DeletionVector(
        storage_type="i",
        path_or_inline_dv=padded_text_of(data),
        size_in_bytes=len(data),
        cardinality=1,
    )
    assert list(decode_inline(vector)) == [3]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("#z000", id="more than three bytes"),
        pytest.param("##zzz", id="more than two bytes"),
        pytest.param("####0", id="no byte at all"),
        pytest.param("#####", id="nothing but padding"),
    ],
)
def test_padding_that_is_none_of_rust_is_refused(last: str) -> None:
    vector = inline(BitMap64([3]))
    damaged = vector.path_or_inline_dv[:-5] + last
    with pytest.raises(MalformedVectorError):
        decode_inline(replace(vector, path_or_inline_dv=damaged))


def test_the_example_of_the_protocol() -> None:
    vector = DeletionVector(
        storage_type="i",
        path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        size_in_bytes=40,
        cardinality=6,
    )
    assert list(decode_inline(vector)) == [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize(
    ("storage_type", "place", "path"),
    [
        pytest.param(
            "u",
            "ab^-aqEH.-t@S}K{vb[*k^",
            "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
            id="with a prefix",
        ),
        pytest.param(
            "u",
            "^-aqEH.-t@S}K{vb[*k^",
            "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
            id="without a prefix",
        ),
        pytest.param("p", "s3://bucket/t/a%20b.bin", "a b.bin", id="absolute, in the table"),
        pytest.param("p", "s3://other/t/v.bin", "s3://other/t/v.bin", id="absolute, elsewhere"),
        pytest.param("i", "wi5b=", None, id="in the log"),
    ],
)
def test_where_a_vector_lies(storage_type: str, place: str, path: str | None) -> None:
    vector = DeletionVector(
        storage_type=storage_type, path_or_inline_dv=place, size_in_bytes=4, cardinality=1
    )
    assert stored_path(vector, "s3://bucket/t") == path


@pytest.mark.parametrize(
    ("storage_type", "place"),
    [
        pytest.param("x", "", id="a kind that does not exist"),
        pytest.param("u", "too short", id="no UUID"),
        pytest.param("u", "^-aqEH.-t@S}K{vb[*k~", id="a letter that is not of the alphabet"),
        pytest.param("u", "####################", id="more than the letters can hold"),
    ],
)
def test_a_place_that_cannot_be_understood_is_refused(storage_type: str, place: str) -> None:
    vector = DeletionVector(
        storage_type=storage_type, path_or_inline_dv=place, size_in_bytes=4, cardinality=1
    )
    with pytest.raises(MalformedVectorError):
        stored_path(vector, "s3://bucket/t")


def test_a_vector_outside_of_the_table_is_not_named_by_steps_upwards() -> None:
    vector, _ = stored(BitMap64([1]))
    climbing = replace(vector, path_or_inline_dv=f"../../{vector.path_or_inline_dv[2:]}")
    with pytest.raises(LogPathError, match="leaves its store"):
        stored_path(climbing, "s3://bucket/t")


def test_a_vector_of_other_rows_than_the_log_says_is_refused() -> None:
    vector = replace(inline(BitMap64([1, 2])), cardinality=3)
    with pytest.raises(MalformedVectorError, match="2 rows, and 3 according to the log"):
        decode_inline(vector)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda c: c[:20], "bytes", id="cut off"),
        pytest.param(lambda c: b"\0\0\0\1" + c[4:], "1 bytes in the file", id="another size"),
        pytest.param(
            lambda c: c[:30] + bytes([c[30] ^ 1]) + c[31:], "checksum", id="a bit that has turned"
        ),
        pytest.param(lambda _: b"", "bytes", id="nothing"),
    ],
)
def test_damage_in_a_file_is_refused(damage: object, reason: str) -> None:
    assert callable(damage)
    vector, content = stored(BitMap64(range(0, 1000, 7)))
    with pytest.raises(MalformedVectorError, match=reason):
        decode_stored(damage(content), vector)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_are_no_vector_are_refused_or_name_as_many_rows_as_the_log(seed: int) -> None:
    chance = seeded(seed)
    for _ in range(500):
        rows = BitMap64(chance.randrange(2 ** chance.choice([8, 17, 33, 50])) for _ in range(20))
        data = bytearray(data_of(rows))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        damaged = bytes(data[: chance.choice([len(data), chance.randrange(1, len(data) + 1)])])
        vector = replace(
            inline(rows), path_or_inline_dv=text_of(damaged), size_in_bytes=len(damaged)
        )
        try:
            found = decode_inline(vector)
        except MalformedVectorError:
            continue
        assert len(list(found)) == len(rows)


@settings(max_examples=200)
@given(row_numbers, st.integers(0, 2**33), st.integers(0, 400))
def test_rows_are_counted_from_the_first_of_some(
    numbers: set[int], first: int, num_rows: int
) -> None:
    rows = range(first, first + num_rows)
    vector = BitMap64(numbers)
    kept = kept_rows(vector, first, num_rows)
    expected = [row - first for row in rows if row not in numbers]
    assert (list(range(num_rows)) if kept is None else kept.to_pylist()) == expected
    assert (kept is None) == (not numbers & set(rows))
    chosen = [row - first for row in rows if row in numbers]
    assert chosen_rows(vector, first, num_rows).to_pylist() == chosen


def test_a_vector_of_thousands_of_millions_of_rows_takes_no_memory_for_them() -> None:
    vector = BitMap64()
    vector.add_range(0, 2**34)
    kept = kept_rows(vector, 5, 10)
    assert kept is not None
    assert not len(kept)


def test_a_vector_as_blocks_of_bits_names_the_same_rows() -> None:
    rows = BitMap64([0, 5, 63, 64, 32_767, 32_768, 100_000, 2**33 + 1])
    of_no_file = BitMap64([2**55, 2**64 - 1])
    numbers, words = blocks_of(rows | of_no_file)
    assert numbers.to_pylist() == [0, 1, 3, 2**18]
    named = [
        (number << BLOCK_BITS) + 64 * i + bit
        for number, of_block in zip(numbers.to_pylist(), words.to_pylist(), strict=True)
        for i, word in enumerate(of_block)
        for bit in range(64)
        if word >> bit & 1
    ]
    assert named == list(rows)
    assert all(len(of_block) == 512 for of_block in words.to_pylist())


def test_an_empty_vector_has_no_blocks() -> None:
    numbers, words = blocks_of(BitMap64())
    assert len(numbers) == len(words) == 0


@given(row_numbers)
@settings(max_examples=200)
def test_no_vector_that_was_encoded_is_too_large(rows: set[int]) -> None:
    vector = inline(BitMap64(rows))
    validate_size(vector, len(rows))
    assert not is_large(vector)


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("step", [1, 2, 3, 20, 70_000])
def test_no_vector_of_many_rows_is_too_large(step: int) -> None:
    rows = BitMap64(range(0, 200_000 * step, step))
    for each in (rows, BitMap64.deserialize(optimized(rows).serialize())):
        validate_size(inline(each), 200_000 * step)


def optimized(rows: BitMap64) -> BitMap64:
    copy = rows.copy()
    copy.run_optimize()
    return copy


@pytest.mark.parametrize(
    ("size", "cardinality", "num_rows", "reason"),
    [
        pytest.param(100, 31, 30, "31 rows, but the file has 30 rows", id="more rows"),
        pytest.param(
            2**31 - 1,
            30,
            30,
            "2147483647 bytes according to the log, which is too many for 30 rows",
            id="2 GiB",
        ),
        pytest.param(2**31 - 1, 30, None, "2147483647 bytes", id="2 GiB, rows unknown"),
        pytest.param(2**31 - 1, 2**30, 30, "the file has 30 rows", id="2 GiB for many rows"),
    ],
)
def test_a_vector_that_claims_too_much_is_refused(
    size: int, cardinality: int, num_rows: int | None, reason: str
) -> None:
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="", size_in_bytes=size, cardinality=cardinality
    )
    with pytest.raises(MalformedVectorError, match=reason):
        validate_size(vector, num_rows)
