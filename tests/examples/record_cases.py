"""Records, each with the contract's verdict on it, for tests of flight records.

Each case is (claim, line, reason); a valid record has the reason None. The file with the line
arrived on `ARRIVAL_DAY`.
"""

from __future__ import annotations

from datetime import date

ARRIVAL_DAY = date(2026, 1, 2)

GOOD_JSON = (
    '{"date":"2026/01/01 00:47","delay":66,"distance":1750,"origin":"DTW","destination":"LAS"}'
)
CSV_HEADER = "date,delay,distance,origin,destination"
GOOD_CSV = "2026/01/01 00:47,66,1750,DTW,LAS"

NOT_AN_OBJECT = "not a JSON object"
NOT_FIVE = "not 5 fields"


def _json(old: str, new: str) -> str:
    assert old in GOOD_JSON
    return GOOD_JSON.replace(old, new)


def _date(text: str) -> str:
    return _json("2026/01/01 00:47", text)


Case = tuple[str, str, str | None]

JSON_CASES: list[Case] = [
    ("a plain record is valid", GOOD_JSON, None),
    ("fields may come in any order", "{" + ",".join(GOOD_JSON[1:-1].split(",")[::-1]) + "}", None),
    ("other fields are ignored", _json("{", '{"tail":{"no":[1,null]},'), None),
    ("white space around is ignored", f" \t{GOOD_JSON}\t ", None),
    ("a carriage return at the end is none of it", f"{GOOD_JSON}\r", None),
    ("a byte order mark at the start is none of it", f"\ufeff{GOOD_JSON}", None),
    ("an escaped name is the name", _json('"date"', '"d\\u0061te"'), None),
    ("the last of equal names counts", _json("{", '{"delay":"x",'), None),
    ("a text that is not a record", "-- lost --", NOT_AN_OBJECT),
    ("a record cut short", GOOD_JSON[:50], NOT_AN_OBJECT),
    ("an array", f"[{GOOD_JSON}]", NOT_AN_OBJECT),
    ("a string that holds a record", '"{}"', NOT_AN_OBJECT),
    ("a number", "5", NOT_AN_OBJECT),
    ("null", "null", NOT_AN_OBJECT),
    ("two records on a line", GOOD_JSON * 2, NOT_AN_OBJECT),
    ("something after the record", GOOD_JSON + " x", NOT_AN_OBJECT),
    ("a form feed after the record", GOOD_JSON + "\f", NOT_AN_OBJECT),
    ("a bracket too many", GOOD_JSON + "}", NOT_AN_OBJECT),
    ("single quotes", GOOD_JSON.replace('"', "'"), NOT_AN_OBJECT),
    ("a comma before the end", _json("}", ",}"), NOT_AN_OBJECT),
    ("NaN in a field", _json("66", "NaN"), NOT_AN_OBJECT),
    ("Infinity in another field", _json("{", '{"x":-Infinity,'), NOT_AN_OBJECT),
    ("a leading zero in a number", _json("66", "066"), NOT_AN_OBJECT),
    ("a plus sign in a number", _json("66", "+66"), NOT_AN_OBJECT),
    ("a tab within a string", _json("DTW", "D\tW"), NOT_AN_OBJECT),
    ("brackets beyond all measure", "[" * 100_000, NOT_AN_OBJECT),
    ("no field at all", "{}", "date is missing"),
    ("no date", _json('"date"', '"Date"'), "date is missing"),
    ("a null date", _json('"2026/01/01 00:47"', "null"), "date is missing"),
    ("an empty date", _date(""), "date is missing"),
    ("a date of ISO form", _date("2026-01-01T00:47"), "date is malformed"),
    ("a date with seconds", _date("2026/01/01 00:47:00"), "date is malformed"),
    ("a date of one digit", _date("2026/1/01 00:47"), "date is malformed"),
    ("a date with a line end after it", _date("2026/01/01 00:47\\n"), "date is malformed"),
    ("a date with a space before it", _date(" 2026/01/01 00:47"), "date is malformed"),
    ("a date in other digits", _date("\uff12\uff10\uff12\uff16/01/01 00:47"), "date is malformed"),
    ("a month 13", _date("2025/13/01 00:47"), "date is malformed"),
    ("a 29th of February in a common year", _date("2025/02/29 00:47"), "date is malformed"),
    ("a 29th of February in a leap year", _date("2024/02/29 00:47"), None),
    ("an hour 24", _date("2026/01/01 24:00"), "date is malformed"),
    ("a minute 60", _date("2026/01/01 00:60"), "date is malformed"),
    ("a year 0", _date("0000/01/01 00:47"), "date is malformed"),
    ("a year 1", _date("0001/01/01 00:47"), "date is out of range"),
    ("the hour that summer time skips", _date("2025/03/30 02:30"), None),
    ("a date as a number", _json('"2026/01/01 00:47"', "20260101"), "date is malformed"),
    ("the day before the first", _date("1987/09/30 23:59"), "date is out of range"),
    ("the first day", _date("1987/10/01 00:00"), None),
    ("the day after arrival", _date("2026/01/03 23:59"), None),
    ("two days after arrival", _date("2026/01/04 00:00"), "date is out of range"),
    ("a year to come", _date("9999/12/31 23:59"), "date is out of range"),
    ("no delay", _json('"delay"', '"late"'), "delay is missing"),
    ("a null delay", _json("66", "null"), "delay is missing"),
    ("the last of equal names is null", _json("}", ',"delay":null}'), "delay is missing"),
    ("a negative delay", _json("66", "-5"), None),
    ("a delay of minus nought", _json("66", "-0"), None),
    ("a delay as text", _json("66", '"+066"'), None),
    ("a delay of six digits", _json("66", "-999999"), None),
    ("a delay of seven digits", _json("66", "1000000"), "delay is malformed"),
    ("a delay of five thousand digits", _json("66", "6" * 5000), "delay is malformed"),
    ("a delay with a fraction", _json("66", "12.0"), "delay is malformed"),
    ("a delay with an exponent", _json("66", "1e3"), "delay is malformed"),
    ("a delay in words", _json("66", '"late"'), "delay is malformed"),
    ("a delay that is true", _json("66", "true"), "delay is malformed"),
    ("a delay in an array", _json("66", "[66]"), "delay is malformed"),
    ("a delay in an object", _json("66", '{"minutes":66}'), "delay is malformed"),
    ("a delay with a space after it", _json("66", '"66 "'), "delay is malformed"),
    ("a delay with a line end after it", _json("66", '"66\\n"'), "delay is malformed"),
    ("a delay in other digits", _json("66", '"\uff16\uff16"'), "delay is malformed"),
    ("half a surrogate pair", _json("66", '"\\ud800"'), "delay is malformed"),
    ("an empty distance", _json("1750", '""'), "distance is missing"),
    ("a distance of nought", _json("1750", "0"), None),
    ("a negative distance", _json("1750", "-1"), "distance is malformed"),
    ("a distance of minus nought", _json("1750", "-0"), "distance is malformed"),
    ("a distance with a plus sign", _json("1750", '"+1"'), "distance is malformed"),
    ("a null origin", _json('"DTW"', "null"), "origin is missing"),
    ("an origin of two letters", _json("DTW", "DT"), "origin is malformed"),
    ("an origin of four letters", _json("DTW", "KDTW"), "origin is malformed"),
    ("an origin in small letters", _json("DTW", "dtw"), "origin is malformed"),
    ("an origin with an accent", _json("DTW", "DÉW"), "origin is malformed"),
    ("an origin with a line end after it", _json("DTW", "DTW\\n"), "origin is malformed"),
    ("an origin with a digit", _json("DTW", "1G4"), None),
    ("an origin that is a number", _json('"DTW"', "123"), None),
    ("no destination", _json(',"destination":"LAS"', ""), "destination is missing"),
    ("a destination of spaces", _json("LAS", "   "), "destination is malformed"),
    ("of two faults the first counts", '{"delay":"late","origin":null}', "date is missing"),
    ("a fault in the delay before one in the origin", _json("66", "6.5"), "delay is malformed"),
]

CSV_CASES: list[Case] = [
    ("a plain line is valid", GOOD_CSV, None),
    ("a carriage return at the end is none of it", GOOD_CSV + "\r", None),
    ("quotes around fields are none of them", '"2026/01/01 00:47","66",1750,"DTW",LAS', None),
    ("a field too few", "2026/01/01 00:47,66,1750,DTW", NOT_FIVE),
    ("a field too many", GOOD_CSV + ",cancelled", NOT_FIVE),
    ("another separator", GOOD_CSV.replace(",", ";"), NOT_FIVE),
    ("a quote that is never closed", GOOD_CSV.replace("DTW", '"DTW'), NOT_FIVE),
    ("a quote in the middle of a field", GOOD_CSV.replace("DTW", 'D"T"W'), NOT_FIVE),
    ("text after a closing quote", GOOD_CSV.replace("DTW", '"DT"W'), NOT_FIVE),
    ("a comma in quotes", GOOD_CSV.replace("DTW", '"D,W"'), "origin is malformed"),
    ("a doubled quote in quotes", GOOD_CSV.replace("DTW", '"D""W"'), "origin is malformed"),
    (
        "a field of 200,000 characters",
        GOOD_CSV.replace("DTW", "D" * 200_000),
        "origin is malformed",
    ),
    ("a carriage return in a field", GOOD_CSV.replace("DTW", "D\rW"), "origin is malformed"),
    ("spaces around a field stay", GOOD_CSV.replace("66", " 66"), "delay is malformed"),
    ("a space at the end of a line stays", GOOD_CSV + " ", "destination is malformed"),
    ("an empty field", GOOD_CSV.replace("66", ""), "delay is missing"),
    ("an empty field in quotes", GOOD_CSV.replace("66", '""'), "delay is missing"),
    ("commas only", ",,,,", "date is missing"),
    ("the header again", CSV_HEADER, "date is malformed"),
]
