"""Writes the classic NetCDF files of this directory, and what netCDF4-python reads from them.

    python generate.py

Needs netCDF4, numpy and scipy. Each `NAME.nc` has a `NAME.json` with every variable: its dimensions, shape, stored type,
attributes, and values. Values are unpacked and masked, as netCDF4-python does by default except for `valid_min`,
`valid_max` and `valid_range`; masked values are null. Files that cannot be read in full have no JSON.
"""

import json
import math
import pathlib
import warnings

import netCDF4
import numpy
from scipy.io import netcdf_file

HERE = pathlib.Path(__file__).parent
CLASSIC, OFFSETS, DATA = "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"
VERSIONS = {CLASSIC: 1, OFFSETS: 2, DATA: 5}
TYPES = ["i1", "i2", "i4", "f4", "f8"]
ALL_TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
NAMES = {
    "i1": "byte", "u1": "ubyte", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "int64", "u8": "uint64",
    "f4": "float", "f8": "double", "S1": "char",
}


def values(type_, shape, start=0):
    """Returns values that use all bytes of a type, and its extremes."""
    count = math.prod(shape)
    if type_.startswith("f"):
        result = (numpy.arange(start, start + count) * 1.37 - 20).astype(type_)
        result[-1:] = numpy.inf
    else:
        info = numpy.iinfo(type_)
        step = (int(info.max) - int(info.min)) // max(count, 1)
        numbers = [int(info.min) + (start + index) * step % (int(info.max) - int(info.min)) for index in range(count)]
        result = numpy.array(numbers, type_)
        result[-1:] = info.max - 7
    return result.reshape(shape)


def create(name, version):
    dataset = netCDF4.Dataset(HERE / f"{name}.nc", "w", format=version)
    dataset.set_auto_maskandscale(False)
    return dataset


def add(dataset, name, type_, dimensions, data, **attributes):
    fill = attributes.pop("_FillValue", None)
    variable = dataset.createVariable(name, type_, dimensions, fill_value=fill)
    variable.set_auto_maskandscale(False)
    for key, value in attributes.items():
        variable.setncattr(key, value)
    if data is not None:
        variable[:] = data
    return variable


def characters(texts, width):
    return numpy.array([list(text.encode().ljust(width, b"\0")) for text in texts], "u1").view("S1")


def types(version):
    """Every type, as a scalar, a fixed variable, and a variable with records; sizes that need padding."""
    with create(f"types_cdf{VERSIONS[version]}", version) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 3)
        dataset.createDimension("y", 5)
        dataset.title = "all types"
        dataset.setncattr("numbers", numpy.array([1, -2, 3], "i2"))
        dataset.setncattr("half", 0.5)
        for number, type_ in enumerate(ALL_TYPES if version == DATA else TYPES):
            name = NAMES[type_]
            add(dataset, f"{name}_scalar", type_, (), values(type_, ())[()])
            add(dataset, f"{name}_fixed", type_, ("x", "y"), values(type_, (3, 5), number))
            add(dataset, f"{name}_records", type_, ("time", "x"), values(type_, (4, 3), number),
                kind=numpy.array([1], type_), list=values(type_, (3,)))


def one_record_variable():
    """A single variable with records has no padding between them."""
    for type_ in ["i1", "i2", "f8"]:
        with create(f"one_record_{NAMES[type_]}", CLASSIC) as dataset:
            dataset.createDimension("time", None)
            dataset.createDimension("x", 3)
            add(dataset, "fixed", "i1", ("x",), [1, 2, 3])
            add(dataset, "v", type_, ("time", "x"), values(type_, (5, 3)))


def no_records():
    with create("no_records", CLASSIC) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 2)
        add(dataset, "x", "f4", ("x",), [0.5, 1.5], units="m")
        add(dataset, "time", "i4", ("time",), None, units="days since 2000-01-01")
        add(dataset, "v", "f4", ("time", "x"), None)
        add(dataset, "flag", "S1", ("time",), None)


def texts():
    """Strings along a dimension of characters, and single characters along other dimensions."""
    with create("texts", OFFSETS) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("station", 4)
        dataset.createDimension("name_strlen", 7)
        dataset.createDimension("level", 3)
        dataset.createDimension("DateStrLen", 19)
        add(dataset, "name", "S1", ("station", "name_strlen"), characters(["Ely", "", "Köln", "a b  "], 7), long_name="name")
        add(dataset, "Times", "S1", ("time", "DateStrLen"),
            characters([f"2000-01-0{day}_00:00:00" for day in (1, 2, 3)], 19))
        add(dataset, "flag", "S1", ("time", "level"), characters(["112", "123", "4 1"], 3))
        add(dataset, "v", "f4", ("time", "level"), values("f4", (3, 3)))
        add(dataset, "title", "S1", ("name_strlen",), characters(["short"], 7)[0])
        add(dataset, "letter", "S1", (), b"q")


def missing():
    """Packed values, and all ways to say that a value is missing."""
    with create("missing", DATA) as dataset:
        dataset.createDimension("x", 6)
        short = numpy.array([1, 2, -32767, 4, -1, 100], "i2")
        byte = numpy.array([1, 2, -127, -1, -2, 100], "i1")
        real = numpy.array([1, numpy.nan, 9.96921e36, -9999, 1e20, 100], "f4")
        x = ("x",)
        add(dataset, "default", "i2", x, short)
        add(dataset, "default_float", "f4", x, real)
        add(dataset, "fill", "i2", x, short, _FillValue=numpy.int16(4))
        add(dataset, "fill_nan", "f4", x, real, _FillValue=numpy.float32(numpy.nan))
        add(dataset, "both", "i2", x, short, _FillValue=numpy.int16(4), missing_value=numpy.int16(100))
        add(dataset, "list", "i2", x, short, missing_value=numpy.array([1, 2], "i2"))
        add(dataset, "other_type", "i2", x, short, missing_value=-1.0)
        add(dataset, "double", "f8", x, real.astype("f8"), missing_value=numpy.float32(1e20))
        add(dataset, "unsigned", "i1", x, byte, _Unsigned="true", _FillValue=numpy.int8(-1))
        add(dataset, "unsigned_list", "i1", x, byte, _Unsigned="true", missing_value=numpy.array([-2, 100], "i1"))
        add(dataset, "unsigned_short", "i2", x, short, _Unsigned="true", scale_factor=0.5)
        add(dataset, "packed", "i2", x, short, scale_factor=0.25, add_offset=-3.0, _FillValue=numpy.int16(-32767))
        add(dataset, "packed_byte", "i1", x, byte, scale_factor=numpy.float32(0.5), _FillValue=numpy.int8(-2))
        add(dataset, "valid", "i2", x, short, valid_range=numpy.array([0, 50], "i2"), _FillValue=numpy.int16(-1))
        add(dataset, "valid_min", "i2", x, short, valid_min=numpy.int16(0), valid_max=numpy.int16(50))


def cf():
    """A small climate file with coordinates, CF times, bounds and packed values."""
    for year in (2000, 2001):
        with create(f"cf_{year}", OFFSETS) as dataset:
            dataset.Conventions = "CF-1.8"
            dataset.history = "written for a test"
            dataset.createDimension("time", None)
            dataset.createDimension("lat", 4)
            dataset.createDimension("lon", 3)
            dataset.createDimension("bnds", 2)
            add(dataset, "lat", "f4", ("lat",), [-30.3, 0.1, 33.3, 60.7], units="degrees_north")
            add(dataset, "lon", "f8", ("lon",), [0.0, 120.0, 240.0], units="degrees_east")
            months = 6
            days = [31 * month + 366 * (year - 2000) for month in range(months)]
            add(dataset, "time", "i4", ("time",), days, units="days since 2000-01-01", calendar="standard", bounds="time_bnds")
            add(dataset, "time_bnds", "f8", ("time", "bnds"), [[day, day + 31] for day in days])
            packed = numpy.arange(months * 12).reshape(months, 4, 3) * 37 % 1000 - 2500 + year
            packed[1, 2, :] = -32767
            add(dataset, "t2m", "i2", ("time", "lat", "lon"), packed, units="K", scale_factor=0.01, add_offset=273.15,
                _FillValue=numpy.int16(-32767))
            add(dataset, "rain", "f4", ("time", "lat", "lon"), values("f4", (months, 4, 3), year)[:], units="mm")
            add(dataset, "mask", "i1", ("lat", "lon"), numpy.arange(12).reshape(4, 3) % 2)


def calendars():
    with create("calendars", CLASSIC) as dataset:
        for name in ["noleap", "360_day", "julian"]:
            dataset.createDimension(name, 3)
            add(dataset, name, "f8", (name,), [58.0, 59.5, 60.25], units="days since 2000-01-01 00:00:00", calendar=name)
        dataset.createDimension("hours", 2)
        add(dataset, "hours", "i4", ("hours",), [0, 36], units="hours since 1999-12-31 12:00")


def eight_dimensions():
    with create("eight", DATA) as dataset:
        shape = (2, 1, 3, 2, 2, 1, 2, 3)
        names = [f"d{axis}" for axis in range(8)]
        for axis, (name, extent) in enumerate(zip(names, shape)):
            dataset.createDimension(name, None if axis == 0 else extent)
        add(dataset, "v", "i8", names, values("i8", shape))
        add(dataset, "w", "u2", names[1:], values("u2", shape[1:]))
        add(dataset, "same", "i2", ("d2", "d3"), values("i2", (3, 2)))


def by_scipy():
    for name, version in [("scipy_1", 1), ("scipy_2", 2)]:
        with netcdf_file(HERE / f"{name}.nc", "w", version=version) as dataset:
            dataset.history = b"Fran\xe7ois"
            dataset.createDimension("time", None)
            dataset.createDimension("x", 3)
            for type_ in TYPES:
                dataset.createVariable(NAMES[type_], type_, ("time", "x"))[:] = values(type_, (3, 3))
            dataset.createVariable("fixed", "i2", ("x",))[:] = [1, 2, 3]
            dataset.variables["fixed"].scale_factor = 0.1


def broken():
    """A file cut off in the cells, and one written as a stream, which the NetCDF library does not read."""
    whole = (HERE / "cf_2000.nc").read_bytes()
    (HERE / "cut.nc").write_bytes(whole[:-200])
    with create("stream", CLASSIC) as dataset:
        dataset.createDimension("time", None)
        add(dataset, "a", "i2", ("time",), [1, 2, 3])
        add(dataset, "b", "f8", ("time",), [1.5, 2.5, 3.5])
    write_expected(HERE / "stream.nc")
    stream = bytearray((HERE / "stream.nc").read_bytes())
    stream[4:8] = b"\xff" * 4
    (HERE / "stream.nc").write_bytes(stream)


def plain(value):
    """Returns a value as JSON: NaN and infinities are strings."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def flat(array):
    mask = numpy.ma.getmaskarray(array).ravel()
    data = numpy.ma.getdata(array).ravel().tolist()
    return [None if hidden else plain(value) for value, hidden in zip(data, mask)]


def attribute(value):
    return plain(value.item()) if isinstance(value, numpy.generic) else (
        [plain(one) for one in value.tolist()] if isinstance(value, numpy.ndarray) else value)


def expected(path):
    with netCDF4.Dataset(path) as dataset:
        dataset.set_always_mask(False)
        text_dimensions = {
            name for name in dataset.dimensions
            if name not in dataset.variables and all(
                variable.dtype == "S1" and variable.dimensions.index(name) == variable.ndim - 1
                for variable in dataset.variables.values() if name in variable.dimensions)
        }
        variables = {}
        for name, variable in dataset.variables.items():
            attributes = {key: attribute(variable.getncattr(key)) for key in variable.ncattrs()}
            dimensions, shape = list(variable.dimensions), list(variable.shape)
            # Bounds of valid values are an option, which is off by default.
            for key in ("valid_min", "valid_max", "valid_range"):
                if key in attributes:
                    variable.set_auto_maskandscale(False)
            read = variable[...]
            if variable.dtype == "S1":
                read = numpy.ma.getdata(numpy.ma.filled(read, b"\0"))
                if dimensions and dimensions[-1] in text_dimensions:
                    read = netCDF4.chartostring(read, encoding="none")
                    dimensions, shape = dimensions[:-1], shape[:-1]
            if not variable.mask:
                fill = attributes.get("_FillValue", -32767)
                read = numpy.ma.masked_equal(read, fill)
            # Bytes have no default fill value.
            elif variable.dtype in ("i1", "u1") and not {"_FillValue", "missing_value"} & set(attributes):
                variable.set_auto_mask(False)
                read = variable[...]
            variables[name] = {
                "type": NAMES[variable.dtype.str[1:]], "dimensions": dimensions, "shape": shape, "attributes": attributes,
                "values": flat(numpy.asanyarray(read)),
            }
        attributes = {key: attribute(dataset.getncattr(key)) for key in dataset.ncattrs()}
        return {"format": dataset.data_model, "attributes": attributes, "variables": variables}


def write_expected(path):
    text = json.dumps(expected(path), indent=1, ensure_ascii=False, allow_nan=False)
    path.with_suffix(".json").write_text(text + "\n")


def main():
    warnings.simplefilter("ignore")
    for version in VERSIONS:
        types(version)
    one_record_variable()
    no_records()
    texts()
    missing()
    cf()
    calendars()
    eight_dimensions()
    by_scipy()
    for path in HERE.glob("*.nc"):
        if path.stem not in ("cut", "stream"):
            write_expected(path)
    broken()


if __name__ == "__main__":
    main()
