"""Writes random NetCDF files with netCDF4-python, and reads them with `tet-sql`.

    tests/clients/run netcdf_read.py --cases 200

The files are of all five formats: classic with 32 and 64 bits, and NetCDF-4 with groups, random chunks, filters, both
byte orders and several unlimited dimensions. Variables are of all types, fixed and with records, packed, with fill values,
of characters and of strings, and partly unwritten. One process of `tet-sql` copies each variable to Parquet, which is
compared with what netCDF4-python reads: masked values are null.
"""

import argparse
import collections
import datetime
import itertools
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import traceback
import warnings

import netCDF4
import numpy
import pyarrow.parquet

FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4", "NETCDF4_CLASSIC"]
CLASSIC_TYPES = ["i1", "i2", "i4", "f4", "f8", "text"]
TYPES = CLASSIC_TYPES + ["u1", "u2", "u4", "i8", "u8"]
WORDS = ["", "a", "red", "grün", "two words", "x" * 12]
UNITS = {"days": 86_400, "hours": 3600, "seconds": 1}
EPOCH = datetime.datetime(1970, 1, 1)
# The number of characters of a string.
WIDTH = 14
# The filters that this build of the NetCDF library has.
COMPRESSIONS = ["zlib", "zlib"]
COMPRESSIONS += ["zstd"] if netCDF4.__has_zstandard_support__ else []


class Case:
    """A random file, which is written on creation."""

    def __init__(self, seed, folder, formats):
        self.choose = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)
        self.number = seed
        self.format = self.choose.choice(formats)
        self.path = folder / f"case_{seed}.nc"
        self.is_hdf5 = self.format.startswith("NETCDF4")
        self.has_all_types = self.format in ("NETCDF3_64BIT_DATA", "NETCDF4")
        self.slices = {}
        with netCDF4.Dataset(self.path, "w", format=self.format) as dataset:
            self.write(dataset)

    def write(self, dataset):
        choose = self.choose
        self.lengths, self.unlimited = {}, []
        for axis in range(choose.randint(1, 4)):
            name = f"d{axis}"
            is_unlimited = choose.random() < 0.5 if axis == 0 else self.format == "NETCDF4" and choose.random() < 0.2
            self.lengths[name] = choose.randint(0 if is_unlimited else 1, 9)
            if is_unlimited:
                self.unlimited.append(name)
            dataset.createDimension(name, None if is_unlimited else self.lengths[name])
        dataset.createDimension("strlen", WIDTH)
        for name in self.lengths:
            if choose.random() < 0.5:
                self.write_coordinates(dataset, name)
        # Dimensions that only variables of characters use would be those of strings.
        numbers = dataset.createVariable("numbers", "i2", list(self.lengths))
        shape = tuple(self.lengths.values())
        self.fill_in(numbers, self.values("i2", shape), shape)
        for number in range(choose.randint(1, 6)):
            place = dataset
            if self.format == "NETCDF4" and choose.random() < 0.3:
                place = dataset.createGroup(choose.choice(["g", "g/inner", "other"]))
            self.write_variable(place, f"v{number}")
        dataset.setncattr("title", "random")

    def write_coordinates(self, dataset, name):
        count, type_ = self.lengths[name], self.choose.choice(["i4", "f4", "f8", "i2"])
        variable = dataset.createVariable(name, type_, (name,), **self.storage([name]))
        start, step = self.choose.randint(-50, 50), self.choose.randint(1, 5)
        values = numpy.arange(count) * step + start
        if type_.startswith("f"):
            values = values * 0.1
        elif self.choose.random() < 0.5:
            unit = self.choose.choice(list(UNITS))
            variable.units = f"{unit} since 2001-03-04 06:00:00"
        if count:
            variable[:] = values.astype(type_)

    def storage(self, dimensions, has_order=True):
        """Returns how a variable of a NetCDF-4 file is stored."""
        choose = self.choose
        if not self.is_hdf5:
            return {}
        options = {}
        # netCDF4-python does not mask a scalar in the other byte order.
        if not dimensions:
            return options
        if has_order and choose.random() < 0.5:
            options["endian"] = choose.choice(["little", "big"])
        is_chunked = any(name in self.unlimited for name in dimensions) or choose.random() < 0.6
        if is_chunked and choose.random() < 0.8:
            options["chunksizes"] = [choose.randint(1, max(self.lengths[name], 1)) for name in dimensions]
        elif not is_chunked:
            options["contiguous"] = True
        if is_chunked:
            options["shuffle"] = choose.random() < 0.5
            options["fletcher32"] = choose.random() < 0.3
            if choose.random() < 0.7:
                options["compression"], options["complevel"] = choose.choice(COMPRESSIONS), choose.randint(1, 9)
        return options

    def write_variable(self, place, name):
        choose = self.choose
        type_ = choose.choice(TYPES if self.has_all_types else CLASSIC_TYPES)
        if self.format == "NETCDF4" and choose.random() < 0.1:
            type_ = "string"
        dimensions = [one for one in self.lengths if choose.random() < 0.7]
        if type_ == "string":
            dimensions = dimensions[:1]
        shape = tuple(self.lengths[one] for one in dimensions)
        if type_ in ("text", "string"):
            return self.write_texts(place, name, type_, dimensions, shape)
        attributes = {}
        fill = None
        data = self.values(type_, shape)
        candidates = data.ravel().tolist() or [0]
        if choose.random() < 0.4:
            fill = numpy.array(choose.choice(candidates), type_)[()]
        if choose.random() < 0.25 and (fill is not None or not type_.endswith("1")):
            missing = choose.sample(candidates, min(len(candidates), choose.choice([1, 1, 2, 3])))
            missing = [one for one in missing if one == one] or [1]
            attributes["missing_value"] = numpy.array(missing, type_)
        if type_ in ("i1", "i2", "i4") and choose.random() < 0.2:
            attributes["_Unsigned"] = "true"
        if type_ in ("i1", "i2", "u1", "u2", "i4") and choose.random() < 0.3:
            packing = choose.choice(["f4", "f8"])
            attributes["scale_factor"] = numpy.array(choose.choice([0.01, 0.5, 3]), packing)[()]
            if choose.random() < 0.7:
                attributes["add_offset"] = numpy.array(choose.choice([-3, 273.15, 1e4]), packing)[()]
        attributes["long_name"] = choose.choice(WORDS)
        variable = place.createVariable(name, type_, dimensions, fill_value=fill, **self.storage(dimensions))
        variable.set_auto_maskandscale(False)
        for key, value in attributes.items():
            variable.setncattr(key, value)
        self.fill_in(variable, data, shape)

    def fill_in(self, variable, data, shape):
        """Writes all values, or leaves some unwritten."""
        if not shape:
            variable[...] = data[()]
        elif math.prod(shape):
            parts = [slice(0, extent) for extent in shape]
            if self.choose.random() < 0.25 and variable.dimensions[0] != "strlen":
                parts[0] = slice(self.choose.randint(0, shape[0] - 1), shape[0])
            variable[tuple(parts)] = data[tuple(parts)]

    def values(self, type_, shape):
        if type_.startswith("f"):
            data = (self.numbers.integers(-400, 400, shape) / 4).astype(type_)
            return numpy.where(self.numbers.random(shape) < 0.05, numpy.array(numpy.nan, type_), data)
        info = numpy.iinfo(type_)
        # NetCDF has no default fill value for bytes, but netCDF4-python applies one.
        low, high = (int(info.min) + 2, int(info.max) - 2) if self.choose.random() < 0.3 else (max(info.min + 2, -9), 9)
        return self.numbers.integers(low, high, shape, type_, endpoint=True)

    def write_texts(self, place, name, type_, dimensions, shape):
        texts = [self.choose.choice(WORDS) for _ in range(math.prod(shape))]
        if type_ == "string":
            variable = place.createVariable(name, str, dimensions)
            data = numpy.array(texts, "O").reshape(shape)
        elif self.choose.random() < 0.3:
            # Single characters.
            variable = place.createVariable(name, "S1", dimensions, **self.storage(dimensions, has_order=False))
            data = numpy.array([text.encode()[:1] for text in texts], "S1").reshape(shape)
            data[data > b"\x7f"] = b"?"
        else:
            options = self.storage(dimensions, has_order=False)
            if "chunksizes" in options:
                options["chunksizes"].append(self.choose.randint(1, WIDTH))
            elif not dimensions:
                options.pop("contiguous", None)
            variable = place.createVariable(name, "S1", [*dimensions, "strlen"], **options)
            data = numpy.array([list(text.encode().ljust(WIDTH, b"\0")) for text in texts], "u1").view("S1")
            data = data.reshape((*shape, WIDTH))
            shape = data.shape
        if type_ == "string" and not shape:
            variable[...] = texts[0]
        else:
            self.fill_in(variable, data, shape)

    def variables(self):
        """Returns the variables of the file by their names with groups."""
        with netCDF4.Dataset(self.path) as dataset:
            groups = [("", dataset)]
            for prefix, group in groups:
                groups += [(f"{prefix}{name}/", inner) for name, inner in group.groups.items()]
                for name, variable in group.variables.items():
                    yield f"{prefix}{name}", variable, dataset

    def statements(self, folder):
        """Returns statements that copy each variable, and a slice of it, to Parquet."""
        for number, (name, variable, dataset) in enumerate(self.variables()):
            options = f"dataset '{name}'"
            yield f"CREATE EXTERNAL TABLE t STORED AS NETCDF LOCATION '{self.path}' OPTIONS ({options});"
            yield f"COPY (SELECT * FROM t) TO '{self.output(folder, number)}' STORED AS PARQUET;"
            dimensions, *_ = self.layout(variable, dataset)
            # Slices are by index, where a dimension has no coordinates.
            plain = [one for one in dimensions if one not in dataset.variables and self.lengths.get(one)]
            if plain:
                dimension = self.choose.choice(plain)
                low = self.choose.randrange(self.lengths[dimension])
                high = self.choose.randint(low, self.lengths[dimension])
                self.slices[number] = (dimensions.index(dimension), low, high)
                where = f'"{dimension}" BETWEEN {low} AND {high}'
                yield f"COPY (SELECT * FROM t WHERE {where}) TO '{self.output(folder, number, True)}' STORED AS PARQUET;"
            yield "DROP TABLE t;"

    def output(self, folder, number, is_slice=False):
        return folder / f"{self.number}_{number}{'_slice' if is_slice else ''}.parquet"

    def layout(self, variable, dataset):
        """Returns the dimensions and the shape of a variable as a table has them."""
        dimensions, shape = list(variable.dimensions), list(variable.shape)
        is_text = variable.dtype != str and variable.dtype == "S1" and dimensions[-1:] == ["strlen"]
        if is_text:
            dimensions, shape = dimensions[:-1], shape[:-1]
        return dimensions, shape, is_text

    def problem(self, folder):
        """Compares what both readers read. Returns the first difference, or None."""
        for number, (name, variable, dataset) in enumerate(self.variables()):
            expected, tolerance = self.expected(variable, dataset)
            for is_slice in (False, True):
                if is_slice and number not in self.slices:
                    continue
                output = self.output(folder, number, is_slice)
                if not output.exists():
                    return f"{name} is not read"
                rows = expected
                if is_slice:
                    axis, low, high = self.slices[number]
                    rows = {key: value for key, value in expected.items() if low <= key[axis] <= high}
                difference = compare(rows, pyarrow.parquet.read_table(output), tolerance)
                if difference:
                    what = f"slice {self.slices[number]} of " if is_slice else ""
                    return f"{what}{name}: {difference}\n{variable}"
        return None

    def expected(self, variable, dataset):
        """Returns the value of each row by its coordinates, and how far a value may be off."""
        dimensions, shape, is_text = self.layout(variable, dataset)
        axes = [coordinates(dataset, name, extent) for name, extent in zip(dimensions, shape)]
        tolerance = 0
        if variable.dtype == str:
            values = numpy.asarray(variable[...], "O").ravel().tolist()
        elif variable.dtype == "S1":
            variable.set_auto_mask(False)
            read = variable[...]
            read = netCDF4.chartostring(read, encoding="none") if is_text else read
            values = [bytes(value).rstrip(b"\0").decode() for value in numpy.asarray(read).ravel()]
        else:
            attributes = variable.ncattrs()
            # Bytes have no default fill value: all of their values may be in use.
            is_byte = variable.dtype.itemsize == 1 and "_FillValue" not in attributes
            variable.set_auto_mask(not is_byte)
            read = numpy.ma.asarray(variable[...])
            values = [
                None if hidden or value != value else value
                for value, hidden in zip(numpy.ma.getdata(read).ravel().tolist(), numpy.ma.getmaskarray(read).ravel())
            ]
            if "units" in attributes:
                values = [None if value is None else instant(variable, value) for value in values]
            if {"scale_factor", "add_offset"} & set(attributes):
                # netCDF4-python computes in 32 bits if the attributes have 32.
                most = max((abs(value) for value in values if value is not None), default=0)
                tolerance = 1e-6 * (most + abs(float(getattr(variable, "add_offset", 0))))
        return dict(zip(itertools.product(*axes), values, strict=True)), tolerance


def coordinates(dataset, name, extent):
    """Returns the coordinates of a dimension: numbers, or microseconds since 1970."""
    if name not in dataset.variables:
        return list(range(extent))
    variable = dataset.variables[name]
    variable.set_auto_maskandscale(False)
    values = variable[:]
    if "units" in variable.ncattrs():
        return [instant(variable, value) for value in values]
    if values.dtype.str[1:] == "f4":
        # The shortest decimal, as the coordinate is written.
        return [float(str(value)) for value in values]
    return values.tolist()


def instant(variable, value):
    """Returns the time that a number of a variable stands for, in microseconds since 1970."""
    unit, _, since = variable.units.partition(" since ")
    start = datetime.datetime.fromisoformat(since) - EPOCH
    return (int(value) * UNITS[unit] + round(start.total_seconds())) * 1_000_000


def compare(expected, table, tolerance):
    """Returns the first difference between expected rows and a table, or None."""
    columns = []
    for column in table.columns:
        if pyarrow.types.is_timestamp(column.type):
            columns.append(column.cast(pyarrow.timestamp("us")).cast(pyarrow.int64()).to_pylist())
        else:
            columns.append([None if value != value else value for value in column.to_pylist()])
    rows = list(zip(*columns))
    if len(rows) != len(expected):
        return f"{len(rows)} rows, expected {len(expected)}"
    for *key, value in rows:
        key = tuple(key)
        if key not in expected:
            return f"no row with the coordinates {key} expected; for example {list(expected)[:3]}"
        wanted = expected[key]
        is_close = wanted == value
        if tolerance and wanted is not None and value is not None:
            is_close = abs(wanted - value) <= tolerance
        if not is_close:
            return f"{value!r} at {key}, expected {wanted!r}"
    return None


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--format", choices=FORMATS, action="append", help="only files of this format; may repeat")
    arguments.add_argument("--keep", type=pathlib.Path, help="a directory for the files, which are kept")
    arguments = arguments.parse_args()
    # The byte order of a variable is not that of the values written to it.
    warnings.simplefilter("ignore")
    failed = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(exist_ok=True)
        cases = []
        for number in range(arguments.cases):
            seed = arguments.seed * 1_000_003 + number
            try:
                cases.append(Case(seed, folder, arguments.format or FORMATS))
            except (RuntimeError, ValueError):
                # A combination that netCDF4-python refuses.
                print(f"case {seed} is not written: {traceback.format_exc()}", file=sys.stderr)
        if len(cases) < 0.8 * arguments.cases:
            sys.exit(f"only {len(cases)} of {arguments.cases} files could be written")
        script = folder / "copy.sql"
        script.write_text("\n".join(line for case in cases for line in case.statements(folder)))
        done = subprocess.run([arguments.binary, "-f", str(script)], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
        for case in cases:
            problem = case.problem(folder)
            if problem:
                failed[case.format] += 1
                print(f"case {case.number}, {case.format}: {problem}\n", file=sys.stderr)
    print(f"{len(cases) - failed.total()} passed, {failed.total()} failed {dict(failed) or ''}")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
