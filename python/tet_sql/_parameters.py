"""Python values as parameters of statements."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ._calendars import CALENDAR, is_missing
from ._libraries import is_a, library

#: The length of NumPy's units of time in attoseconds. Years and months have none.
LENGTHS = {
    "W": 604_800 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}

_EPOCH = datetime.datetime(1970, 1, 1)


def parameters(params: Sequence[Any] | Mapping[str, Any]) -> list[Any] | dict[str, Any]:
    """Returns parameters as values that the extension module takes.

    These are ``None``, bool, int, float, str, bytes, and for times and durations a NumPy type with a count of its unit,
    such as ``("M8[us]", 0)``.
    """
    if isinstance(params, str):
        raise TypeError("params is a str, expected a list of values or a dict of values by name")
    if isinstance(params, Mapping):
        return {name: _converted(value) for name, value in params.items()}
    return [_converted(value) for value in params]


def _converted(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float, str, bytes)):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"a parameter is {value}, expected an integer from -2^63 to 2^64 - 1")
        return value
    if is_a(value, "xarray", "DataArray"):
        value = value.values
    if is_a(value, "numpy", "ndarray") and value.size == 1:
        # The cell of a masked array is the array `numpy.ma.masked`.
        is_masked = library("numpy", "a parameter").ma.is_masked(value)
        return None if is_masked else _converted(value.reshape(-1)[0])
    if is_a(value, "numpy", "floating"):
        # Coordinates of type float32 are also the shortest decimal in SQL.
        return float(str(value))
    if is_missing(value):
        return None
    if is_a(value, "pandas", "Timestamp") or is_a(value, "pandas", "Timedelta"):
        value = value.asm8
    if is_a(value, "numpy", "datetime64") or is_a(value, "numpy", "timedelta64"):
        return _numpy_time(value)
    if isinstance(value, datetime.timedelta):
        return _microseconds("m8", value)
    if isinstance(value, datetime.datetime):
        return _microseconds("M8", value - _EPOCH.replace(tzinfo=value.tzinfo and datetime.timezone.utc))
    if isinstance(value, datetime.date):
        return "M8[D]", value.toordinal() - _EPOCH.toordinal()
    if hasattr(value, CALENDAR) and hasattr(value, "isoformat"):
        # Dates of `cftime` are text in SQL.
        return value.isoformat()
    item = value.item() if hasattr(value, "item") else value
    if type(item) is not type(value):
        return _converted(item)
    raise TypeError(
        f"a parameter is of type {type(value).__name__}, expected None, bool, int, float, str, bytes, a date, a time "
        "or a duration"
    )


def _numpy_time(value: Any) -> tuple[str, int]:
    """Returns the type and the count of a ``datetime64`` or ``timedelta64``.

    The count is in nanoseconds if the unit is nanoseconds or finer, else in microseconds.
    """
    np = library("numpy", "a parameter")
    unit, multiple = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and value.dtype.kind == "M":
        months, value = value, value.astype("M8[D]")
        # NumPy wraps days that are too many for 64 bits.
        if value.astype(months.dtype) != months:
            raise _too_far(months)
        unit, multiple = "D", 1
    if unit not in LENGTHS:
        raise TypeError(f"a parameter is {value!r}, expected a duration in weeks, days or units of time")
    kind = f"{value.dtype.kind}8"
    wanted = "ns" if LENGTHS[unit] <= LENGTHS["ns"] else "us"
    count, rest = divmod(int(value.astype("i8")) * multiple * LENGTHS[unit], LENGTHS[wanted])
    if rest:
        raise ValueError(f"a parameter is {value!r}, expected whole nanoseconds")
    if abs(count) >= 2**63:
        raise _too_far(value)
    return f"{kind}[{wanted}]", count


def _microseconds(kind: str, delta: datetime.timedelta) -> tuple[str, int]:
    count = delta // datetime.timedelta(microseconds=1)
    if abs(count) >= 2**63:
        raise _too_far(delta)
    return f"{kind}[us]", count


def _too_far(value: Any) -> OverflowError:
    return OverflowError(f"a parameter is {value!r}, which is outside of the range of 64-bit microseconds")
