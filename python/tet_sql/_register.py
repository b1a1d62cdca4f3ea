"""Objects of other libraries as tables."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tet_sql
from ._calendars import CALENDAR, calendar_of
from ._libraries import library
from ._metadata import ATTRIBUTES, CALENDAR_MARK, COORDINATE, DIMS, DTYPE, INDEX, encoded

if TYPE_CHECKING:
    import numpy
    import xarray

#: The number of cells of a chunk of an array in memory.
CHUNK_CELLS = 1 << 20


def register(
    session: Any,
    name: str,
    obj: Any,
    dims: Sequence[str] | None,
    coords: Mapping[str, Any] | None,
) -> None:
    """Makes an object a table of a session."""
    if _is(obj, "numpy", "ndarray"):
        _register_array(session, name, obj, dims, coords or {})
        return
    if dims is not None or coords is not None:
        raise TypeError("dims and coords apply to NumPy arrays only")
    if _is(obj, "xarray", "DataArray"):
        _register_dataset(session, name, obj.to_dataset(name="value" if obj.name is None else obj.name))
    elif _is(obj, "xarray", "Dataset"):
        _register_dataset(session, name, obj)
    elif hasattr(obj, "__arrow_c_stream__"):
        session.register_batches(name, obj)
    else:
        raise TypeError(
            f"cannot register an object of type {type(obj).__name__}, expected an xarray object, a NumPy array, a "
            "pandas or Polars frame, or an object with __arrow_c_stream__"
        )


def _is(obj: Any, module: str, name: str) -> bool:
    """Returns ``True`` if an object is of a class of a library, which is not imported for the test."""
    imported = sys.modules.get(module)
    return imported is not None and isinstance(obj, getattr(imported, name))


def _register_array(
    session: Any,
    name: str,
    array: numpy.ndarray,
    dims: Sequence[str] | None,
    coords: Mapping[str, Any],
) -> None:
    np = library("numpy", "registering an array")
    dims = [f"dim_{axis}" for axis in range(array.ndim)] if dims is None else list(dims)
    if len(dims) != array.ndim or len(set(dims)) < len(dims):
        raise ValueError(f"dims is {dims}, expected {array.ndim} distinct names for an array of shape {array.shape}")
    unknown = [one for one in coords if one not in dims]
    if unknown:
        raise ValueError(f"coords has {unknown[0]!r}, which is not one of the dimensions {dims}")
    axes = []
    for dim, extent in zip(dims, array.shape):
        along = np.asarray(coords[dim]) if dim in coords else np.arange(extent)
        if along.shape != (extent,):
            raise ValueError(f"the coordinates of {dim} have shape {along.shape}, expected ({extent},)")
        axes.append(_in_memory(dim, {} if dim in coords else {INDEX: ""}, along))
    column = name if "value" in dims else "value"
    session.register_grid(name, axes, [_in_memory(column, {}, array)], _chunk_shape(array.shape))


def _register_dataset(session: Any, name: str, dataset: xarray.Dataset) -> None:
    np = library("numpy", "registering a Dataset")
    variables = dict(dataset.data_vars)
    if not variables:
        raise ValueError("the Dataset has no data variables")
    widest = max(variables.values(), key=lambda variable: variable.ndim)
    dims = list(widest.dims)
    for variable_name, variable in variables.items():
        further = [dim for dim in variable.dims if dim not in dims]
        if further:
            raise ValueError(
                f"variable {variable_name} has the dimension {further[0]}, which {widest.name} with the dimensions "
                f"{', '.join(map(str, dims))} does not have: register the variables as two tables, such as "
                f"dataset[[{variable_name!r}]]"
            )
    coordinates = {
        key: variable
        for key, variable in dataset.coords.items()
        if key not in dims and set(variable.dims) <= set(dims)
    }
    shape = tuple(dataset.sizes[dim] for dim in dims)
    shared = {ATTRIBUTES: json.dumps(encoded(dataset.attrs), sort_keys=True)} if dataset.attrs else {}
    axes = []
    for dim in dims:
        if dim in dataset.coords:
            coordinate = dataset.coords[dim]
            metadata = encoded(coordinate.attrs) | shared
            if coordinate.dtype.kind == "f" and coordinate.dtype.itemsize < 8:
                metadata[DTYPE] = str(coordinate.dtype)
            axes.append(_in_memory(str(dim), metadata, coordinate.values))
        else:
            axes.append(_in_memory(str(dim), {INDEX: ""} | shared, np.arange(dataset.sizes[dim])))
    columns = [
        _column(str(key), variable.variable, ({COORDINATE: ""} if key in coordinates else {}) | shared, dims, shape)
        for key, variable in (coordinates | variables).items()
    ]
    session.register_grid(name, axes, columns, _chunks_of(variables, dims, shape))


def _column(
    name: str, variable: xarray.Variable, marks: dict[str, str], dims: list[Any], shape: tuple[int, ...]
) -> Any:
    """Returns a variable over these dimensions, along some of which it may be repeated."""
    np = library("numpy", "registering a Dataset")
    metadata = encoded(variable.attrs) | marks
    if set(variable.dims) != set(dims):
        metadata[DIMS] = json.dumps([str(dim) for dim in variable.dims])
    dtype = _supported(variable.dtype)
    # xarray has no public test for arrays that are read on access.
    is_in_memory = variable._in_memory
    if is_in_memory and (tuple(variable.dims) == tuple(dims) or dtype is None):
        values = variable.values if dtype is None else variable.values.astype(dtype, copy=False)
        if dtype is None:
            texts = values.transpose([variable.dims.index(dim) for dim in dims if dim in variable.dims])
            expanded = [size if dim in variable.dims else 1 for dim, size in zip(dims, shape)]
            values = np.broadcast_to(texts.reshape(expanded), shape)
        if dtype is None or values.flags.c_contiguous:
            return _in_memory(name, metadata, values)
    if dtype is None:
        raise TypeError(f"variable {name} of type {variable.dtype} is not in memory: load it first")
    positions = [axis for axis, dim in enumerate(dims) if dim in variable.dims]

    def read(starts: list[int], ends: list[int]) -> numpy.ndarray:
        box = {dims[axis]: slice(starts[axis], ends[axis]) for axis in positions}
        found = variable.isel(box).transpose(*(dims[axis] for axis in positions)).values
        extents = [end - start for start, end in zip(starts, ends)]
        expanded = [extent if axis in positions else 1 for axis, extent in enumerate(extents)]
        repeated = np.broadcast_to(found.reshape(expanded), extents)
        return np.require(repeated, dtype, ["C", "A"])

    return _tet_sql.Variable.lazy(name, metadata, shape, dtype.str, read)


def _supported(dtype: Any) -> Any:
    """Returns the type in which values are read; ``None`` for texts and other objects."""
    np = library("numpy", "registering an array")
    if dtype.kind in "OUST":
        return None
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count != 1 or unit not in ("s", "ms", "us", "ns"):
            return np.dtype(f"{dtype.kind}8[s]")
    return dtype.newbyteorder("=")


def _in_memory(name: str, metadata: dict[str, str], array: numpy.ndarray) -> Any:
    """Returns an array, which is copied only if its cells are not plain and in row-major order."""
    np = library("numpy", "registering an array")
    dtype = _supported(array.dtype)
    if dtype is not None:
        return _tet_sql.Variable(name, metadata, np.require(array, dtype, ["C", "A"]))
    if calendar := calendar_of(array.reshape(-1).tolist()):
        # An attribute of the object with this name is kept.
        metadata = {CALENDAR: calendar} | metadata | {CALENDAR_MARK: calendar}
    numbers: dict[str, int] = {}
    indices = np.empty(array.shape, dtype=np.int64)
    for cell, value in enumerate(array.reshape(-1).tolist()):
        if value is None or value != value:
            indices.reshape(-1)[cell] = -1
            continue
        text = _as_text(name, value)
        indices.reshape(-1)[cell] = numbers.setdefault(text, len(numbers))
    return _tet_sql.Variable(name, metadata, indices, list(numbers))


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{name} has a value of type {type(value).__name__}, expected numbers, times or texts")


def _chunks_of(variables: dict[Any, Any], dims: list[Any], shape: tuple[int, ...]) -> list[int]:
    """Returns the chunks of the first variable that has chunks, or chunks of an array in memory."""
    for variable in variables.values():
        if list(variable.dims) != dims:
            continue
        if variable.chunks is not None:
            return [max(1, sizes[0]) for sizes in variable.chunks]
        preferred = variable.encoding.get("preferred_chunks")
        if preferred and not variable.variable._in_memory:
            return [max(1, preferred.get(dim, extent)) for dim, extent in zip(dims, shape)]
    return _chunk_shape(shape)


def _chunk_shape(shape: tuple[int, ...]) -> list[int]:
    """Returns chunks that are contiguous in memory."""
    chunks = []
    for extent in reversed(shape):
        inner = math.prod(chunks)
        chunks.append(max(1, min(extent, CHUNK_CELLS // max(1, inner))))
    return chunks[::-1]
