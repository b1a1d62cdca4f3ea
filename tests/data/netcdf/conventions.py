"""Writes `conventions.nc`, a classic NetCDF file, and `conventions_4.nc`, the same variables and a few more in NetCDF-4.

    python conventions.py

Needs netCDF4 and numpy.
"""

import pathlib

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


write(HERE / "conventions.nc", "NETCDF3_CLASSIC")
write(HERE / "conventions_4.nc", "NETCDF4")
