"""Columns of a result as NumPy arrays."""

from __future__ import annotations

import re
from typing import Any

from ._libraries import library

_ZONED = re.compile(r'Timestamp\([^,]+, "(.+)"\)')


def values(column: Any, batches: Any) -> Any:
    """Returns a column as a NumPy array.

    Nulls are NaN or NaT. Integers with nulls become ``float64``; texts, and booleans with nulls, become objects.
    Times with a time zone are in UTC.
    """
    np = library("numpy", "Relation.numpy()")
    if not column.is_plain:
        return _objects(column, batches)
    array = np.asarray(column)
    if column.texts is not None:
        return texts(column)[array]
    if column.type == "Boolean" and array.dtype != bool:
        return np.array([False, True, None], dtype=object)[array]
    return array


def time_zone(column: Any) -> str | None:
    """Returns the time zone of a column of times, which is a name or an offset such as ``+09:00``."""
    zoned = _ZONED.search(column.type) if column.is_plain else None
    if zoned is None:
        return None
    zone = zoned[1]
    if zone[0] not in "+-":
        return zone
    # Arrow also writes +09 and +0900, which pandas does not read.
    hours, minutes = zone[1:3], zone[3:].lstrip(":") or "00"
    return f"{zone[0]}{hours}:{minutes}"


def texts(column: Any) -> Any:
    """Returns the distinct texts of a column, with ``None`` at the end, which the index -1 refers to."""
    np = library("numpy", "Relation.numpy()")
    return np.array([*column.texts, None], dtype=object)


def _objects(column: Any, batches: Any) -> Any:
    """Returns a column of a type that NumPy does not have, such as a list, as objects."""
    np = library("numpy", "Relation.numpy()")
    pyarrow = library("pyarrow", f"a column of type {column.type}")
    found = pyarrow.table(batches).column(column.name).to_pylist()
    objects = np.empty(len(found), dtype=object)
    objects[:] = found
    return objects
