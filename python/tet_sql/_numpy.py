"""Columns of a result as NumPy arrays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import _tet_sql
from ._libraries import library

_ZONED = re.compile(r'Timestamp\([^,]+, "(.+)"\)')


def check_names(names: Sequence[str]) -> None:
    """Raises an error if two columns have the same name: a result by name can hold only one."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise _tet_sql.QueryError(f"several columns are named {repeated[0]}: rename them with AS")


def values(number: int, column: Any, batches: Any) -> Any:
    """Returns the column at this index as a NumPy array.

    Nulls are NaN or NaT. Integers with nulls become ``float64``; texts, and booleans with nulls, become objects.
    Times with a time zone are in UTC.
    """
    np = library("numpy", "Relation.numpy()")
    if not column.is_plain:
        return objects(number, column, batches)
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


def objects(number: int, column: Any, batches: Any) -> Any:
    """Returns the column at this index as objects. Its type, such as a list, is one that NumPy does not have."""
    np = library("numpy", "Relation.numpy()")
    pyarrow = library("pyarrow", f"a column of type {column.type}")
    found = pyarrow.table(batches).column(number).to_pylist()
    cells = np.empty(len(found), dtype=object)
    cells[:] = found
    return cells
