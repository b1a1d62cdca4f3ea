"""Columns whose values are coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _tet_sql
from ._libraries import library
from ._metadata import DTYPE, INDEX
from ._numpy import texts

if TYPE_CHECKING:
    import numpy


class Axis:
    """A column whose values are coordinates.

    Batches arrive in no particular order, so the order of the rows is not the order of the coordinates.
    """

    def __init__(self, column: Any, order: tuple[bool, Any] | None) -> None:
        np = library("numpy", "Relation.to_xarray()")
        self.name = column.name
        self.metadata = column.metadata
        if not column.is_plain:
            raise _tet_sql.Error(f"column {column.name} of type {column.type} cannot be a dimension")
        #: One value per row, which identifies the coordinate. For texts, the index of the text among the sorted texts.
        self.keys = np.asarray(column)
        self._texts = None
        if (found := column.texts) is not None:
            # The index of null, -1, refers to the last text, which is `None`.
            numbers = [*sorted(range(len(found)), key=found.__getitem__), len(found)]
            self._texts = texts(column)[numbers]
            self.keys = np.argsort(numbers)[self.keys]
        self._descends, along = (False, None) if order is None else order
        #: The coordinates in their order, if they are not sorted.
        self._along = None if along is None else self._keys_of(along)

    def _keys_of(self, coordinates: Any) -> numpy.ndarray:
        """Returns the keys of the coordinates along an axis. Texts that are not in the result are left out."""
        np = library("numpy", "Relation.to_xarray()")
        if self._texts is None:
            return np.asarray(coordinates)
        numbers = {text: number for number, text in enumerate(self._texts.tolist())}
        keys = np.array([numbers.get(text, -1) for text in coordinates.texts], dtype=np.int64)
        indices = np.asarray(coordinates)
        # Null, with the index -1, is last in any order.
        keys = keys[indices[indices >= 0]]
        return keys[keys >= 0]

    def sorting(self, keys: numpy.ndarray) -> numpy.ndarray:
        """Returns the indices that bring distinct keys into the order of the axis. Null, NaN and NaT are last."""
        np = library("numpy", "Relation.to_xarray()")
        if self._along is not None and len(self._along) > 0:
            along, first = np.unique(self._along, return_index=True)
            found = np.searchsorted(along, keys).clip(max=len(along) - 1)
            return np.lexsort((keys, np.where(along[found] == keys, first[found], len(self._along))))
        indices = np.argsort(keys)
        if not self._descends:
            return indices
        missing = keys == len(self._texts) - 1 if self._texts is not None else keys != keys
        count = len(keys) - int(missing.sum())
        return np.concatenate([indices[:count][::-1], indices[count:]])

    def coordinates(self, keys: numpy.ndarray) -> numpy.ndarray:
        """Returns the coordinates that these keys stand for."""
        if self._texts is not None:
            return self._texts[keys]
        if DTYPE in self.metadata and keys.dtype.kind == "f":
            return keys.astype(self.metadata[DTYPE])
        return keys

    def is_index_of(self, coordinates: numpy.ndarray) -> bool:
        """Returns ``True`` if the dimension had no coordinates, and all of its indices are in the result."""
        np = library("numpy", "Relation.to_xarray()")
        return INDEX in self.metadata and np.array_equal(coordinates, np.arange(len(coordinates)))
