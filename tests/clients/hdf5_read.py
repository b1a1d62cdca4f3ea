"""Writes random HDF5 files with h5py, and reads them with `tet-sql`.

    tests/clients/run hdf5_read.py --cases 200

The files are of all library versions, with and without a user block. Datasets are of all types and byte orders, contiguous,
compact and chunked with each kind of chunk index, with all filters, partly unwritten, grown and shrunk, and some of their
chunks skip filters. One process of `tet-sql` copies each dataset to Parquet, which is compared with what h5py reads.
"""

import argparse
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile
import zlib

import h5py
import hdf5plugin
import numpy
import pyarrow.parquet

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
TYPES = [*INTEGERS, "f2", "f4", "f8", "bool", "enum", "text", "fixed"]
LIBRARIES = ["earliest", "v108", "v110", "v112", "latest"]
WORDS = ["", "a", "red", "grün", "two words", "x" * 12]
COMPRESSORS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


class Case:
    """A random file, which is written on creation."""

    def __init__(self, seed, folder):
        self.choose = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)
        self.number = seed
        self.path = folder / f"case_{seed}.h5"
        self.about = {}
        options = {"libver": self.choose.choice(LIBRARIES)}
        if self.choose.random() < 0.15:
            options["userblock_size"] = self.choose.choice((512, 1024, 4096))
        if self.choose.random() < 0.3:
            options["track_order"] = True
        with h5py.File(self.path, "w", **options) as file:
            groups = [file]
            for number in range(self.choose.randint(0, 3)):
                groups.append(self.choose.choice(groups).create_group(f"g{number}"))
            for number in range(self.choose.randint(1, 12)):
                self.write(self.choose.choice(groups), f"v{number}")

    def write(self, group, name):
        choose = self.choose
        type_ = choose.choice(TYPES)
        rank = choose.choice((0, 1, 1, 2, 2, 3, 4))
        most = {0: 1, 1: 400, 2: 40, 3: 12, 4: 6}[rank]
        shape = tuple(choose.randint(0 if choose.random() < 0.1 else 1, most) for _ in range(rank))
        options = {}
        if rank and choose.random() < 0.75:
            options["chunks"] = tuple(choose.randint(1, extent + 2) for extent in shape)
            # Chunks have no more elements than the maximum of the shape.
            if choose.random() < 0.5 or 0 in shape:
                larger = [extent + choose.randint(0, 9) for extent in shape]
                options["maxshape"] = tuple(None if choose.random() < 0.4 or extent == 0 else extent for extent in larger)
            maximum = options.get("maxshape", shape)
            options["chunks"] = tuple(
                chunk if limit is None else max(1, min(chunk, limit)) for chunk, limit in zip(options["chunks"], maximum)
            )
            options.update(self.filters(type_))
        dtype, data = self.data(type_, shape)
        if type_ not in ("text", "fixed", "bool", "enum") and choose.random() < 0.4:
            options["fillvalue"] = data.ravel()[0] if data.size else 1
        self.about[f"{group.name}/{name}".lstrip("/")] = f"{type_} {dtype} {shape} {options}"
        try:
            dataset = group.create_dataset(name, shape, dtype, **options)
        except (ValueError, OSError, TypeError):
            # A combination that h5py or a filter refuses.
            options = {key: options[key] for key in ("chunks", "maxshape") if key in options}
            group.pop(name, None)
            dataset = group.create_dataset(name, shape, dtype, **options)
        if choose.random() < 0.1:
            return
        if rank and min(shape) > 1 and choose.random() < 0.25:
            # Some chunks are never written.
            part = tuple(slice(choose.randint(0, extent - 1), None) for extent in shape)
            dataset[part] = data[part]
        else:
            dataset[...] = data
        if "maxshape" in options and choose.random() < 0.4:
            dataset.resize(tuple(self.resized(extent, limit) for extent, limit in zip(shape, options["maxshape"])))
        self.skip_filters(dataset)

    def resized(self, extent, limit):
        return self.choose.randint(max(1, extent // 2), min(extent + 5, limit or extent + 5))

    def filters(self, type_):
        choose = self.choose
        kind = choose.choice(
            ["none", "none", "gzip", "gzip", "lzf", "szip", "scaleoffset", "lz4", "zstd", "blosc", "blosc", "fletcher32"]
        )
        options = {"shuffle": choose.random() < 0.4, "fletcher32": kind == "fletcher32" or choose.random() < 0.15}
        is_text = type_ in ("text", "fixed", "enum", "bool")
        if kind in ("gzip", "lzf"):
            options["compression"] = kind
        elif kind == "szip" and not is_text:
            options.update(compression="szip", compression_opts=(choose.choice(("nn", "ec")), choose.choice((4, 8, 16))))
        elif kind == "scaleoffset" and type_ in INTEGERS:
            options.update(scaleoffset=0, shuffle=False)
        elif kind == "lz4":
            options.update(hdf5plugin.LZ4(nbytes=choose.choice((0, 64, 1000))))
        elif kind == "zstd":
            options.update(hdf5plugin.Zstd(clevel=choose.randint(1, 9)))
        elif kind == "blosc" and type_ != "text":  # The plugin crashes on references.
            options.update(
                hdf5plugin.Blosc(cname=choose.choice(COMPRESSORS), clevel=choose.randint(0, 9), shuffle=choose.randint(0, 2))
            )
        return options

    def data(self, type_, shape):
        """Returns the type and the values of a dataset."""
        choose, count = self.choose, int(numpy.prod(shape))
        order = choose.choice("<>")
        if type_ == "text":
            texts = numpy.array([choose.choice(WORDS) for _ in range(count)], "O").reshape(shape)
            return h5py.string_dtype(), texts
        if type_ == "fixed":
            texts = [choose.choice(WORDS).encode() for _ in range(count)]
            return "S12", numpy.array(texts, "S12").reshape(shape)
        if type_ == "bool":
            return "bool", self.numbers.integers(0, 2, shape).astype("bool")
        if type_ == "enum":
            names = {"RED": -1, "GREEN": 0, "DARK BLUE": 100}
            base = choose.choice(("i1", f"{order}i2", f"{order}i8"))
            return h5py.enum_dtype(names, basetype=base), self.numbers.choice([-1, 0, 100], shape).astype(base)
        dtype = numpy.dtype(order + type_)
        steps = self.numbers.integers(-3, 4, shape).cumsum().reshape(shape)
        if dtype.kind == "f":
            return dtype, (steps / 4).astype(dtype)
        info = numpy.iinfo(dtype)
        if choose.random() < 0.2:
            return dtype, self.numbers.integers(info.min, info.max, shape, dtype.newbyteorder("="), endpoint=True)
        return dtype, numpy.clip(steps, info.min, info.max).astype(dtype)

    def skip_filters(self, dataset):
        """Writes a chunk again without the first filter of its dataset, if that is the shuffle before deflate."""
        pipeline = dataset._filters
        if dataset.chunks is None or list(pipeline) != ["shuffle", "gzip"] or self.choose.random() < 0.5:
            return
        if dataset.dtype.kind == "O" or dataset.id.get_num_chunks() == 0:
            return
        offset = dataset.id.get_chunk_info(0).chunk_offset
        cells = numpy.zeros(dataset.chunks, dataset.dtype)
        part = tuple(slice(start, start + size) for start, size in zip(offset, dataset.chunks))
        read = dataset[part]
        cells[tuple(slice(0, extent) for extent in read.shape)] = read
        mask, stored = self.choose.choice(((0b01, zlib.compress(cells.tobytes())), (0b11, cells.tobytes())))
        dataset.id.write_direct_chunk(offset, stored, filter_mask=mask)

    def datasets(self):
        """Returns the datasets of the file by their paths."""
        with h5py.File(self.path) as file:
            found = {}
            file.visititems(lambda name, node: found.update({name: node}) if isinstance(node, h5py.Dataset) else None)
            yield from found.items()

    def statements(self, folder):
        """Returns statements that copy each dataset, and a slice of it, to Parquet."""
        for number, (name, dataset) in enumerate(self.datasets()):
            options = f"dataset '{name}'"
            yield f"CREATE EXTERNAL TABLE t STORED AS HDF5 LOCATION '{self.path}' OPTIONS ({options});"
            output = self.output(folder, number)
            yield f"COPY (SELECT * FROM t) TO '{output}' STORED AS PARQUET;"
            yield "DROP TABLE t;"

    def output(self, folder, number):
        return folder / f"{self.number}_{number}.parquet"

    def problem(self, folder):
        """Compares what both readers read. Returns the first difference, or None."""
        for number, (name, dataset) in enumerate(self.datasets()):
            output = self.output(folder, number)
            about = f"{name}: {self.about[name]}"
            if not output.exists():
                return f"is not read, {about}"
            table = pyarrow.parquet.read_table(output)
            *axes, values = [column.to_pylist() for column in table.columns]
            expected = dict(zip(itertools.product(*map(range, dataset.shape)), plain(dataset), strict=True))
            if len(values) != len(expected):
                return f"{len(values)} rows, expected {len(expected)}, {about}"
            for value, key in zip(values, zip(*axes) if axes else [()]):
                wanted = expected[tuple(key)]
                is_same = value is None if wanted != wanted else value == wanted
                if not is_same:
                    return f"{value!r} at {key}, expected {wanted!r}, {about}"
        return None


def plain(dataset):
    """Returns the values of a dataset in row-major order."""
    if h5py.check_string_dtype(dataset.dtype):
        return numpy.asarray(dataset.asstr("utf-8")[()], "O").ravel().tolist()
    return numpy.asarray(dataset[()]).ravel().tolist()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--keep", type=pathlib.Path, help="a directory for the files, which are kept")
    arguments = arguments.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(exist_ok=True)
        cases = [Case(arguments.seed * 1_000_003 + number, folder) for number in range(arguments.cases)]
        script = folder / "copy.sql"
        script.write_text("\n".join(line for case in cases for line in case.statements(folder)))
        done = subprocess.run([arguments.binary, "-f", str(script)], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
        for case in cases:
            problem = case.problem(folder)
            if problem:
                failed += 1
                print(f"case {case.number}: {problem}\n", file=sys.stderr)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
