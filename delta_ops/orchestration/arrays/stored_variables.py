"""Stored variables: whether a table keeps the variables of a dataset as they are.

xarray writes a region with the encodings of the table, and does not report values that they change.
So there are three checks: of the variables before the write, of packed numbers during the write,
because Dask computes them only then, and of times after the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from delta_ops.errors import InvalidRequestError


def validate_variables(dataset: Any, stored: Any, *, asset: str, dimension: str) -> None:
    """Reject a dataset whose variables or attributes the table would not keep.

    Args:
        dataset: The `xarray.Dataset` of a partition.
        stored: The dataset of the table.
        asset: The asset key as text, for messages.
        dimension: The dimension of the partitions.

    Raises:
        InvalidRequestError: A variable is missing, new, or of another form than in the table; an
            attribute is new or has another value; or a variable has other values although it does
            not have the dimension of the partitions.
    """
    ours, theirs = set(dataset.variables), set(stored.variables)
    for names, problem in ((theirs - ours, "lacks"), (ours - theirs, "has the new")):
        if names:
            raise InvalidRequestError(
                f"asset {asset}: the dataset {problem} variable {', '.join(map(str, names))}; "
                "each partition needs the variables of the first. Let the asset write a new "
                "table to change them. Nothing was written"
            )
    _validate_attributes(dataset.attrs, stored.attrs, f"asset {asset}: the dataset")
    for name, variable in dataset.variables.items():
        other = stored.variables[name]
        if variable.dims != other.dims:
            raise InvalidRequestError(
                f"asset {asset}: variable {name} has the dimensions {variable.dims}, and in "
                f"the table {other.dims}; transpose the dataset. Nothing was written"
            )
        if _casts(variable, other):
            raise InvalidRequestError(
                f"asset {asset}: variable {name} is of type {variable.dtype}, and in the table "
                f"{other.dtype}; convert it with Dataset.astype. Nothing was written"
            )
        if _rounds(variable, other):
            raise InvalidRequestError(
                f"asset {asset}: variable {name} is packed in the table by "
                f"{_packing(other)}, which may round its values; set these in its encoding, "
                "or let the asset write a new table. Nothing was written"
            )
        _validate_attributes(variable.attrs, other.attrs, f"asset {asset}: variable {name}")
        if dimension not in variable.dims and not variable.equals(other):
            raise InvalidRequestError(
                f"asset {asset}: variable {name} does not have the dimension "
                f"{dimension}, and its values are not those of the table; partitions "
                "share it, so each needs the same values. Nothing was written"
            )


def check_values(dataset: Any, stored: Any, asset: str) -> Any:
    """Check the numbers that the encodings of a table may change.

    Numbers of Dask arrays are checked when Dask computes them.

    Args:
        dataset: The `xarray.Dataset` to write.
        stored: The dataset of the table, whose encodings xarray takes; for a new table, the dataset
            to write.
        asset: The asset key as text, for messages.

    Returns:
        The dataset with the checks.

    Raises:
        InvalidRequestError: A value is outside of the packed type, or would be read as missing.
    """
    checked = {}
    for name, variable in dataset.variables.items():
        encoding = stored.variables[name].encoding
        packed = np.dtype(encoding.get("dtype", variable.dtype))
        is_packed = packed.kind in "iu" and packed != variable.dtype
        missing = _missing_number(encoding)
        is_ours = _missing_number(variable.encoding) == missing
        if (
            variable.dtype.kind not in "iuf"
            or "_Unsigned" in encoding  # values are stored as the signed type of the same width
            or not (is_packed or (variable.dtype.kind == "f" and missing is not None))
            or (is_ours and not is_packed)
        ):
            continue
        check = _Check(
            place=f"asset {asset}: variable {name}",
            packed=packed if is_packed else None,
            scale=encoding.get("scale_factor") or 1,
            offset=encoding.get("add_offset") or 0,
            missing=missing,
        )
        if variable.chunks is None:
            data = check.values(variable.values)
        else:
            data = variable.data.map_blocks(check.values, dtype=variable.dtype)
        checked[name] = variable.copy(data=data)
    return dataset.assign(checked) if checked else dataset


def validate_times(dataset: Any, stored: Any, asset: str) -> None:
    """Reject times that a table does not keep in its units.

    Args:
        dataset: The `xarray.Dataset` that was written.
        stored: The same part of the dataset of the table.
        asset: The asset key as text, for messages.

    Raises:
        InvalidRequestError: A time is read as another time, or cannot be read.
    """
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "mM" and not _are_kept(variable.values, stored.variables[name]):
            raise InvalidRequestError(
                f"asset {asset}: variable {name} has times that the table does not keep, because "
                f"it stores them as {encoding_text(stored.variables[name].encoding)}; round the "
                "times, or let the asset write a new table with another encoding. Nothing was "
                "written"
            )


def encoding_text(encoding: Mapping[str, Any]) -> str:
    """The type and the units of an encoding, for messages."""
    units = encoding.get("units")
    return f"{encoding.get('dtype')}" + ("" if units is None else f" in {units}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """The numbers that an encoding keeps."""

    place: str
    packed: np.dtype[Any] | None
    """The type of packed integers; None if numbers are stored as they are."""
    scale: Any
    offset: Any
    missing: Any
    """The value that is read as missing; None if there is none."""

    def values(self, block: Any) -> Any:
        if self.packed is None:
            lost = block == self.missing
            problem = f"which the table reads as missing (_FillValue={self.missing})"
        else:
            limits = np.iinfo(self.packed)
            stored = np.rint((block.astype("f8") - self.offset) / self.scale)
            lost = ~((stored >= float(limits.min)) & (stored < float(limits.max) + 1))
            if self.missing is not None:
                lost &= ~np.isnan(stored)
            problem = f"which does not fit {self.packed}, in which the encoding packs it"
        if lost.any():
            raise InvalidRequestError(
                f"{self.place} has the value {block[lost][0]}, {problem}; change its encoding in a "
                "new table, or the value. Nothing was written"
            )
        return block


def _are_kept(times: Any, stored: Any) -> bool:
    try:
        found = stored.values
        return bool(((times == found) | (np.isnat(times) & np.isnat(found))).all())
    except (ImportError, TypeError, ValueError, OverflowError):  # too far away to be decoded
        return False


def _missing_number(encoding: Mapping[str, Any]) -> Any:
    """The number that means missing; None if it is NaN, or there is none."""
    value = encoding.get("_FillValue", encoding.get("missing_value"))
    return None if value is None or value != value else value  # noqa: PLR0124


def _casts(variable: Any, stored: Any) -> bool:
    """Whether xarray would cast the values of a variable; a cast may lose digits.

    Packed numbers are decoded to floats, so any type of float is right for them.
    """
    if _kind(variable.dtype) != _kind(stored.dtype):
        return True
    if variable.dtype.kind not in "biufc" or variable.dtype == stored.dtype:
        return False
    is_packed = stored.encoding.get("dtype", stored.dtype) != stored.dtype
    return not (is_packed and variable.dtype.kind == "f")


def _kind(dtype: Any) -> str:
    return "T" if dtype.kind in "OUT" else str(dtype.kind)


def _rounds(variable: Any, stored: Any) -> bool:
    """Whether the table packs floats in another way than the encoding of a variable says."""
    packing = _packing(stored)
    is_packed = stored.dtype.kind == "f" and packing["dtype"].kind in "iu"
    return is_packed and variable.dtype.kind == "f" and _packing(variable) != packing


def _packing(variable: Any) -> dict[str, Any]:
    encoding = {"dtype": variable.dtype, **variable.encoding}
    found = {name: encoding.get(name) for name in ("scale_factor", "add_offset")}
    return {"dtype": np.dtype(encoding["dtype"]), **found, "_FillValue": _missing_number(encoding)}


def _validate_attributes(ours: Mapping[Any, Any], stored: Mapping[Any, Any], place: str) -> None:
    """Reject attributes that are new or have another value; the table would keep its own.

    Raises:
        InvalidRequestError: There is one.
    """
    for name, value in ours.items():
        if name not in stored or not _are_equal(_json_value(value), _json_value(stored[name])):
            raise InvalidRequestError(
                f"{place} has the attribute {name}={value!r}, and in the table "
                f"{stored.get(name)!r}; give each partition the attributes of the "
                "first, or leave them out. Nothing was written"
            )


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(one == other or (one != one and other != other))  # NaN  # noqa: PLR0124


def _json_value(value: Any) -> Any:
    """An attribute as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
