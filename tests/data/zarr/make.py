#!/usr/bin/env python3
"""Writes the Zarr hierarchies of the tests, all into `stores.json`. Writes their cells, according to NumPy, into `expected.json`,
and the values and times that xarray decodes from them into `decoded.json` and `times.json`.

    pip install zarr xarray numpy cftime
    python tests/data/zarr/make.py

Written with zarr 3.1, xarray 2026.9 and NumPy 2.4.
"""

import json
import shutil
import tempfile
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import xarray as xr
import zarr
from numcodecs import zarr3
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

warnings.simplefilter("ignore")
HERE = Path(__file__).parent
STORES = Path(tempfile.mkdtemp())
EXPECTED = {}
DECODED = {}
TIMES = {}


def expect(store, name, values, dtype, **more):
    """What the array holds: its sum, and all cells of a small one, else some."""
    values = np.asarray(values)
    flat = values.reshape(-1)
    if dtype == "text":
        cells, total = [str(value) for value in flat], None
    else:
        numbers = flat.astype("i8") if flat.dtype.kind in "mMb" else flat
        picked = range(len(numbers)) if len(numbers) <= 12 else range(0, len(numbers), len(numbers) // 10)
        # As text, since JSON has neither NaN nor all integers.
        cells = {str(n): repr(numbers[n].item()) for n in picked}
        total = repr(float(np.nansum(numbers.astype("f8"))))
    EXPECTED.setdefault(store, {})[name] = {
        "dtype": dtype, "shape": list(values.shape), "cells": cells, "sum": total, **more,
    }


def fresh(name):
    return STORES / name


def packed():
    """The files of each store: metadata as text, chunks in hexadecimal digits."""
    stores = {}
    for path in sorted(STORES.rglob("*")):
        if path.is_file():
            store, name = path.relative_to(STORES).as_posix().split("/", 1)
            content = path.read_bytes()
            is_text = path.name.startswith(".z") or path.suffix == ".json"
            value = content.decode() if is_text else {"hex": content.hex()}
            stores.setdefault(store, {})[name] = value
    return stores


def types(version):
    """An array of each type, in a hierarchy without consolidated metadata."""
    store = f"types_v{version}.zarr"
    root = zarr.open_group(fresh(store), mode="w", zarr_format=version)
    for dtype, ours in [
        ("int8", "i8"), ("int16", "i16"), ("int32", "i32"), ("int64", "i64"), ("uint8", "u8"), ("uint16", "u16"),
        ("uint32", "u32"), ("uint64", "u64"), ("float16", "f16"), ("float32", "f32"), ("float64", "f64"),
    ]:
        info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
        values = np.array([0, 1, info.min, info.max, 7, 100, 3], dtype)
        if np.dtype(dtype).kind == "f":
            values[4] = np.nan
            values[2:4] = [-1.5, 0.25]
        array = root.create_array(dtype, shape=(7,), chunks=(4,), dtype=dtype, compressors=None)
        array[:] = values
        expect(store, dtype, values, ours, chunk_shape=[4])
    values = np.array([True, False, True, True, False])
    array = root.create_array("flags/bool", shape=(5,), chunks=(5,), dtype="bool", fill_value=True)
    array[:] = values
    expect(store, "flags/bool", values, "u8")
    absent = root.create_array("flags/absent", shape=(3,), chunks=(2,), dtype="bool", fill_value=True)
    expect(store, "flags/absent", np.array([True, True, True]), "u8", stored_bytes=0)
    root.create_array("complex", shape=(2,), chunks=(2,), dtype="complex64")
    instants = np.array(["2024-02-29T12:00", "NaT", "1969-12-31T23:59"], "M8[m]")
    array = root.create_array("times/instant", shape=(3,), chunks=(2,), dtype="M8[m]")
    array[:] = instants
    least = str(np.iinfo("i8").min)
    attrs = {"units": "minutes since 1970-01-01 00:00:00", "calendar": "proleptic_gregorian", "_FillValue": least}
    expect(store, "times/instant", instants, "i64", attrs=attrs)
    durations = np.array([1, -5, 86400], "m8[s]")
    array = root.create_array("times/duration", shape=(3,), chunks=(3,), dtype="m8[s]")
    array[:] = durations
    expect(store, "times/duration", durations, "i64", attrs={"units": "seconds", "_FillValue": least})
    texts = np.array(["rain", "snow", "rain", "", "Schön", "\U0001f327"])
    for name, dtype, chunks in [("texts/fixed", "<U6", 4), ("texts/variable", str, 4), ("texts/absent", "<U3", 2)]:
        fill = "?" if name == "texts/absent" else ""
        array = root.create_array(name, shape=(6,), chunks=(chunks,), dtype=dtype, fill_value=fill)
        if name == "texts/absent":
            expect(store, name, ["?"] * 6, "text")
        else:
            array[:] = texts
            expect(store, name, texts, "text")
    if version == 2:
        root.create_array("texts/big", shape=(6,), chunks=(6,), dtype=">U6", order="F")[:] = texts
        expect(store, "texts/big", texts, "text")
    root.create_array("texts/bytes", shape=(2,), chunks=(2,), dtype="S3")[:] = np.array([b"ab", b"c"])
    expect(store, "texts/bytes", ["ab", "c"], "text")
    root.create_array("texts/two_dimensions", shape=(1, 2), chunks=(1, 2), dtype="<U3")[:] = np.array([["a", "b"]])
    expect(store, "texts/two_dimensions", [["a", "b"]], "text")
    root.create_array("scalar", shape=(), dtype="f8")[()] = 2.5
    expect(store, "scalar", np.float64(2.5), "f64")
    root.create_array("empty", shape=(0, 3), chunks=(2, 2), dtype="i4")
    expect(store, "empty", np.zeros((0, 3), "i4"), "i32")


def layouts():
    """The same values through codecs, orders and chunks of all kinds."""
    values = (np.arange(7 * 10 * 5).reshape(7, 10, 5) % 97 * 0.5).astype("f4")
    store = "layouts_v2.zarr"
    root = zarr.open_group(fresh(store), mode="w", zarr_format=2)
    for name, more in {
        "raw": dict(compressors=None),
        "zstd": dict(compressors=numcodecs.Zstd(3)),
        "gzip": dict(compressors=numcodecs.GZip(3)),
        "zlib": dict(compressors=numcodecs.Zlib(3)),
        "bz2": dict(compressors=numcodecs.BZ2(3)),
        "blosc": dict(compressors=numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)),
        "blosc_zstd": dict(compressors=numcodecs.Blosc("zstd", 5, numcodecs.Blosc.BITSHUFFLE)),
        "shuffle": dict(filters=[numcodecs.Shuffle(4)], compressors=numcodecs.Zlib(1)),
        "fortran": dict(order="F", compressors=numcodecs.Zstd(1)),
        "big": dict(dtype=">f4", compressors=None),
        "nested": dict(chunk_key_encoding={"name": "v2", "separator": "/"}),
        "filled": dict(fill_value=-1),
    }.items():
        more = {"dtype": "<f4", "shape": values.shape, "chunks": (7, 4, 5), **more}
        array = root.create_array(name, **more)
        stored = values.copy()
        if name == "filled":
            array[:, :8] = values[:, :8]
            stored[:, 8:] = -1
            expect(store, name, stored, "f32", attrs={"_FillValue": "-1.0"}, chunk_shape=[7, 4, 5])
        else:
            array[:] = values
            expect(store, name, stored, "f32", chunk_shape=[7, 4, 5])
    # lz4 by itself is not supported.
    root.create_array("lz4", shape=(4,), chunks=(4,), dtype="<f4", compressors=numcodecs.LZ4())[:] = 1
    zarr.consolidate_metadata(STORES / store, zarr_format=2)
    store = "layouts_v3.zarr"
    root = zarr.open_group(fresh(store), mode="w", zarr_format=3)
    shards = dict(chunks=(4, 2, 5), shards=(8, 4, 5))
    for name, more in {
        "raw": dict(compressors=None),
        "zstd": dict(compressors=[ZstdCodec(level=3)]),
        "zstd_checksum": dict(compressors=[ZstdCodec(level=3, checksum=True)]),
        "gzip": dict(compressors=[GzipCodec(level=3)]),
        "blosc": dict(compressors=[BloscCodec(cname="lz4", shuffle="shuffle", typesize=4)]),
        "crc32c": dict(compressors=[Crc32cCodec()]),
        "big": dict(serializer=BytesCodec(endian="big")),
        "numcodecs_zlib": dict(compressors=[zarr3.Zlib()]),
        "numcodecs_bz2": dict(compressors=[zarr3.BZ2()]),
        "transpose": dict(filters=[TransposeCodec(order=(2, 0, 1))]),
        "keys_v2": dict(chunk_key_encoding={"name": "v2", "separator": "."}),
        "shards": dict(**shards, compressors=[ZstdCodec()]),
        "shards_raw": dict(**shards, compressors=None),
        "shards_first": dict(
            chunks=(4, 2, 5), shards={"shape": (8, 4, 5), "index_location": "start"}, compressors=[GzipCodec()]
        ),
        "shards_absent": dict(**shards, fill_value=3),
    }.items():
        more = {"dtype": "<f4", "shape": values.shape, "chunks": (4, 4, 5), **more}
        array = root.create_array(name, dimension_names=["x", "y", "z"], **more)
        stored = values.copy()
        if name == "shards_absent":
            array[:2, 2:4] = values[:2, 2:4]
            stored[:] = 3
            stored[:2, 2:4] = values[:2, 2:4]
        else:
            array[:] = values
        expect(store, name, stored, "f32", chunk_shape=list(more["chunks"]), dims=["x", "y", "z"])
    texts = np.array([f"station {n % 3}" for n in range(9)])
    array = root.create_array("texts", shape=(9,), chunks=(2,), shards=(4,), dtype=str)
    array[:] = texts
    expect(store, "texts", texts, "text")
    # Nothing else writes this, but it can be put together: a shard that is compressed as a whole.
    inner = root["shards_raw"]
    document = json.loads((STORES / store / "shards_raw/zarr.json").read_text())
    folder = STORES / store / "shards_compressed"
    folder.mkdir()
    document["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    (folder / "zarr.json").write_text(json.dumps(document))
    for path in (STORES / store / "shards_raw/c").rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(STORES / store / "shards_raw")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(numcodecs.GZip(1).encode(path.read_bytes()))
    expect(store, "shards_compressed", inner[:], "f32", chunk_shape=[8, 4, 5], dims=["x", "y", "z"])


def datasets():
    """What xarray writes: CF times, fill values, packed values, names of dimensions, attributes of all kinds."""
    temperature = np.arange(24, dtype="f4").reshape(4, 2, 3) / 4
    temperature[1, 0, 0] = np.nan
    dataset = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), temperature, {"units": "K", "valid_range": [0, 400], "standard": True}),
            "count": (("time",), np.array([1, 2, -1, 4], "i4"), {"missing_value": np.int32(-1), "limit": np.nan}),
            "name": (("station",), np.array(["north", "south", "north"])),
        },
        coords={
            "time": np.array(["2024-01-01T00", "2024-01-01T06", "2024-01-01T12", "2024-01-02T00"], "M8[ns]"),
            "lat": [10.0, 20.0],
            "lon": np.array([1, 2, 3], "f4"),
        },
        attrs={"title": "test"},
    )
    packed = np.round((temperature - 2) / 0.25)
    for version in (2, 3):
        store = f"xarray_v{version}.zarr"
        encoding = {
            "t2m": {"_FillValue": np.float32(-999.5), "chunks": (2, 2, 2)},
            "packed": {"_FillValue": np.int16(-32768), "scale_factor": 0.25, "add_offset": 2.0, "dtype": "i2"},
            "time": {"units": "hours since 2000-01-01", "dtype": "i8"},
        }
        written = dataset.assign(packed=dataset.t2m.copy())
        written["packed"].attrs = {}
        written.to_zarr(fresh(store), mode="w", zarr_format=version, encoding=encoding, consolidated=version == 2)
        dims = ["time", "lat", "lon"]
        stored = np.where(np.isnan(temperature), np.float32(-999.5), temperature)
        attrs = {"_FillValue": "-999.5", "units": "K", "valid_range": "[0,400]", "standard": "true"}
        expect(store, "t2m", stored, "f32", dims=dims, attrs=attrs, chunk_shape=[2, 2, 2])
        stored = np.where(np.isnan(packed), -32768, packed).astype("i2")
        attrs = {"_FillValue": "-32768", "scale_factor": "0.25", "add_offset": "2.0"}
        expect(store, "packed", stored, "i16", dims=dims, attrs=attrs)
        attrs = {"missing_value": "-1", "limit": "NaN"}
        expect(store, "count", dataset["count"].values, "i32", dims=["time"], attrs=attrs)
        hours = (dataset.time.values - np.datetime64("2000-01-01")) // np.timedelta64(1, "h")
        attrs = {"units": "hours since 2000-01-01", "calendar": "proleptic_gregorian"}
        expect(store, "time", hours.astype("i8"), "i64", dims=["time"], attrs=attrs)
        expect(store, "lat", dataset.lat.values, "f64", dims=["lat"])
        expect(store, "lon", dataset.lon.values, "f32", dims=["lon"])
        expect(store, "name", dataset.name.values, "text", dims=["station"])
        decode(store, "t2m", "count", "packed", "lat", "lon")


def decode(store, *names):
    """What xarray makes of arrays, as numbers in text; null where a cell is missing."""
    for name in names:
        with xr.open_zarr(fresh(store), consolidated=False) as dataset:
            values = dataset[name].values.astype("f8").reshape(-1)
        values = [None if np.isnan(value) else repr(value.item()) for value in values]
        DECODED.setdefault(store, {})[name] = values


def missing():
    """Integers with missing values and signs of all kinds."""
    shorts = np.array([1, -9999, 3, -9998, -9997, 0], "i2")
    bytes_ = np.array([1, -1, -128, 127], "i1")
    arrays = {
        "float_fill": (shorts, {"_FillValue": -9999.0}),
        "float_missing": (shorts, {"missing_value": -9999.0}),
        "list_missing": (shorts, {"missing_value": [-9999, -9998.0]}),
        "both": (shorts, {"_FillValue": -9999, "missing_value": -9997}),
        "out_of_range": (np.array([1, 2, 255, 4], "u1"), {"_FillValue": -1}),
        "float_list": (shorts.astype("f4"), {"missing_value": [-9999.0, -9998.0]}),
        "unsigned": (bytes_, {"_Unsigned": "true"}),
        "unsigned_fill": (bytes_, {"_Unsigned": "true", "_FillValue": -1}),
        "unsigned_missing": (bytes_, {"_Unsigned": "true", "missing_value": -1}),
        "unsigned_packed": (
            np.array([1, -1, -32768, 7], "i2"),
            {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5, "add_offset": 10.0},
        ),
        "signed": (bytes_.view("u1"), {"_Unsigned": "false", "_FillValue": -1}),
        "list_packed": (shorts, {"missing_value": [-9999, -9998], "scale_factor": 0.1}),
    }
    for version in (2, 3):
        store = f"missing_v{version}.zarr"
        root = zarr.open_group(fresh(store), mode="w", zarr_format=version)
        for name, (values, attrs) in arrays.items():
            dims = ["x" if len(values) == 6 else "y"]
            names = dict(dimension_names=dims) if version == 3 else {}
            array = root.create_array(name, data=values, chunks=(4,), fill_value=None if version == 2 else 0, **names)
            array.attrs.update(attrs if version == 3 else {**attrs, "_ARRAY_DIMENSIONS": dims})
        decode(store, *arrays)


def packed_dataset():
    """What xarray packs: values and a coordinate; and times of a calendar that timestamps cannot follow."""
    values = 250 + np.arange(60).reshape(5, 4, 3) % 41 * 0.75
    values[2, 1] = np.nan
    dataset = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), values, {"units": "K"}),
            "plain": (("time",), np.arange(5.0)),
        },
        coords={
            "time": xr.date_range("2001-02-28", periods=5, freq="D", calendar="360_day", use_cftime=True),
            "lat": [10.0, 12.5, 15.0, 17.5],
            "lon": [0.0, 0.1, 0.2],
        },
    )
    encoding = {
        "t2m": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768, "chunks": (2, 2, 3)},
        "lat": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": None},
    }
    for version in (2, 3):
        store = f"packed_v{version}.zarr"
        dataset.to_zarr(fresh(store), mode="w", zarr_format=version, encoding=encoding, consolidated=False)
        decode(store, "t2m", "lat", "lon", "plain")


def forecasts():
    """What xarray writes for lead times, and for delays among the variables; and the analysis at the valid times."""
    lead = np.array([0, 6, 12, 24, 48], "m8[h]")
    init = np.array(["2024-01-01T00", "2024-01-01T12", "2024-01-02T00"], "M8[h]")
    time = np.arange(np.datetime64("2024-01-01T00"), np.datetime64("2024-01-04T06"), np.timedelta64(6, "h"))
    delay = np.array([90, 150, "NaT"], "m8[s]")
    dataset = xr.Dataset(
        {
            "t2m": (("init", "lead"), np.arange(15, dtype="f4").reshape(3, 5)),
            "delay": (("init",), delay.astype("m8[ns]")),
            "analysis": (("time",), np.arange(13, dtype="f4") / 2),
            "period": (("init",), np.array([8.0, 9.0, 10.0]), {"units": "s"}),
        },
        coords={"init": init.astype("M8[ns]"), "lead": lead.astype("m8[ns]"), "time": time.astype("M8[ns]")},
    )
    for version in (2, 3):
        store = f"forecasts_v{version}.zarr"
        dataset.to_zarr(fresh(store), mode="w", zarr_format=version, encoding={"t2m": {"chunks": (1, 5)}}, consolidated=False)
        with xr.open_zarr(fresh(store), consolidated=False, decode_timedelta=True) as found:
            valid = (found.init + found.lead).values.astype("M8[s]")
            errors = found.t2m - found.analysis.sel(time=found.init + found.lead)
            TIMES[store] = {
                "lead": [repr(int(value)) for value in found.lead.values.astype("m8[s]").astype("i8")],
                "delay": [None if np.isnat(value) else repr(value.astype("m8[s]").astype("i8").item()) for value in found.delay.values],
                "valid": [str(value) for value in valid.reshape(-1)],
                "errors": [repr(value.item()) for value in errors.values.reshape(-1)],
            }


def single():
    """Hierarchies that are one array, and one that has consolidated metadata alone."""
    for version in (2, 3):
        store = f"single_v{version}.zarr"
        array = zarr.create_array(fresh(store), shape=(3, 4), chunks=(2, 2), dtype="<i4", zarr_format=version)
        array[:] = np.arange(12).reshape(3, 4)
        expect(store, f"single_v{version}", np.arange(12).reshape(3, 4), "i32", chunk_shape=[2, 2])
    store = "consolidated_v2.zarr"
    root = zarr.open_group(fresh(store), mode="w", zarr_format=2)
    root.create_array("group/a", shape=(3,), chunks=(2,), dtype="<u2", compressors=None)[:] = [5, 6, 7]
    zarr.consolidate_metadata(STORES / store, zarr_format=2)
    for path in [STORES / store / ".zgroup", *(STORES / store / "group").rglob(".z*")]:
        path.unlink()
    expect(store, "group/a", np.array([5, 6, 7], "u2"), "u16", chunk_shape=[2])


if __name__ == "__main__":
    types(2)
    types(3)
    layouts()
    datasets()
    single()
    missing()
    packed_dataset()
    forecasts()
    contents = [("stores.json", packed()), ("expected.json", EXPECTED), ("decoded.json", DECODED), ("times.json", TIMES)]
    for name, content in contents:
        (HERE / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(STORES)
