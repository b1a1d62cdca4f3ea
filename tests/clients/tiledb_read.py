"""Writes random TileDB arrays with TileDB-Py, and reads them with `tet-sql` as of several times.

    tests/clients/run tiledb_read.py --cases 200

The arrays are dense and sparse, of one to four writes, with all filters, nullable attributes, texts, enumerations,
deletes, encryption, consolidation and vacuum. One process of `tet-sql` copies each array to Parquet files, which are
compared with the rows that TileDB-Py reads.
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

KEY = "0123456789abcdeF0123456789abcdeF"
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
TYPES = [*INTEGERS, "float32", "float64", "bool", "datetime64[ms]", "datetime64[D]", "text", "bytes"]
COORDINATES = {
    "dense": ["int8", "uint16", "int32", "int64", "uint64", "datetime64[ms]"],
    "sparse": ["int16", "int64", "uint32", "float32", "float64", "datetime64[s]", "ascii"],
}
ANY = [tiledb.GzipFilter, tiledb.ZstdFilter, tiledb.LZ4Filter, tiledb.Bzip2Filter, tiledb.ChecksumMD5Filter,
       tiledb.ChecksumSHA256Filter, tiledb.NoOpFilter]
FIXED = [tiledb.RleFilter, tiledb.ByteShuffleFilter, tiledb.BitShuffleFilter, tiledb.XORFilter]
WHOLE = [tiledb.DeltaFilter, tiledb.DoubleDeltaFilter, tiledb.BitWidthReductionFilter]
WORDS = ["red", "green", "blue", "grün", "x" * 70]


class Case:
    """A random array, which is written on creation."""

    def __init__(self, seed, folder):
        self.choose = choose = random.Random(seed)
        self.number = seed
        self.path = str(folder / f"array_{seed}")
        self.sparse = choose.random() < 0.5
        self.duplicates = self.sparse and choose.random() < 0.4
        self.key = KEY if choose.random() < 0.15 else None
        config = {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY} if self.key else {}
        self.context = tiledb.Ctx({"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "2", **config})
        self.enumerations, self.types, self.nullable, self.done = [], {}, {}, []
        self.schema = self.random_schema()
        tiledb.Array.create(self.path, self.schema, ctx=self.context)
        self.times = [10 * (number + 1) for number in range(choose.randint(1, 4))]
        for time in self.times:
            self.write(time)
        if self.sparse and choose.random() < 0.3:
            self.delete(self.times[-1] + 5)
        if len(self.times) > 1 and choose.random() < 0.4:
            tiledb.consolidate(self.path, ctx=self.context)
            self.done.append("consolidate")
            if choose.random() < 0.5:
                tiledb.vacuum(self.path, ctx=self.context)
                self.done.append("vacuum")

    def random_filters(self, type_):
        choose = self.choose
        if choose.random() < 0.3:
            return []
        if type_ in ("text", "ascii") and choose.random() < 0.4:
            return [choose.choice((tiledb.RleFilter, tiledb.DictionaryFilter))()]
        classes = list(ANY)
        if type_ not in ("text", "bytes", "ascii"):
            classes += FIXED
        if type_ in INTEGERS or type_.startswith("datetime"):
            classes += WHOLE
        first = choose.choice(classes)()
        return [first] if choose.random() < 0.6 else [first, choose.choice(ANY)()]

    def random_schema(self):
        choose = self.choose
        kind = "sparse" if self.sparse else "dense"
        types = [choose.choice(COORDINATES[kind]) for _ in range(choose.randint(1, 3))]
        types = types if self.sparse else types[:1] * len(types)
        self.dimensions = [(f"d{index}", type_) for index, type_ in enumerate(types)]
        dims = []
        for name, type_ in self.dimensions:
            filters = tiledb.FilterList(self.random_filters(type_) if self.sparse and choose.random() < 0.5 else [])
            if type_ == "ascii":
                dims.append(tiledb.Dim(name, domain=(None, None), tile=None, dtype="ascii", filters=filters))
                continue
            # Slices of TileDB-Py have no negative bounds.
            low = -20 if self.sparse and not type_.startswith("uint") else choose.randint(0, 9) * (not self.sparse)
            high = 60 if self.sparse else low + choose.randint(0, 11)
            tile = choose.randint(1, high - low + 1)
            if type_.startswith("datetime"):
                unit = type_[11:-1]
                low, high, tile = numpy.datetime64(low, unit), numpy.datetime64(high, unit), numpy.timedelta64(tile, unit)
            dims.append(tiledb.Dim(name, domain=(low, high), tile=tile, dtype=type_, filters=filters))
        attributes = []
        for index in range(choose.randint(1, 4)):
            name, type_ = f"a{index}", choose.choice(TYPES)
            nullable = choose.random() < 0.3
            options = {"nullable": nullable, "filters": tiledb.FilterList(self.random_filters(type_))}
            if choose.random() < 0.15:
                values = choose.choice((WORDS[:4], [850, 500, 300]))
                label = f"e{index}"
                values = values if isinstance(values[0], str) else numpy.array(values, "int32")
                self.enumerations.append(tiledb.Enumeration(label, False, values))
                type_, options["enum_label"] = "int8", label
                options["filters"] = tiledb.FilterList(self.random_filters("int8"))
                self.types[name] = ("enumeration", len(values))
            else:
                self.types[name] = (type_, 0)
            self.nullable[name] = nullable
            numpy_type = {"text": "U", "bytes": "S"}.get(type_, type_)
            if type_ in ("text", "bytes"):
                options["var"] = True
            attributes.append(tiledb.Attr(name, dtype=numpy_type, **options))
        orders = ["row-major", "col-major"] + (["hilbert"] if self.sparse and types == ["int64"] * len(types) else [])
        options = {"sparse": self.sparse, "cell_order": choose.choice(orders), "enums": self.enumerations}
        if options["cell_order"] != "hilbert":
            options["tile_order"] = choose.choice(orders[:2])
        if self.sparse:
            options.update(capacity=choose.choice((2, 7, 10000)), allows_duplicates=self.duplicates)
        return tiledb.ArraySchema(tiledb.Domain(*dims, ctx=self.context), attributes, ctx=self.context, **options)

    def values(self, name, count):
        type_, values = self.types[name]
        choose = self.choose
        if type_ == "text":
            result = numpy.array([choose.choice(WORDS) for _ in range(count)], dtype="O")
        elif type_ == "bytes":
            result = numpy.array([bytes(choose.choices(range(1, 256), k=choose.randint(1, 5))) for _ in range(count)], dtype="O")
        elif type_ == "bool":
            result = numpy.array([choose.random() < 0.5 for _ in range(count)])
        elif type_ == "enumeration":
            result = numpy.array([choose.randrange(values) for _ in range(count)], "int8")
        elif type_.startswith("float"):
            numbers = [math.nan if choose.random() < 0.03 else choose.randint(-400, 400) / 4 for _ in range(count)]
            result = numpy.array(numbers, type_)
        else:
            info = numpy.iinfo("int64" if type_.startswith("datetime") else type_)
            low, high = (-1000, 1000) if type_.startswith("datetime") else (max(info.min, -200), min(info.max, 200))
            numbers = [choose.randint(low, high) for _ in range(count)]
            if type_ in INTEGERS and choose.random() < 0.3:
                numbers[0] = choose.choice((int(info.min) + 1, int(info.max) - 1))
            result = numpy.array(numbers, "int64" if type_.startswith("datetime") else type_)
            result = result.astype(type_)
        return result

    def data(self, shape):
        """Returns values of all attributes, and the validity of those that are nullable."""
        count = math.prod(shape)
        values = {name: self.values(name, count).reshape(shape) for name in self.types}
        valid = {
            name: numpy.array([self.choose.random() < 0.8 for _ in range(count)], "uint8").reshape(shape)
            for name, nullable in self.nullable.items()
            if nullable
        }
        return values, valid

    def write(self, time):
        with tiledb.open(self.path, "w", timestamp=time, ctx=self.context) as array:
            # The methods behind `array[...] = ...`, which take the validity as it is.
            if self.sparse:
                coordinates = self.coordinates()
                tiledb.sparse_array._setitem_impl_sparse(array, tuple(coordinates), *self.data((len(coordinates[0]),)))
                return
            box, shape = [], []
            for axis, (_, type_) in enumerate(self.dimensions):
                low, high = (int(numpy.int64(bound)) for bound in array.domain.dim(axis).domain)
                first, last = sorted((self.choose.randint(low, high), self.choose.randint(low, high)))
                if self.choose.random() < 0.4:
                    first, last = low, high
                shape.append(last - first + 1)
                if type_.startswith("datetime"):
                    # Slices of times include their end.
                    box.append(slice(*(numpy.datetime64(bound, type_[11:-1]) for bound in (first, last))))
                else:
                    box.append(slice(first, last + 1))
            array._setitem_impl(tuple(box), *self.data(tuple(shape)))

    def coordinates(self):
        """Returns the coordinates of new cells, as an array per dimension."""
        count = self.choose.choice((1, 9, 60))
        rows = [tuple(self.coordinate(type_) for _, type_ in self.dimensions) for _ in range(count)]
        rows = rows if self.duplicates else list(dict.fromkeys(rows))
        coordinates = []
        for axis, (_, type_) in enumerate(self.dimensions):
            values = [row[axis] for row in rows]
            if type_ == "ascii":
                coordinates.append(numpy.array(values, "O"))
            else:
                coordinates.append(numpy.array(values, "int64" if type_.startswith("datetime") else type_).astype(type_))
        return coordinates

    def coordinate(self, type_):
        if type_ == "ascii":
            return "".join(self.choose.choice("abc") for _ in range(self.choose.randint(1, 3)))
        if type_.startswith("float"):
            return self.choose.randint(-60, 200) / 4
        return self.choose.randint(0 if type_.startswith("uint") else -20, 60)

    def delete(self, time):
        names = [name for name, (type_, _) in self.types.items() if type_ in INTEGERS and not self.nullable[name]]
        if names:
            with tiledb.open(self.path, "d", timestamp=time, ctx=self.context) as array:
                array.query(cond=f"{names[0]} > 20").submit()
            self.done.append("delete")
            self.times.append(time)

    def statements(self, folder):
        """Returns statements that copy the array as of each time to Parquet."""
        key = f", key_file '{folder / 'key'}'" if self.key else ""
        for time in [*self.times, self.times[0] + 3]:
            options = f"timestamp '{time}', nan_as_null 'false', fill_as_null 'false'{key}"
            yield f"CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{self.path}' OPTIONS ({options});"
            yield f"COPY (SELECT * FROM t) TO '{self.output(folder, time)}' STORED AS PARQUET;"
            yield "DROP TABLE t;"

    def output(self, folder, time):
        return folder / f"rows_{self.number}_{time}.parquet"

    def problem(self, folder):
        """Compares the rows of both readers as of each time. Returns the difference, or None."""
        for time in [*self.times, self.times[0] + 3]:
            output = self.output(folder, time)
            if not output.exists():
                return f"not read as of {time}"
            expected = self.expected(time)
            table = pyarrow.parquet.read_table(output)
            found = collections.Counter(zip(*(self.normal(name, table[name]) for name in table.column_names)))
            if found != expected:
                missing, more = list((expected - found).items())[:2], list((found - expected).items())[:2]
                counts = f"{expected.total()} rows expected, {found.total()} found"
                return f"as of {time}: {counts}; missing {missing}; instead {more}"
        return None

    def normal(self, name, column):
        """Returns values in a form that is equal for equal values of both readers."""
        type_ = column.type
        if pyarrow.types.is_dictionary(type_):
            column = pyarrow.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], type_.value_type)
        if pyarrow.types.is_temporal(type_):
            unit = "D" if pyarrow.types.is_date(type_) else type_.unit
            stored = dict(self.dimensions).get(name) or self.types[name][0]
            values = column.to_numpy().astype(f"datetime64[{unit}]").astype(stored).astype("int64").tolist()
            return [None if value == numpy.iinfo("int64").min else value for value in values]
        return [plain(value) for value in column.to_pylist()]

    def expected(self, time):
        with tiledb.open(self.path, timestamp=time, ctx=self.context) as array:
            read = array.query(coords=True)[:] if self.sparse else array.query(coords=True)[(slice(None),) * len(self.dimensions)]
        columns = []
        for name in [*(name for name, _ in self.dimensions), *self.types]:
            values = read[name].ravel()
            mask = numpy.ma.getmaskarray(values)
            values = numpy.ma.getdata(values)
            type_, _ = self.types.get(name, ("", 0))
            if type_ == "enumeration":
                enumeration = next(one for one in self.enumerations if one.name == f"e{name[1:]}").values()
                values = [enumeration[value] if 0 <= value < len(enumeration) else None for value in values.tolist()]
                values = [value.item() if hasattr(value, "item") else value for value in values]
            elif values.dtype.kind == "M":
                values = [None if value == numpy.iinfo("int64").min else value for value in values.astype("int64").tolist()]
            else:
                values = values.tolist()
            columns.append([None if hidden else plain(value) for value, hidden in zip(values, mask)])
        return collections.Counter(zip(*columns))


def plain(value):
    """Texts of dimensions are read as bytes; a text that was never written is one NUL or empty."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, memoryview | bytes):
        return bytes(value).rstrip(b"\0").decode("latin-1")
    return value.rstrip("\0") if isinstance(value, str) else value


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments = arguments.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "key").write_text(KEY)
        cases = []
        for number in range(arguments.cases):
            seed = arguments.seed * 1_000_003 + number
            try:
                cases.append(Case(seed, folder))
            except (tiledb.TileDBError, ValueError) as error:
                # A combination that TileDB-Py refuses.
                print(f"case {seed} is not written: {error}", file=sys.stderr)
        if len(cases) < 0.8 * arguments.cases:
            sys.exit(f"only {len(cases)} of {arguments.cases} arrays could be written")
        script = folder / "copy.sql"
        script.write_text("\n".join(line for case in cases for line in case.statements(folder)))
        done = subprocess.run([arguments.binary, "-f", str(script)], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        for case in cases:
            problem = case.problem(folder)
            if problem:
                failed += 1
                kind = "sparse" if case.sparse else "dense"
                print(f"case {case.number}, {kind}, {case.done}: {problem}\n{case.schema}", file=sys.stderr)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
