"""Damage for fuzz tests: bits, bytes and fragments that have broken readers."""

from __future__ import annotations

import random

FRAGMENTS = [
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x0b", b"\x85"),
    *(b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8"),
    *(b"NaN", b"Infinity", b"-Infinity", b"-0", b"1e3", b"1E400", b"1.0", b"01", b"+1", b".5"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"2147483648"),
    *(b"null", b"true", b"{}", b"[]", b'""', b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\"),
    *(b"\\ud800", b"\\u0000", b"\\ud83d\\ude00", b"/*c*/", b"'"),
    *(b'"path":"q",', b'"PATH":"q",', b'"pa\\u0074h":"q",', b'"path":null,', b'"":1,'),
    *(
        b'"size":7,',
        b'"size":"7",',
        b'"size":null,',
        b'"size":true,',
        b'"size":-1,',
        b'"size":1e2,',
    ),
    *(b'"dataChange":"true",', b'"dataChange":1,', b'"modificationTime":1.5,'),
    *(b'"partitionValues":{"p":1},', b'"partitionValues":{"p":{}},', b'"partitionValues":null,'),
    *(b'"partitionValues":[],', b'"partitionValues":{"p":"1","p":"2"},', b'"tags":{"a":null},'),
    *(b'"deletionVector":null,', b'"deletionVector":{},', b'"stats":{"a":1},', b'"stats":5,'),
    *(b'"add":{"path":"z","size":1},', b'"x":{"y":[1,{"z":null}]},', b'"version":3,'),
]


def mutate(data: bytes, rnd: random.Random, *, times: int = 3) -> bytes:
    """The data, damaged in at most this many places."""
    for _ in range(rnd.randint(0, times)):
        if data:
            data = rnd.choice(_WAYS)(data, rnd)
    return data


def flip(data: bytes, rnd: random.Random) -> bytes:
    """Flip one bit."""
    at = rnd.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rnd.randrange(8)]) + data[at + 1 :]


def truncate(data: bytes, rnd: random.Random) -> bytes:
    """Cut the end."""
    return data[: rnd.randrange(len(data))]


def cut_gap(data: bytes, rnd: random.Random) -> bytes:
    """Remove a few bytes."""
    at = rnd.randrange(len(data))
    return data[:at] + data[at + rnd.randint(1, 8) :]


def repeat_piece(data: bytes, rnd: random.Random) -> bytes:
    """Copy a piece to another place."""
    at, to = rnd.randrange(len(data)), rnd.randrange(len(data))
    return data[:to] + data[at : at + rnd.randint(1, 40)] + data[to:]


def insert_fragment(data: bytes, rnd: random.Random) -> bytes:
    """Insert a fragment at the place of a name or a value."""
    places = [i + 1 for i, byte in enumerate(data) if byte in b"{,:"] or [0]
    at = rnd.choice(places)
    return data[:at] + rnd.choice(FRAGMENTS) + data[at:]


def replace_value(data: bytes, rnd: random.Random) -> bytes:
    """Replace a value by a fragment."""
    places = [i + 1 for i, byte in enumerate(data) if byte == ord(":")] or [0]
    at = rnd.choice(places)
    ends = [end for end in (data.find(b",", at), data.find(b"}", at)) if end >= 0]
    return data[:at] + rnd.choice(FRAGMENTS) + data[min(ends, default=at) :]


_WAYS = (flip, truncate, cut_gap, repeat_piece, insert_fragment, insert_fragment, replace_value)
