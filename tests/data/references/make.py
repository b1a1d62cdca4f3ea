"""Writes the references of this directory, in JSON and in Parquet, and the values of the file that they describe.

    python make.py

Needs kerchunk, fsspec, fastparquet, h5py and numpy. `values.json` has the values as h5py reads them.
"""

import json
import os
import pathlib
import shutil

import h5py
import numpy
from fsspec.implementations.reference import LazyReferenceMapper
from kerchunk.df import refs_to_dataframe
from kerchunk.hdf import SingleHdf5ToZarr

os.chdir(pathlib.Path(__file__).parent)
with h5py.File("cells.h5", "w", libver="latest") as file:
    cells = numpy.arange(30, dtype="f4").reshape(5, 6) * 1.5
    t = file.create_dataset("t", data=cells, chunks=(2, 4), compression="gzip")
    y = file.create_dataset("y", data=numpy.arange(5, dtype="f8") * 10)
    x = file.create_dataset("x", data=numpy.arange(6, dtype="i4"))
    # Chunks without cells have no reference, and a partition of Parquet is left out.
    sparse = file.create_dataset("sparse", shape=(60,), chunks=(4,), dtype="i4", fillvalue=-1)
    sparse[8:12] = [1, 2, 3, 4]
    sparse[36:40] = 9
    raw = file.create_dataset("raw", data=numpy.arange(24, dtype="i2").reshape(4, 6), chunks=(1, 6))
    one = file.create_dataset("one", data=numpy.float64(2.5))
    for dimension, name in ((y, "y"), (x, "x")):
        dimension.make_scale(name)
    t.dims[0].attach_scale(y)
    t.dims[1].attach_scale(x)
    t.attrs["units"] = "K"
with h5py.File("cells.h5") as file:
    values = {name: file[name][()].tolist() for name in file}
pathlib.Path("values.json").write_text(json.dumps(values) + "\n")

# Chunks of at most 20 bytes become part of the references.
references = SingleHdf5ToZarr("cells.h5", inline_threshold=20).translate()
pathlib.Path("refs.json").write_text(json.dumps(references, indent=1) + "\n")
for name in ("mapper.parq", "frame.parq"):
    shutil.rmtree(name, ignore_errors=True)
mapper = LazyReferenceMapper.create("mapper.parq", record_size=4, engine="fastparquet")
# Metadata first, from which the mapper knows the numbers of chunks.
for key, value in sorted(references["refs"].items(), key=lambda item: ".z" not in item[0]):
    mapper[key] = value
mapper.flush()
refs_to_dataframe(references, "frame.parq", record_size=3)
