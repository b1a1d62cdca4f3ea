"""Columns of a result as NumPy arrays."""

from __future__ import annotations

from typing import Any

from ._libraries import library


def values(column: Any, batches: Any) -> Any:
    """Returns a column as a NumPy array.

    Nulls are NaN or NaT. Integers with nulls become ``float64``; texts, and booleans with nulls, become objects.
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
