"""Copies random tables to TileDB arrays and reads them with TileDB-Py: rows, aggregates and slices.

    tests/clients/run tiledb_copy.py --cases 200

Tables are written as Parquet, copied by one process of `tet-sql`, and compared with the tables. Then TileDB-Py adds an
attribute to each array, and `tet-sql` counts the rows of the sparse ones.
"""

import argparse
import collections
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy
import pyarrow
import pyarrow.parquet
import tiledb

COORDINATES = {
    "dense": [pyarrow.int8(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint16(), pyarrow.uint64(), pyarrow.timestamp("ms")],
    "sparse": [pyarrow.int16(), pyarrow.int64(), pyarrow.float32(), pyarrow.float64(), pyarrow.timestamp("ms"),
               pyarrow.date32(), pyarrow.string()],
}
NUMBERS = [pyarrow.int8(), pyarrow.uint8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint32(),
           pyarrow.float32(), pyarrow.float64()]
OTHERS = [pyarrow.bool_(), pyarrow.string(), pyarrow.binary(), pyarrow.timestamp("us"), pyarrow.duration("ms")]
FILTERS = {
    "number": ["zstd(5)", "byteshuffle, zstd", "bitshuffle, lz4", "gzip", "bzip2", "rle", "xor, zstd", "md5, zstd",
               "none", "lz4, sha-256"],
    "integer": ["double-delta", "delta, zstd", "bit-width-reduction, byteshuffle, zstd"],
    "text": ["rle", "dictionary, zstd", "zstd", "lz4", "dictionary"],
}


class Case:
    """A random table, and the statement that copies it."""

    def __init__(self, seed, folder):
        self.choose = choose = random.Random(seed)
        self.sparse = choose.random() < 0.5
        self.duplicates = self.sparse and choose.random() < 0.4
        kind = "sparse" if self.sparse else "dense"
        count = choose.randint(1, 3)
        types = [choose.choice(COORDINATES[kind]) for _ in range(count)]
        types = types if self.sparse else types[:1] * count
        self.dimensions = [f"d{index}" for index in range(count)]
        self.attributes = [f"a{index}" for index in range(choose.randint(1, 4))]
        rows = self.coordinates(types)
        columns = dict(zip(self.dimensions, ([row[axis] for row in rows] for axis in range(count))))
        fields = [pyarrow.field(name, type_) for name, type_ in zip(self.dimensions, types)]
        self.filters = {}
        for name in self.attributes:
            type_ = choose.choice(NUMBERS if choose.random() < 0.6 else OTHERS)
            nullable = choose.random() < 0.3
            columns[name] = [None if nullable and choose.random() < 0.2 else self.value(type_) for _ in rows]
            fields.append(pyarrow.field(name, type_, nullable=nullable))
            if choose.random() < 0.6:
                self.filters[name] = choose.choice(self.possible_filters(type_))
        arrays = [pyarrow.array(columns[field.name], field.type) for field in fields]
        self.table = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
        self.path = folder / f"array_{seed}"
        self.parquet = folder / f"table_{seed}.parquet"
        pyarrow.parquet.write_table(self.table, self.parquet)

    def possible_filters(self, type_):
        if pyarrow.types.is_string(type_):
            return FILTERS["text"]
        if pyarrow.types.is_integer(type_) and type_.bit_width > 8:
            return FILTERS["number"] + FILTERS["integer"]
        return ["zstd", "lz4", "none"] if pyarrow.types.is_binary(type_) else FILTERS["number"]

    def coordinates(self, types):
        """Returns the coordinates of all rows: of the whole box of a dense array, in any order."""
        choose = self.choose
        if not self.sparse:
            low = 0 if pyarrow.types.is_unsigned_integer(types[0]) else choose.randint(-30, 30)
            lengths = [choose.randint(1, 40 if len(types) == 1 else 9) for _ in types]
            rows = [()]
            for length in lengths:
                rows = [(*row, low + index) for row in rows for index in range(length)]
            choose.shuffle(rows)
            return rows
        rows = []
        for _ in range(choose.choice((1, 20, 300))):
            rows.append(tuple(self.coordinate(type_) for type_ in types))
        return rows if self.duplicates else list(dict.fromkeys(rows))

    def coordinate(self, type_):
        if pyarrow.types.is_string(type_):
            return "".join(self.choose.choice("abc") for _ in range(self.choose.randint(1, 3)))
        if pyarrow.types.is_floating(type_):
            return self.choose.randint(-60, 60) / 4
        return self.choose.randint(-40, 40)

    def value(self, type_):
        choose = self.choose
        if pyarrow.types.is_boolean(type_):
            return choose.random() < 0.5
        if pyarrow.types.is_string(type_):
            return choose.choice(("red", "green", "blue", "grün", "x" * 70))
        if pyarrow.types.is_binary(type_):
            return choose.randbytes(choose.randint(1, 9))
        if pyarrow.types.is_floating(type_):
            return choose.randint(-400, 400) / 4
        return choose.randint(0 if pyarrow.types.is_unsigned_integer(type_) else -100, 100)

    def statement(self):
        options = {"dims": ", ".join(self.dimensions), "sparse": str(self.sparse).lower()}
        options.update((f"filters.{name}", filters) for name, filters in self.filters.items())
        if self.sparse:
            options["duplicates"] = str(self.duplicates).lower()
            options["capacity"] = str(self.choose.choice((3, 50, 10000)))
        orders = ("row-major", "col-major", "hilbert") if self.sparse else ("row-major", "col-major")
        options["cell_order"] = self.choose.choice(orders)
        if not self.sparse and self.choose.random() < 0.7:
            lengths = [len(set(self.table[name].to_pylist())) for name in self.dimensions]
            options["tile"] = ", ".join(str(self.choose.randint(1, length)) for length in lengths)
        texts = ", ".join(f"{name} '{value}'" for name, value in options.items())
        return f"COPY (SELECT * FROM '{self.parquet}') TO '{self.path}' STORED AS TILEDB OPTIONS ({texts});"

    def problem(self):
        """Compares the array with the table. Returns the difference, or None."""
        with tiledb.open(str(self.path)) as array:
            all_cells = (slice(None),) * len(self.dimensions)
            query = array.query(coords=True)
            read = query[:] if self.sparse else query[all_cells]
            names = [*self.dimensions, *self.attributes]
            found = rows_of(read, names)
            expected = list(zip(*(normal(self.table[name]) for name in names)))
            if collections.Counter(found) != collections.Counter(expected):
                different = collections.Counter(expected) - collections.Counter(found)
                return f"{len(expected)} rows expected, {len(found)} found; missing {list(different)[:3]}"
            return self.wrong_aggregate(array, all_cells) or self.wrong_slice(array, expected)

    def evolve(self):
        """Adds an attribute to the array, as a program with TileDB does."""
        evolution = tiledb.ArraySchemaEvolution()
        evolution.add_attribute(tiledb.Attr("added", dtype="int32"))
        evolution.array_evolve(str(self.path))

    def wrong_aggregate(self, array, all_cells):
        for name in self.attributes:
            column = self.table[name]
            if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
                continue
            values = [value for value in column.to_pylist() if value is not None]
            expected = {"count": len(column)}
            if values:
                expected.update(sum=sum(values), min=min(values), max=max(values))
            if self.table.schema.field(name).nullable:
                expected["null_count"] = column.null_count
            query = array.query(attrs=[name]).agg({name: list(expected)})
            found = query[:] if self.sparse else query[all_cells]
            found = found if isinstance(found, dict) else {"count": found}
            for key, value in expected.items():
                if not math.isclose(found[key], value, rel_tol=1e-6, abs_tol=1e-6):
                    return f"{key} of {name} is {found[key]}, expected {value}"
        return None

    def wrong_slice(self, array, expected):
        # Results of multi_index have no validity.
        kept = [*self.dimensions, *(name for name in self.attributes if not self.table.schema.field(name).nullable)]
        columns = [index for index, name in enumerate([*self.dimensions, *self.attributes]) if name in kept]
        for _ in range(3):
            slices, wanted = [], expected
            for axis, name in enumerate(self.dimensions):
                values = sorted({row[axis] for row in expected})
                low, high = sorted(self.choose.choices(values, k=2))
                wanted = [row for row in wanted if low <= row[axis] <= high]
                slices.append(slice(native(low, array.domain.dim(name)), native(high, array.domain.dim(name))))
            read = array.query(coords=True).multi_index[tuple(slices)]
            found = collections.Counter(rows_of(read, kept))
            if found != collections.Counter(tuple(row[index] for index in columns) for row in wanted):
                return f"slice {slices}: {len(wanted)} rows expected, {found.total()} found"
        return None


def native(value, dimension):
    """Returns a coordinate as TileDB-Py expects it in a slice."""
    return numpy.array(value).astype(dimension.dtype)[()] if dimension.dtype.kind == "M" else value


def normal(column):
    """Returns values in a form that is equal for equal values of both sides."""
    type_ = column.type
    if pyarrow.types.is_temporal(type_):
        column = column.cast(pyarrow.int32() if type_ == pyarrow.date32() else pyarrow.int64())
    return column.to_pylist()


def rows_of(read, names):
    columns = []
    for name in names:
        values = read[name].ravel()
        mask = numpy.ma.getmaskarray(values)
        values = numpy.ma.getdata(values)
        if values.dtype.kind in "mM":
            values = values.astype("int64")
        plain = [bytes(value) if isinstance(value, memoryview) else value for value in values.tolist()]
        # Texts of dimensions are read as bytes.
        if name.startswith("d"):
            plain = [value.decode() if isinstance(value, bytes) else value for value in plain]
        columns.append([None if hidden else value for value, hidden in zip(plain, mask)])
    return list(zip(*columns))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments = arguments.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cases = [Case(arguments.seed * 1_000_003 + number, folder) for number in range(arguments.cases)]
        script = folder / "copy.sql"
        script.write_text("\n".join(case.statement() for case in cases))
        done = subprocess.run([arguments.binary, "-f", str(script)], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        for number, case in enumerate(cases):
            try:
                problem = case.problem() or case.evolve()
            except tiledb.TileDBError as error:
                problem = str(error)
            if problem:
                failed += 1
                print(f"case {number}: {problem}\n    {case.statement()}", file=sys.stderr)
        evolved = [case for case in cases if case.sparse and case.path.exists()]
        script.write_text("\n".join(f"SELECT count(*) FROM '{case.path}';" for case in evolved))
        command = [arguments.binary, "--format", "csv", "-f", str(script)]
        counts = subprocess.run(command, capture_output=True, text=True)
        if counts.returncode:
            print(counts.stderr, file=sys.stderr)
        found = [int(line) for line in counts.stdout.split() if line.isdigit()]
        expected = [len(case.table) for case in evolved]
        if found != expected:
            failed += 1
            print(f"rows after an attribute was added: {found}, expected {expected}", file=sys.stderr)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
