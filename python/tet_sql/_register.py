"""Objects of other libraries as tables."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tet_sql
from ._calendars import CALENDAR, calendar_of, is_missing
from ._libraries import is_a, library
from ._metadata import ATTRIBUTES, CALENDAR_MARK, COORDINATE, DIMS, DTYPE, INDEX, encoded

if TYPE_CHECKING:
    import numpy
    import xarray

#: The number of cells of a chunk of an array in memory.
CHUNK_CELLS = 1 << 20
#: The number from which on integers are not exact in float64.
EXACT_INTEGERS = 1 << 53
#: The maximum number of cells in which texts are repeated, with eight bytes of memory each.
REPEATED_TEXTS = 1 << 27


def register(
    session: Any,
    name: str,
    obj: Any,
    dims: Sequence[str] | None,
    coords: Mapping[str, Any] | None,
) -> None:
    """Makes an object a table of a session."""
    if is_a(obj, "numpy", "ndarray"):
        _register_array(session, name, obj, dims, coords or {})
        return
    if dims is not None or coords is not None:
        raise TypeError("dims and coords apply to NumPy arrays only")
    if is_a(obj, "xarray", "DataArray"):
        _register_dataset(session, name, obj.to_dataset(name="value" if obj.name is None else obj.name))
    elif is_a(obj, "xarray", "Dataset"):
        _register_dataset(session, name, obj)
    elif is_a(obj, "pandas", "Series") or is_a(obj, "polars", "Series"):
        raise TypeError("cannot register a Series, expected a frame: register series.to_frame()")
    elif hasattr(obj, "__arrow_c_stream__"):
        # Polars exports the type Null, also in lists and structs, with a buffer, which the interface does not allow.
        has_nulls = is_a(obj, "polars", "DataFrame") and any("Null" in str(dtype) for dtype in obj.dtypes)
        session.register_batches(name, obj.to_arrow() if has_nulls else obj)
    else:
        raise TypeError(
            f"cannot register an object of type {type(obj).__name__}, expected an xarray object, a NumPy array, a "
            "pandas or Polars frame, or an object with __arrow_c_stream__"
        )


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
        if np.ma.is_masked(coords.get(dim)):
            raise ValueError(f"the coordinates of {dim} have masked values, expected a value at every index")
        along = np.arange(extent)
        if dim in coords:
            is_zoned = is_a(coords[dim], "pandas", "DatetimeIndex") and coords[dim].tz is not None
            along = np.asarray(coords[dim].tz_convert(None) if is_zoned else coords[dim])
        if along.shape != (extent,):
            raise ValueError(f"the coordinates of {dim} have shape {along.shape}, expected ({extent},)")
        axes.append(_in_memory(dim, {} if dim in coords else {INDEX: ""}, along))
    column = name if "value" in dims else "value"
    session.register_grid(name, axes, [_in_memory(column, {}, _unmasked(name, array))], _chunk_shape(array.shape))


def _unmasked(name: str, array: numpy.ndarray, kind: str = "masked array", fill: str = "filled") -> numpy.ndarray:
    """Returns a masked array with NaN, NaT or ``None`` in its masked cells, and any other array as it is.

    Integers become ``float64``. Error messages name the kind of the user's array, and its method that replaces NULLs.
    """
    np = library("numpy", "registering an array")
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if not np.ma.is_masked(array):
        return array.data
    dtype = array.dtype
    if _supported(name, dtype) is None:
        dtype = np.dtype(object)
    elif dtype.kind in "iu":
        dtype = np.dtype("float64")
    elif dtype.kind == "b":
        raise _tet_sql.UnsupportedError(
            f"{name} is a {kind} of booleans, which cannot be NULL: register array.astype('float64') or "
            f"array.{fill}(value)"
        )
    cells = _as_type(name, array.data, dtype, copy=True)
    # NumPy converts `None` to NaN or NaT.
    cells[array.mask] = None
    if array.dtype.kind in "iu" and (np.abs(cells) >= EXACT_INTEGERS).any():
        raise _tet_sql.UnsupportedError(
            f"{name} is a {kind} of type {array.dtype} with integers of 2^53 or more, which are not exact in float64: "
            f"register array.astype('float64') or array.{fill}(value)"
        )
    return cells


def _register_dataset(session: Any, name: str, dataset: xarray.Dataset) -> None:
    np = library("numpy", "registering a Dataset")
    if not dataset.data_vars:
        raise ValueError("the Dataset has no data variables")
    variables, errors = _readable(dataset.data_vars)
    if not variables:
        raise errors[0]
    widest = max(variables, key=lambda key: variables[key][0].ndim)
    dims = list(variables[widest][0].dims)
    for key, (variable, _) in variables.items():
        further = [dim for dim in variable.dims if dim not in dims]
        if further:
            raise ValueError(
                f"variable {key} has the dimension {further[0]}, which {widest} with the dimensions "
                f"{', '.join(map(str, dims))} does not have: register the variables as two tables, such as "
                f"dataset[[{key!r}]]"
            )
    others = {
        key: variable
        for key, variable in dataset.coords.items()
        if key not in dims and set(variable.dims) <= set(dims)
    }
    coordinates, more_errors = _readable(others)
    left_out = [str(error) for error in errors + more_errors]
    shape = tuple(dataset.sizes[dim] for dim in dims)
    shared = {ATTRIBUTES: json.dumps(encoded(dataset.attrs), sort_keys=True)} if dataset.attrs else {}
    axes = []
    for dim in dims:
        if dim in dataset.coords:
            coordinate = _of_numpy(str(dim), dataset.coords[dim].variable)
            metadata = encoded(coordinate.attrs) | shared
            if coordinate.dtype.kind == "f" and coordinate.dtype.itemsize < 8:
                metadata[DTYPE] = str(coordinate.dtype)
            axes.append(_in_memory(str(dim), metadata, coordinate.values))
        else:
            axes.append(_in_memory(str(dim), {INDEX: ""} | shared, np.arange(dataset.sizes[dim])))
    columns = []
    for key, (variable, texts) in (coordinates | variables).items():
        if texts is not None and variable.size < math.prod(shape) and math.prod(shape) > REPEATED_TEXTS:
            left_out.append(f"{key} has texts that are repeated in more than {REPEATED_TEXTS:,} cells")
            continue
        marks = ({COORDINATE: ""} if key in coordinates else {}) | shared
        columns.append(_column(str(key), variable, texts, marks, dims, shape))
    session.register_grid(name, axes, columns, _chunks_of(variables, dims, shape))
    for reason in left_out:
        warnings.warn(f"{reason}; the variable is left out", stacklevel=4)


def _readable(
    variables: Mapping[Any, xarray.DataArray],
) -> tuple[dict[Any, tuple[xarray.Variable, list[str] | None]], list[_tet_sql.UnsupportedError]]:
    """Returns the variables whose types SQL has, and errors for the others.

    A variable of texts is loaded, and returned as indices of its distinct texts, which are returned with it.
    """
    found = {}
    errors = []
    for key, array in variables.items():
        texts = None
        try:
            variable = _of_numpy(str(key), array.variable)
            if _supported(str(key), variable.dtype) is None:
                attributes, indices, texts = _indexed(str(key), variable.attrs, variable.values)
                variable = variable.copy(data=indices)
                variable.attrs = attributes
            found[key] = variable, texts
        except _tet_sql.UnsupportedError as error:
            errors.append(error)
    return found, errors


def _of_numpy(name: str, variable: xarray.Variable) -> xarray.Variable:
    """Converts a variable of a pandas type to NumPy.

    Times with a time zone become UTC, nullable numbers and booleans become plain ones.
    """
    np = library("numpy", "registering a Dataset")
    if isinstance(variable.dtype, np.dtype):
        return variable
    pandas = library("pandas", "registering a Dataset")
    if isinstance(variable.dtype, pandas.DatetimeTZDtype):
        return variable.copy(data=pandas.DatetimeIndex(variable.data).tz_convert(None).to_numpy())
    dtype = getattr(variable.dtype, "numpy_dtype", None)
    if dtype is None or dtype.kind not in "biuf":
        return variable
    series = pandas.Series(variable.data)
    cells = series.to_numpy(dtype, na_value=dtype.type(0))
    masked = np.ma.masked_array(cells, series.isna())
    return variable.copy(data=_unmasked(name, masked, "pandas array with NA", "fillna"))


def _column(
    name: str,
    variable: xarray.Variable,
    texts: list[str] | None,
    marks: dict[str, str],
    dims: list[Any],
    shape: tuple[int, ...],
) -> Any:
    """Returns a variable over these dimensions, along some of which it may be repeated."""
    np = library("numpy", "registering a Dataset")
    metadata = encoded(variable.attrs) | marks
    if set(variable.dims) != set(dims):
        metadata[DIMS] = json.dumps([str(dim) for dim in variable.dims])
    dtype = _supported(name, variable.dtype)
    # xarray has no public test for arrays that are read on access.
    if variable._in_memory and tuple(variable.dims) == tuple(dims):
        values = _as_type(name, variable.values, dtype)
        if values.flags.c_contiguous:
            return _tet_sql.Variable(name, metadata, np.require(values, dtype, ["C", "A"]), texts)
    positions = [axis for axis, dim in enumerate(dims) if dim in variable.dims]

    def read(starts: Sequence[int], ends: Sequence[int]) -> numpy.ndarray:
        box = {dims[axis]: slice(starts[axis], ends[axis]) for axis in positions}
        found = variable.isel(box).transpose(*(dims[axis] for axis in positions)).values
        extents = [end - start for start, end in zip(starts, ends)]
        expanded = [extent if axis in positions else 1 for axis, extent in enumerate(extents)]
        repeated = np.broadcast_to(_as_type(name, found, dtype).reshape(expanded), extents)
        return np.require(repeated, dtype, ["C", "A"])

    if texts is not None:
        # The extension module takes texts only in memory.
        return _tet_sql.Variable(name, metadata, read([0] * len(shape), shape), texts)
    return _tet_sql.Variable.lazy(name, metadata, shape, dtype.str, read)


def _supported(name: str, dtype: Any) -> Any:
    """Returns the type in which values are read; ``None`` for texts and other objects."""
    np = library("numpy", "registering an array")
    if dtype.kind in "OUST" or not isinstance(dtype, np.dtype):
        # NumPy stores values of pandas' own types as objects.
        return None
    if dtype.kind not in "biufmM" or dtype.itemsize > 8:
        raise _tet_sql.UnsupportedError(
            f"{name} has the type {dtype}, expected booleans, numbers of up to 64 bits, texts or times"
        )
    if dtype.kind in "mM":
        unit, _ = np.datetime_data(dtype)
        if unit in ("ps", "fs", "as") or (dtype.kind == "m" and unit in ("Y", "M")):
            raise _tet_sql.UnsupportedError(
                f"{name} has the type {dtype}, expected a unit of time from nanoseconds to weeks"
            )
        return np.dtype(f"{dtype.kind}8[{unit if unit in ('s', 'ms', 'us', 'ns') else 's'}]")
    return dtype.newbyteorder("=")


def _as_type(name: str, array: numpy.ndarray, dtype: Any, copy: bool = False) -> numpy.ndarray:
    """Returns an array with the type in which its values are read.

    Raises an error for times that are too large for the unit, which NumPy wraps.
    """
    np = library("numpy", "registering an array")
    cells = array.astype(dtype, copy=copy)
    if array.dtype.kind in "mM" and dtype.kind in "mM" and np.datetime_data(array.dtype) != np.datetime_data(dtype):
        wrapped = (cells.astype(array.dtype) != array) & ~np.isnat(array)
        if wrapped.any():
            raise _tet_sql.UnsupportedError(
                f"{name} has the value {array[wrapped][0]!r}, which is outside of the range of {dtype}"
            )
    return cells


def _in_memory(name: str, metadata: dict[str, str], array: numpy.ndarray) -> Any:
    """Returns an array, which is copied only if its cells are not plain and in row-major order."""
    np = library("numpy", "registering an array")
    dtype = _supported(name, array.dtype)
    if dtype is not None:
        return _tet_sql.Variable(name, metadata, np.require(_as_type(name, array, dtype), dtype, ["C", "A"]))
    metadata, indices, texts = _indexed(name, metadata, array)
    return _tet_sql.Variable(name, metadata, indices, texts)


def _indexed(
    name: str, attributes: Mapping[Any, Any], array: numpy.ndarray
) -> tuple[dict[Any, Any], numpy.ndarray, list[str]]:
    """Returns an array of texts, or of objects that become texts, as indices of the distinct texts.

    The first value has the attributes of the array, and names the calendar of dates.
    """
    np = library("numpy", "registering an array")
    values = array.reshape(-1).tolist()
    if calendar := calendar_of(values):
        # An attribute of the object with this name is kept.
        attributes = {CALENDAR: calendar, **attributes, CALENDAR_MARK: calendar}
    elif CALENDAR in attributes:
        # Texts that look like dates of the calendar stay texts.
        attributes = {**attributes, CALENDAR_MARK: ""}
    numbers: dict[str, int] = {}
    indices = np.full(len(values), -1, dtype=np.int64)
    for cell, value in enumerate(values):
        if not is_missing(value):
            indices[cell] = numbers.setdefault(_as_text(name, value), len(numbers))
    for text in numbers:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _not_utf8(name, text) from error
    return dict(attributes), indices.reshape(array.shape), list(numbers)


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(name, value) from error
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise _tet_sql.UnsupportedError(
        f"{name} has the type object and a value of type {type(value).__name__}, expected texts or times"
    )


def _not_utf8(name: str, text: str | bytes) -> _tet_sql.UnsupportedError:
    return _tet_sql.UnsupportedError(f"{name} has the text {text!r}, which is not UTF-8")


def _chunks_of(
    variables: Mapping[Any, tuple[xarray.Variable, Any]], dims: list[Any], shape: tuple[int, ...]
) -> list[int]:
    """Returns the chunks of the first variable that has chunks, or chunks of an array in memory."""
    for variable, _ in variables.values():
        if list(variable.dims) != dims:
            continue
        if variable.chunks is not None:
            return [max(1, sizes[0]) for sizes in variable.chunks]
        preferred = variable.encoding.get("preferred_chunks")
        if preferred and not variable._in_memory:
            return [max(1, preferred.get(dim, extent)) for dim, extent in zip(dims, shape)]
    return _chunk_shape(shape)


def _chunk_shape(shape: tuple[int, ...]) -> list[int]:
    """Returns chunks that are contiguous in memory."""
    chunks = []
    for extent in reversed(shape):
        inner = math.prod(chunks)
        chunks.append(max(1, min(extent, CHUNK_CELLS // max(1, inner))))
    return chunks[::-1]
