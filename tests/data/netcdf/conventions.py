"""Writes `conventions.nc`, a classic NetCDF file, `conventions_4.nc`, the same variables and a few more in NetCDF-4,
`profiles.nc`, whose coordinates are named by attributes, `dimensions.nc`, whose groups share dimensions, `short.h5`,
whose variables end before their dimension, and `empty.h5`, with a dataset without elements.

    python conventions.py

Needs h5py, netCDF4 and numpy.
"""

import pathlib

import h5py
import netCDF4
import numpy

HERE = pathlib.Path(__file__).parent


def write(path, version):
    with netCDF4.Dataset(path, "w", format=version) as dataset:
        for name, length in (("z", 3), ("y", 2), ("k", 2), ("width", 4)):
            dataset.createDimension(name, length)
        # Only one of the variables along z names its coordinates.
        dataset.createVariable("lev", "f4", ("z",))[:] = [1000, 850, 500]
        t = dataset.createVariable("t", "f4", ("z",))
        t.coordinates = "lev"
        t[:] = [1, 2, 3]
        dataset.createVariable("u", "f8", ("y", "z"))[:] = numpy.arange(6).reshape(2, 3)
        dataset.createVariable("square", "f8", ("k", "k"))[:] = [[1, 2], [3, 4]]
        # Neither has the attribute _FillValue; only one has cells that were never written.
        count = dataset.createVariable("count", "i2", ("y", "z"))
        count.flag_values = numpy.array([0, 1, 2], "i2")
        count.flag_meanings = "none some all"
        count.valid_range = numpy.array([0, 9], "i2")
        count[:] = numpy.arange(6).reshape(2, 3)
        dataset.createVariable("holes", "i2", ("z",))[:1] = 7
        missing = dataset.createVariable("missing", "f4", ("z",))
        missing.missing_value = numpy.array([-1, -2], "f4")
        missing[:] = [-1, 5, -2]
        code = dataset.createVariable("code", "S1", ("z", "width"))
        code.missing_value = "none"
        code[:] = netCDF4.stringtochar(numpy.array(["ab", "none", "xyz"], "S4"))
        letter = dataset.createVariable("letter", "S1", ("z",), fill_value="-")
        letter[:] = numpy.array([b"a", b"-", b"b"])
        if version == "NETCDF4":
            word = dataset.createVariable("word", str, ("z",), fill_value="none")
            for index, text in enumerate(["x", "none", "y"]):
                word[index] = text
            dataset.createVariable("place", str, ())[...] = "here"
            table = dataset.createVariable("table", str, ("y", "k"))
            for index, text in zip(numpy.ndindex(2, 2), "abca"):
                table[index] = text
            pair = dataset.createCompoundType(numpy.dtype([("a", "f4"), ("b", "i4")]), "pair")
            dataset.createVariable("pairs", pair, ("z",))


def write_profiles(path):
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("obs", 3)
        dataset.createDimension("station", 3)
        time = dataset.createVariable("time", "f8", ("obs",), fill_value=1e20)
        time.units = "hours since 2020-01-01"
        time[:] = numpy.ma.masked_equal([0, -1, 2], -1)
        temp = dataset.createVariable("temp", "f4", ("obs",))
        temp.coordinates = "time"
        temp[:] = [1, 2, 3]
        dataset.createVariable("qc", "i1", ("obs",))[:] = [1, 0, 1]
        name = dataset.createVariable("name", str, ("station",))
        name.missing_value = "N/A"
        for index, text in enumerate(["Ulm", "N/A", "Bonn"]):
            name[index] = text
        flow = dataset.createVariable("flow", "f4", ("station",))
        flow.coordinates = "name"
        flow[:] = [1, 2, 3]
        # Each group has its own dimension.
        for group in "abc":
            group = dataset.createGroup(group)
            group.createDimension("z", 3)
            group.createVariable("u", "f4", ("z",))[:] = [1, 2, 3]
        for group, names in (("a", "lev"), ("c", "/a/lev")):
            t = dataset[group].createVariable("t", "f4", ("z",))
            t.coordinates = names
            t[:] = [4, 5, 6]
        dataset["a"].createVariable("lev", "f4", ("z",))[:] = [1000, 850, 500]


write_profiles(HERE / "profiles.nc")
with h5py.File(HERE / "short.h5", "w") as file:
    # Chunks that were never written, within the variable and beyond its end.
    time = file.create_dataset("time", data=numpy.arange(70_000, dtype="i4"), chunks=(10_000,), maxshape=(None,), shuffle=True,
                               compression="gzip")
    time.make_scale("time")
    short = file.create_dataset("short", (6,), "i4", chunks=(2,), maxshape=(None,))
    name = file.create_dataset("name", (1,), h5py.string_dtype(), maxshape=(None,))
    short[0], name[0] = 7, "a"
    for variable in (short, name):
        variable.dims[0].attach_scale(time)
with h5py.File(HERE / "empty.h5", "w", userblock_size=512) as file:
    file["empty"] = h5py.Empty("f4")
    file["one"] = numpy.arange(3)
write(HERE / "conventions.nc", "NETCDF3_CLASSIC")
write(HERE / "conventions_4.nc", "NETCDF4")


def write_dimensions(path):
    """Writes a file whose groups share the dimensions of the root group."""
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("z", 3)
        dataset.createDimension("x", 2)
        dataset.createDimension("k", 2)
        dataset.createDimension("width", 2)
        dataset.createDimension("time", None)
        # Only one group names coordinates for z, and only one has a coordinate variable for x.
        dataset.createVariable("r", "f4", ("z", "x"))[:] = numpy.arange(6).reshape(3, 2)
        inner = dataset.createGroup("inner")
        inner.createVariable("lev", "f4", ("z",))[:] = [1000, 850, 500]
        inner.createVariable("x", "f4", ("x",))[:] = [10, 20]
        t = inner.createVariable("t", "f4", ("z",))
        t.coordinates = "lev"
        t[:] = [1, 2, 3]
        dataset.createGroup("other").createVariable("s", "f4", ("x",))[:] = [5, 6]
        # This group has its own z and w. The coordinates of the root group's w must not apply to them.
        dataset.createDimension("w", 2)
        dataset.createVariable("w", "f4", ("w",))[:] = [30, 40]
        apart = dataset.createGroup("apart")
        apart.createDimension("z", 3)
        apart.createDimension("w", 2)
        apart.createVariable("u", "f4", ("z", "w"))[:] = numpy.arange(6).reshape(3, 2)
        # A covariance: one dimension twice.
        dataset.createVariable("k", "i4", ("k",))[:] = [3, 5]
        dataset.createVariable("cov", "f8", ("k", "k", "x"))[:] = numpy.arange(8).reshape(2, 2, 2)
        # All but `long` are shorter than their unlimited dimension. `short`, `counted` and `signed` have no fill value.
        dataset.createVariable("long", "f4", ("time",))[:] = numpy.arange(4)
        dataset.createVariable("name", str, ("time",))[0] = "a"
        dataset.createVariable("none", str, ("time",))
        dataset.createVariable("letters", "S1", ("time", "width"))[:] = netCDF4.stringtochar(numpy.array(["ab", "c"], "S2"))
        dataset.createVariable("short", "f4", ("time",), fill_value=False)[:2] = [1, 2]
        counted = dataset.createVariable("counted", "i2", ("time",), fill_value=False)
        counted[:1] = 9
        # Stored as -2, read as 65534. The cells beyond its end must be NULL, too.
        signed = dataset.createVariable("signed", "i2", ("time",), fill_value=False)
        signed.setncattr("_Unsigned", "true")
        signed[:1] = -2


write_dimensions(HERE / "dimensions.nc")
