"""Results as xarray Datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _tet_sql
from ._axis import Axis
from ._calendars import CALENDAR, dates, stored_calendar
from ._libraries import library
from ._metadata import COORDINATE, DIMS, common_attributes, decoded
from ._numpy import values
from ._schema import DIMENSION

if TYPE_CHECKING:
    import numpy
    import xarray


def dataset(
    batches: Any,
    dims: Sequence[str] | None,
    order: Callable[[int], tuple[bool, Any] | None] = lambda number: None,
) -> xarray.Dataset:
    """Returns a result as a Dataset over these dimensions.

    ``order`` returns the order of the coordinates in the column at an index, as ``Query.order`` does.
    """
    xarray = library("xarray", "Relation.to_xarray()")
    columns = {column.name: column for column in batches.columns()}
    numbers = {name: number for number, name in enumerate(columns)}
    if dims is None:
        dims = [name for name, column in columns.items() if DIMENSION in column.metadata]
    rows = len(batches)
    if not dims and rows != 1:
        raise _tet_sql.Error(
            f"the result has {rows} rows but no column that is a dimension of an array: name the dimensions among "
            f"{', '.join(columns)} with to_xarray(dims=[...])"
        )
    unknown = [name for name in dims if name not in columns]
    if unknown:
        raise _tet_sql.Error(f"the result has no column {unknown[0]}, expected one of {', '.join(columns)}")
    axes = [Axis(columns[name], order(numbers[name])) for name in dims]
    layout = _Reshaped.of(axes, rows) or _Scattered(axes, rows)
    coords = {
        axis.name: (axis.name, *_dated(coordinates, axis.metadata))
        for axis, coordinates in zip(axes, layout.coordinates)
        if not axis.is_index_of(coordinates)
    }
    variables = {
        name: _collapsed(dims, layout.array(values(numbers[name], column, batches)), column.metadata)
        for name, column in columns.items()
        if name not in dims
    }
    result = xarray.Dataset(variables, coords, common_attributes(column.metadata for column in columns.values()))
    return result.set_coords([name for name in variables if COORDINATE in columns[name].metadata])


class _Reshaped:
    """Rows that are the cells of an array in row-major order, in any order of the dimensions."""

    def __init__(self, axes: list[Axis], extents: list[int], order: list[int], keys: list[Any]) -> None:
        np = library("numpy", "Relation.to_xarray()")
        self._shape = [extents[axis] for axis in order]
        self._transposed = [order.index(axis) for axis in range(len(axes))]
        self.coordinates = []
        #: The indices along an axis whose rows are in another order than its coordinates.
        self._moved: dict[int, numpy.ndarray] = {}
        for number, (axis, found) in enumerate(zip(axes, keys)):
            indices = axis.sorting(found)
            if not np.array_equal(indices, np.arange(len(indices))):
                self._moved[number] = indices
                found = found[indices]
            self.coordinates.append(axis.coordinates(found))

    @classmethod
    def of(cls, axes: list[Axis], rows: int) -> _Reshaped | None:
        """Returns the layout of the rows, or ``None`` if they are not in row-major order."""
        np = library("numpy", "Relation.to_xarray()")
        if rows == 0:
            return None
        # The number of rows until the coordinate of an axis changes. The axis of the longest runs is the outermost.
        steps = []
        for axis in axes:
            change = axis.keys != axis.keys[0]
            if change[0]:
                # NaN and NaT are not equal to themselves.
                return None
            first = int(change.argmax())
            steps.append(first if change[first] else rows)
        order = sorted(range(len(axes)), key=lambda axis: -steps[axis])
        extents = [1] * len(axes)
        keys: list[Any] = [None] * len(axes)
        outer = rows
        for axis in order:
            step = steps[axis]
            extent, rest = divmod(outer, step)
            if rest:
                return None
            found = axes[axis].keys
            keys[axis] = found[: outer : step]
            grid = found.reshape(-1, extent, step)
            if not (grid == keys[axis][None, :, None]).all() or len(np.unique(keys[axis])) < extent:
                return None
            extents[axis] = extent
            outer = step
        return cls(axes, extents, order, keys) if outer == 1 else None

    def array(self, column: numpy.ndarray) -> numpy.ndarray:
        """Returns a column as an array over the dimensions, which is copied only if an axis is in another order."""
        array = column.reshape(self._shape).transpose(self._transposed)
        for axis, indices in self._moved.items():
            array = array.take(indices, axis)
        return array


class _Scattered:
    """Rows in any order. Cells without a row are missing."""

    def __init__(self, axes: list[Axis], rows: int) -> None:
        np = library("numpy", "Relation.to_xarray()")
        self.coordinates = []
        indices = []
        for axis in axes:
            keys, index = np.unique(axis.keys, return_inverse=True)
            sorting = axis.sorting(keys)
            self.coordinates.append(axis.coordinates(keys[sorting]))
            moved = np.empty_like(sorting)
            moved[sorting] = np.arange(len(sorting))
            indices.append(moved[index])
        self._shape = tuple(len(coordinates) for coordinates in self.coordinates)
        self._cells = np.ravel_multi_index(indices, self._shape) if rows else np.empty(0, dtype=np.int64)
        self._is_full = math.prod(self._shape) == rows
        if len(np.unique(self._cells)) < rows:
            names = ", ".join(axis.name for axis in axes)
            raise _tet_sql.Error(
                f"several rows have the same coordinates along {names}: group by these columns, or name further "
                "dimensions with to_xarray(dims=[...])"
            )

    def array(self, column: numpy.ndarray) -> numpy.ndarray:
        """Returns a column as an array over the dimensions."""
        np = library("numpy", "Relation.to_xarray()")
        dtype, missing = column.dtype, None
        if dtype.kind in "iu" and not self._is_full:
            dtype, missing = np.dtype("float64"), np.nan
        elif dtype.kind == "b" and not self._is_full:
            dtype = np.dtype(object)
        elif dtype.kind == "f":
            missing = np.nan
        elif dtype.kind in "mM":
            missing = np.array("NaT", dtype=dtype)
        if self._is_full:
            array = np.empty(self._shape, dtype=dtype)
        else:
            array = np.full(self._shape, missing, dtype=dtype)
        array.reshape(-1)[self._cells] = column
        return array


def _collapsed(dims: Sequence[str], array: Any, metadata: dict[str, str]) -> tuple[Any, Any, dict[str, Any]]:
    """Returns a variable, without the dimensions along which it was repeated when it was registered."""
    np = library("numpy", "Relation.to_xarray()")
    own = json.loads(metadata.get(DIMS, "null"))
    if own is not None and set(own) <= set(dims):
        # The ellipsis makes the cell of an array without dimensions an array, too.
        first = array[(..., *(slice(None) if name in own else slice(0, 1) for name in dims))]
        # Aggregates and filters can make the values differ.
        if first.size and ((array == first) | ((array != array) & (first != first))).all():
            kept = [name for name in dims if name in own]
            collapsed = first.reshape([size for size, name in zip(array.shape, dims) if name in own])
            return own, *_dated(collapsed.transpose([kept.index(name) for name in own]), metadata)
    return list(dims), *_dated(np.asarray(array), metadata)


def _dated(array: Any, metadata: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """Returns an array and its attributes. Dates as text become objects, which have a calendar themselves."""
    attributes = decoded(metadata)
    if array.dtype.kind == "M":
        # `units` and `calendar` describe the stored numbers, and xarray refuses to encode times that have them.
        attributes = {key: value for key, value in attributes.items() if key not in ("units", "calendar")}
    calendar = stored_calendar(metadata)
    found = None if calendar is None else dates(array, calendar)
    if found is None:
        return array, attributes
    if attributes.get(CALENDAR) == calendar:
        del attributes[CALENDAR]
    return found, attributes
