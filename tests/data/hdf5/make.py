"""Writes the HDF5 and NetCDF-4 files in this directory, and the values that h5py reads from them.

Beside each file `x.h5` or `x.nc` there is `x.npz` with the stored values of its datasets, and `x.json` with
the dimensions and attributes that netCDF4-python finds. `decoded.json` has values that xarray decodes.

    pip install h5py hdf5plugin netCDF4 xarray && python make.py
"""

import json
import pathlib

import hdf5plugin  # registers its filters with h5py
import h5py
import netCDF4
import numpy as np
import xarray
from h5py import h5d, h5p, h5s, h5t

HERE = pathlib.Path(__file__).parent
# The datasets that only soft links lead to, by file. h5py visits hard links.
SOFT_LINKS = {
    "groups": ["soft"],
    "linked": ["latest", "other/lat", "other/area"],
    "links": ["to_dataset", "to_link", "to_group/data", "to_group/inner/x", "through", "group/near", "group/far", "a_link"],
}
RNG = np.random.default_rng(26)


def values(shape, dtype):
    """Returns values with runs and repetitions, as real data has them."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    steps = RNG.integers(-3, 4, count).cumsum() + 100
    if dtype.kind == "f":
        return (steps / 4).astype(dtype).reshape(shape)
    info = np.iinfo(dtype)
    return np.clip(steps, info.min, info.max).astype(dtype).reshape(shape)


def stored(dataset):
    """Returns the values of a dataset as an array that .npy files can hold; None for other types."""
    kind = dataset.dtype.kind
    if h5py.check_string_dtype(dataset.dtype) is not None:
        texts = dataset.asstr("utf-8", errors="replace")[()]
        return np.array(texts, dtype="U") if np.size(texts) else None
    if kind not in "iufb" or dataset.dtype.itemsize > 8 or dataset.shape is None:
        return None
    data = dataset[()]
    return np.asarray(data).astype(data.dtype.newbyteorder("<"))


def expect(path):
    """Writes the values that h5py reads from an HDF5 file, or netCDF4-python from a NetCDF file."""
    found = {}

    def visit(name, node):
        if isinstance(node, h5py.Dataset) and not name.startswith("unsupported"):
            data = stored(node)
            if data is not None:
                found[name] = data

    def visit_group(group):
        for name, variable in group.variables.items():
            variable.set_auto_maskandscale(False)
            data = np.asarray(variable[:])
            if data.dtype.kind == "S":
                data = netCDF4.chartostring(data)
            if data.dtype.kind == "O":
                data = data.astype("U")
            if getattr(variable, "_Unsigned", "") == "true":
                data = data.view(data.dtype.str.replace("i", "u"))
            found[(group.path.strip("/") + "/" + name).lstrip("/")] = data.astype(data.dtype.newbyteorder("<"))
        for inner in group.groups.values():
            visit_group(inner)

    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            visit_group(file)
    else:
        with h5py.File(path) as file:
            file.visititems(visit)
            for name in SOFT_LINKS.get(path.stem.split("_")[0], []):
                found[name] = stored(file[name])
    np.savez_compressed(path.with_suffix(".npz"), **found)


def describe(path):
    """Writes the dimensions and attributes that netCDF4-python finds in a file."""

    def text(value):
        if isinstance(value, (str, np.str_)):
            return str(value)
        return np.asarray(value).tolist()

    def of(group):
        found = {}
        for name, variable in group.variables.items():
            path = (group.path.strip("/") + "/" + name).lstrip("/")
            found[path] = {
                "dimensions": list(variable.dimensions),
                "shape": list(variable.shape),
                "attributes": {key: text(variable.getncattr(key)) for key in variable.ncattrs()},
            }
        for inner in group.groups.values():
            found.update(of(inner))
        return found

    with netCDF4.Dataset(path) as file:
        about = {"variables": of(file), "attributes": {key: text(file.getncattr(key)) for key in file.ncattrs()}}
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")


def decode(path):
    """Writes the values of packed and masked variables as xarray decodes them."""
    found = {}
    with xarray.open_dataset(path, engine="netcdf4") as file:
        for name in ("packed", "wind", "big", "unsigned", "short", "nv"):
            values = file[name].values.astype("f8").ravel()
            found[name] = [None if np.isnan(value) else value for value in values.tolist()]
    path.with_name("decoded.json").write_text(json.dumps(found, indent=1) + "\n")


def layouts(path, libver):
    """All layouts and chunk indexes of a library version."""
    with h5py.File(path, "w", libver=libver) as file:
        make = file.create_dataset
        make("contiguous", data=values((5, 7), "<f4"))
        make("contiguous_big_endian", data=values((5, 7), ">f8"))
        make("never_written", (4, 3), "<i4", fillvalue=-7)
        make("scalar", data=np.float64(2.5))
        make("empty", (0, 3), "<i2", maxshape=(None, 3), chunks=(2, 3))
        make("single", data=values((6, 4), "<i4"), chunks=(6, 4))
        make("single_deflated", data=values((6, 4), "<i4"), chunks=(6, 4), compression="gzip")
        make("single_larger", data=values((6, 4), "<i2"), chunks=(8, 8), maxshape=(8, 8))
        make("fixed", data=values((10, 9), "<f8"), chunks=(4, 4))
        make("fixed_deflated", data=values((10, 9), "<u2"), chunks=(4, 4), compression="gzip", shuffle=True)
        make("paged", data=values((3000,), "u1"), chunks=(2,), compression=None)
        holes = make("holes", (9, 9), "<i4", chunks=(4, 4), fillvalue=42, compression="gzip")
        holes[4:6, 5:8] = values((2, 3), "<i4")
        grown = make("below_its_maximum", (6, 5), "<i2", chunks=(2, 2), maxshape=(12, 11))
        grown[...] = values((6, 5), "<i2")
        make("unlimited", data=values((700, 3), "<i2"), chunks=(1, 2), maxshape=(None, 3))
        make("unlimited_second", data=values((3, 90), "<i2"), chunks=(2, 1), maxshape=(3, None))
        make("unlimited_deflated", data=values((60,), "<f4"), chunks=(7,), maxshape=(None,), compression="gzip")
        make("unlimited_twice", data=values((40, 30), "u1"), chunks=(4, 3), maxshape=(None, None))
        twice = make("unlimited_twice_deflated", (9, 8), "<i8", chunks=(4, 3), maxshape=(None, None), compression="gzip")
        twice[3:, 2:6] = values((6, 4), "<i8")
        shrunk = make("shrunk", data=values((10, 10), "<i4"), chunks=(4, 4), maxshape=(None, 20))
        shrunk.resize((5, 7))

        low = h5p.create(h5p.DATASET_CREATE)
        low.set_layout(h5d.COMPACT)
        data = values((3, 5), "<i2")
        dataset = h5d.create(file.id, b"compact", h5t.STD_I16LE, h5s.create_simple((3, 5)), low)
        dataset.write(h5s.ALL, h5s.ALL, data)
        low = h5p.create(h5p.DATASET_CREATE)
        low.set_chunk((4, 3))
        low.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        data = values((10, 7), "<i4")
        dataset = h5d.create(file.id, b"early", h5t.STD_I32LE, h5s.create_simple((10, 7), (12, 20)), low)
        dataset.write(h5s.ALL, h5s.ALL, data)


def filters(path):
    """All filters, with several types and sizes."""
    with h5py.File(path, "w") as file:

        def make(name, dtype="<f4", shape=(50, 21), chunks=(16, 10), **options):
            data = values(shape, dtype)
            file.create_dataset(name, data=data, chunks=chunks, **options)

        for dtype in ("i1", "<i2", "<i4", "<f8", ">f4"):
            make(f"shuffle_deflate_{np.dtype(dtype).name}_{dtype[0] == '>'}", dtype, compression="gzip", shuffle=True)
        make("deflate_9", compression="gzip", compression_opts=9)
        make("fletcher32", fletcher32=True)
        make("all_standard", "<i4", shuffle=True, compression="gzip", fletcher32=True)
        make("lzf", "<i4", compression="lzf", shuffle=True)
        make("lzf_bytes", "u1", compression="lzf")
        make("szip_nn", "<i2", compression="szip", compression_opts=("nn", 8))
        make("szip_ec", "<f4", compression="szip", compression_opts=("ec", 32), chunks=(16, 16), shape=(40, 32))
        make("szip_bytes", "u1", compression="szip", compression_opts=("nn", 16))
        make("szip_f8", "<f8", compression="szip", compression_opts=("nn", 16))
        make("scaleoffset_i4", "<i4", scaleoffset=0)
        make("scaleoffset_i2_big_endian", ">i2", scaleoffset=0)
        make("scaleoffset_u1_bits", "u1", scaleoffset=8)
        make("scaleoffset_f4", "<f4", scaleoffset=2)
        make("scaleoffset_f8_shuffle", "<f8", scaleoffset=3, shuffle=True, compression="gzip")
        make("lz4", "<i4", **hdf5plugin.LZ4())
        make("lz4_small_blocks", "<i4", **hdf5plugin.LZ4(nbytes=100))
        make("zstd", "<f8", shuffle=True, **hdf5plugin.Zstd(clevel=5))
        for compressor in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
            for shuffle in (0, 1, 2):
                make(
                    f"blosc_{compressor}_{shuffle}",
                    ["<f4", "<i2", "<f8"][shuffle],
                    shape=(200, 40),
                    chunks=(128, 40),
                    **hdf5plugin.Blosc(cname=compressor, clevel=5, shuffle=shuffle),
                )
        noise = RNG.integers(0, 255, (64, 20), dtype="u1")
        file.create_dataset("blosc_noise", data=noise, chunks=(32, 20), **hdf5plugin.Blosc(cname="blosclz"))
        file.create_dataset("lzf_noise", data=noise, chunks=(32, 20), compression="lzf")
        file.create_dataset("lz4_noise", data=noise, chunks=(32, 20), **hdf5plugin.LZ4())
        # Distances above 8 KiB, which BloscLZ stores in another form.
        block = RNG.integers(0, 255, 10_000, dtype="u1")
        far = np.concatenate([block, block[:6000]])
        file.create_dataset("blosc_far", data=far, chunks=far.shape, **hdf5plugin.Blosc(cname="blosclz", clevel=9, shuffle=0))
        file.create_dataset("unsupported_blosc2", data=values((8, 8), "<f4"), chunks=(8, 8), **hdf5plugin.Blosc2())
        file.create_dataset("unsupported_zfp", data=values((8, 8), "<f4"), chunks=(8, 8), **hdf5plugin.Zfp())
        file.create_dataset("unsupported_bitshuffle", data=values((8, 8), "<f4"), chunks=(8, 8), **hdf5plugin.Bitshuffle())

        # Chunks that skip some of their filters.
        masked = file.create_dataset("masked", (8, 8), "<i4", chunks=(4, 4), compression="gzip", shuffle=True)
        data = values((8, 8), "<i4")
        masked[...] = data
        masked.id.write_direct_chunk((4, 4), data[4:, 4:].tobytes(), filter_mask=0b11)
        import zlib

        masked.id.write_direct_chunk((0, 4), zlib.compress(data[:4, 4:].tobytes()), filter_mask=0b01)

        # Integers and floats in some of their bits.
        for name, base, precision, offset in (
            ("nbit_i4", h5t.STD_I32LE, 17, 3),
            ("nbit_u2_big_endian", h5t.STD_U16BE, 11, 2),
            ("nbit_i8", h5t.STD_I64LE, 33, 0),
        ):
            kind = base.copy()
            kind.set_precision(precision)
            kind.set_offset(offset)
            low = h5p.create(h5p.DATASET_CREATE)
            low.set_chunk((8, 5))
            low.set_filter(h5py.h5z.FILTER_NBIT, 0)
            dataset = h5d.create(file.id, name.encode(), kind, h5s.create_simple((20, 9)), low)
            data = values((20, 9), "<i4") - (0 if "u2" in name else 300)
            dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(data))
            # The same without the filter.
            low = h5p.create(h5p.DATASET_CREATE)
            plain = h5d.create(file.id, f"bits_{name}".encode(), kind, h5s.create_simple((20, 9)), low)
            plain.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(data))


def types(path):
    """All types, those that cannot be read included."""
    with h5py.File(path, "w") as file:
        for order in "<>":
            for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
                data = values((4, 3), order + dtype)
                name = f"{dtype}_{'little' if order == '<' else 'big'}"
                if dtype[0] == "i":
                    data = -data
                file.create_dataset(name, data=data)
                file.create_dataset(f"{name}_chunked", data=data, chunks=(3, 2), compression="gzip")
        file.create_dataset("bool", data=np.array([True, False, True]))
        kind = h5py.enum_dtype({"CLEAR": 0, "RAIN": 1, "HEAVY SNOW": 5}, basetype="i1")
        file.create_dataset("enum", data=np.array([0, 5, 1, 1], "i1"), dtype=kind)
        kind = h5py.enum_dtype({"LOW": -300, "HIGH": 300}, basetype=">i2")
        file.create_dataset("enum_big_endian", data=np.array([300, -300]), dtype=kind)
        texts = ["rain", "", "snow", "Sä\N{SNOWMAN}", "rain"]
        file.create_dataset("text_variable", data=texts, dtype=h5py.string_dtype())
        file.create_dataset("text_variable_chunked", data=texts, dtype=h5py.string_dtype(), chunks=(2,), compression="gzip")
        file.create_dataset("text_variable_2d", data=[texts, texts[::-1]], dtype=h5py.string_dtype())
        file.create_dataset("text_fixed", data=np.array([text.encode() for text in texts], "S8"))
        file.create_dataset("text_fixed_utf8", data=[text.encode() for text in texts], dtype=h5py.string_dtype(length=9))
        file.create_dataset("text_fixed_deflated", data=np.array([b"ab", b"c"] * 20, "S3"), chunks=(7,), compression="gzip")
        file.create_dataset("text_scalar", data="one text")
        file.create_dataset("text_missing", (3,), h5py.string_dtype())
        file.create_dataset("characters", data=np.array([[b"a", b"b"], [b"c", b"d"]], "S1"))
        for padding, name in ((h5t.STR_SPACEPAD, b"text_space"), (h5t.STR_NULLTERM, b"text_null_terminated")):
            kind = h5t.C_S1.copy()
            kind.set_size(6)
            kind.set_strpad(padding)
            dataset = h5d.create(file.id, name, kind, h5s.create_simple((2,)))
            dataset.write(h5s.ALL, h5s.ALL, np.array([b"ab", b"abcde"], "S6"))
        file.create_dataset("unsupported_compound", data=np.zeros(3, [("a", "i4"), ("b", "f8")]))
        file.create_dataset("unsupported_opaque", data=np.array([1, 2], "M8[s]").astype(h5py.opaque_dtype("M8[s]")))
        file.create_dataset("unsupported_reference", data=[file["bool"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("unsupported_sequence", (2,), h5py.vlen_dtype("i4"))
        file.create_dataset("unsupported_array", (2,), np.dtype(("<i4", (3,))))
        file.create_dataset("unsupported_complex", data=np.array([1 + 2j]))
        file.create_dataset("unsupported_long_double", data=np.array([1.5], np.longdouble))
        file.create_dataset("unsupported_null", data=h5py.Empty("f4"))
        file["named_type"] = np.dtype("<f4")
        file.create_dataset("of_named_type", data=values((3,), "<f4"), dtype=file["named_type"])


def groups(path, libver, userblock=0):
    """Groups in both forms, many members, many attributes, links, attributes of all types."""
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        file.attrs["title"] = "Groups"
        file.attrs["numbers"] = np.array([1.5, -2.0])
        deep = file.create_group("deep/deeper")
        deep["x"] = values((4,), "<i4")
        many = file.create_group("many")
        for number in range(30):
            many[f"member_{number:02}"] = np.arange(number % 4 + 1, dtype="<i2")
        attributes = file.create_dataset("attributes", data=[1, 2], dtype="<i4").attrs
        attributes["text"] = "plain"
        attributes["text_fixed"] = np.bytes_("fixed")
        attributes["texts"] = ["a", "b c"]
        attributes["int8"] = np.int8(-3)
        attributes["uint64"] = np.uint64(2**64 - 1)
        attributes["float32"] = np.float32(0.1)
        attributes["float64"] = 1e300
        attributes["big_endian"] = np.array([1, 258], ">i2")
        attributes["list"] = np.arange(4)
        attributes["empty"] = h5py.Empty("f4")
        attributes["boolean"] = True
        attributes["reference"] = file["deep"].ref
        for number in range(20):
            attributes[f"more_{number}"] = number
        file["soft"] = h5py.SoftLink("/deep/deeper/x")
        file["external"] = h5py.ExternalLink("other.h5", "/x")
        file["hard"] = file["deep"]


def links(path, libver):
    """Soft links that lead somewhere, nowhere and in circles, external links, attributes of groups."""
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["title"] = "Links"
        group = file.create_group("group")
        group.attrs["title"] = "The group"
        group["data"] = values((4, 3), "<i4")
        group["inner/x"] = values((5,), "<f8")
        group["inner"].attrs["version"] = 2
        file.create_group("without_arrays").attrs["note"] = "nothing here"
        file["to_dataset"] = h5py.SoftLink("/group/data")
        file["a_link"] = h5py.SoftLink("to_dataset")
        file["to_link"] = h5py.SoftLink("./to_dataset")
        file["to_group"] = h5py.SoftLink("group")
        file["through"] = h5py.SoftLink("/to_group/inner/x")
        group["near"] = h5py.SoftLink("data")
        group["far"] = h5py.SoftLink("/group//inner/x")
        file["bad_dangling"] = h5py.SoftLink("/group/nothing")
        file["bad_dataset"] = h5py.SoftLink("/group/data/x")
        file["bad_circle"] = h5py.SoftLink("/bad_circle")
        file["bad_one"] = h5py.SoftLink("/bad_other")
        file["bad_other"] = h5py.SoftLink("/bad_one")
        group["bad_root"] = h5py.SoftLink("/")
        group["inner/bad_above"] = h5py.SoftLink("/group")
        file["bad_external"] = h5py.ExternalLink("other.h5", "/there")


def linked_coordinates(path):
    """Arrays whose coordinates are in other groups, with soft links to both, and many external links."""
    with h5py.File(path, "w") as file:
        run, grid, data = (file.create_group(name) for name in ("run", "grid", "data"))

        def scale(group, name, coordinates):
            group[name] = np.array(coordinates, "<i4")
            group[name].make_scale(name)
            return group[name]

        def array(group, name, cells, *scales, **attributes):
            group[name] = cells
            for number, along in enumerate(scales):
                group[name].dims[number].attach_scale(along)
            group[name].attrs.update(attributes)

        x = scale(run, "x", [10, 20, 30, 40])
        lat, k = scale(grid, "lat", [50, 51, 52, 53]), scale(grid, "k", [0, 1, 2])
        numbers = np.arange(12, dtype="<f8").reshape(4, 3)
        array(run, "t", values((4,), "<f4"), x)
        array(grid, "height", numbers + 100, lat, k)
        array(grid, "area", numbers * 7, lat, k)
        array(data, "v", values((4,), "<f4"), lat, coordinates="lat")
        array(data, "w", numbers, lat, k, coordinates="lat /grid/height area")
        file["latest"] = h5py.SoftLink("/run/t")
        file["other/lat"] = h5py.SoftLink("/grid/lat")
        file["other/area"] = h5py.SoftLink("/grid/area")
        for number in range(20):
            file[f"far_{number:02}"] = h5py.ExternalLink("other.h5", "/x")


def blosc_snappy(path):
    """Chunks of Blosc with the compressor Snappy."""
    with h5py.File(path, "w") as file:
        for dtype in ("u1", "<i2", "<f8"):
            for shuffle in range(3):
                data = values((90, 20), dtype)
                name = f"{np.dtype(dtype).name}_{shuffle}"
                file.create_dataset(name, data=data, chunks=(40, 20), **hdf5plugin.Blosc(cname="snappy", shuffle=shuffle))


def scales(path):
    """Dimension scales of h5py, labels, and datasets without either."""
    with h5py.File(path, "w") as file:
        file["lat"] = np.array([10.0, 20.0, 30.0])
        file["lon"] = np.array([1.0, 2.0, 3.0, 4.0])
        file["lat"].make_scale("latitude")
        file["lon"].make_scale("lon")
        file["t"] = values((3, 4), "<f4")
        file["t"].dims[0].attach_scale(file["lat"])
        file["t"].dims[1].attach_scale(file["lon"])
        file["labelled"] = values((2, 3), "<f4")
        file["labelled"].dims[0].label = "a"
        file["labelled"].dims[1].label = "b"


def phony(path):
    """Datasets without dimensions, in groups."""
    with h5py.File(path, "w") as file:
        file["b"] = values((3, 3), "<i4")
        file["a"] = values((4, 3), "<i4")
        file.create_dataset("c", data=values((4, 3), "<i4"), maxshape=(None, 3), chunks=(2, 3))
        file["g/d"] = values((3, 5), "<i4")
        file["g/h/e"] = values((5,), "<i4")


def netcdf(path):
    """A file of the NetCDF library with its conventions."""
    with netCDF4.Dataset(path, "w") as file:
        file.title = "NetCDF-4 conventions"
        file.createDimension("time", None)
        file.createDimension("lat", 3)
        file.createDimension("lon", 4)
        file.createDimension("nv", 2)
        file.createDimension("station", 2)
        file.createDimension("strlen", 5)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2000-01-01"
        time.calendar = "standard"
        time.bounds = "time_bnds"
        time[:] = np.arange(5) * 6
        bounds = file.createVariable("time_bnds", "f8", ("time", "nv"))
        bounds[:] = np.stack([np.arange(5) * 6 - 3, np.arange(5) * 6 + 3], 1)
        file.createVariable("lat", "f4", ("lat",))[:] = [10, 20, 30]
        file.createVariable("lon", "f4", ("lon",))[:] = [1, 2, 3, 4]
        packed = file.createVariable("packed", "i2", ("time", "lat", "lon"), zlib=True, fill_value=-32767, chunksizes=(2, 2, 3))
        packed.scale_factor = 0.5
        packed.add_offset = 10.0
        packed.missing_value = np.array([-32766, -32765], "i2")
        packed.set_auto_maskandscale(False)
        data = values((5, 3, 4), "<i2")
        data[0, 0, :3] = [-32767, -32766, -32765]
        packed[:] = data
        file.createVariable("wind", "f4", ("time", "lat", "lon"), zlib=True, shuffle=True)[:] = values((5, 3, 4), "<f4")
        file.createVariable("big", "f4", ("lat", "lon"), endian="big")[:] = values((3, 4), ">f4")
        unsigned = file.createVariable("unsigned", "i1", ("lat", "lon"), fill_value=-1)
        unsigned.setncattr("_Unsigned", "true")
        unsigned.set_auto_maskandscale(False)
        unsigned[:] = np.arange(12).reshape(3, 4) * 20 - 112
        short = file.createVariable("short", "i4", ("time", "lat"), fill_value=-5)
        short.set_auto_maskandscale(False)
        short[:2] = values((2, 3), "<i4")
        valid = file.createVariable("valid", "i4", ("lat",))
        valid.valid_range = np.array([0, 100], "i4")
        valid.set_auto_maskandscale(False)
        valid[:] = [-1, 50, 101]
        name = file.createVariable("station", "S1", ("station", "strlen"))
        name[:] = np.array([list(b"Oslo\0"), list(b"Paris")], "u1").view("S1")
        region = file.createVariable("region", str, ("lat",))
        region[:] = np.array(["south", "middle", "north"], object)
        flags = file.createEnumType("u1", "sky_type", {"clear": 0, "cloudy": 1})
        file.createVariable("sky", flags, ("lat",))[:] = [0, 1, 0]
        group = file.createGroup("ocean")
        group.createDimension("depth", 2)
        group.createVariable("depth", "f4", ("depth",))[:] = [5, 50]
        group.createVariable("salt", "f4", ("depth", "lat"))[:] = values((2, 3), "<f4")
        # A coordinate variable of two dimensions, and a variable with the name of another dimension.
        file.createVariable("nv", "i4", ("lat",))[:] = [7, 8, 9]
        file.createDimension("x", 2)
        file.createVariable("x", "f8", ("x", "lat"))[:] = values((2, 3), "<f8")


def curvilinear(path):
    """Writes arrays with auxiliary coordinates along two dimensions, one dimension and none, and what xarray reads."""
    with netCDF4.Dataset(path, "w") as file:
        for name, length in [("time", 4), ("y", 6), ("x", 5)]:
            file.createDimension(name, length)
        file.createVariable("time", "i4", ("time",))[:] = range(4)
        file.createVariable("x", "i4", ("x",))[:] = range(5)
        y, x = np.mgrid[0:6, 0:5]
        lat = file.createVariable("lat", "f8", ("y", "x"), fill_value=-1.0)
        lat[:] = 40 + y + x / 10
        lat[5, 4] = -1
        # The dimensions are in another order than those of the arrays.
        file.createVariable("lon", "f4", ("x", "y"))[:] = (10 + x - y / 4).T
        file.createVariable("basin", "i2", ("x",))[:] = [1, 1, 2, 2, 2]
        file.createVariable("height", "f4", ())[:] = 2
        for name in ("t2m", "d2m"):
            variable = file.createVariable(name, "f4", ("time", "y", "x"), zlib=True, chunksizes=(2, 3, 5))
            variable.coordinates = "lon lat basin height absent"
            variable[:] = values((4, 6, 5), "<f4")
        file.createVariable("plain", "f4", ("time", "y", "x"))[:] = values((4, 6, 5), "<f4")
    with xarray.open_dataset(path) as dataset:
        frame = dataset[["t2m"]].to_dataframe(dim_order=["time", "y", "x"]).reset_index()
    columns = ["time", "y", "x", "t2m", "lon", "lat", "basin"]
    rows = frame[columns].astype(object).where(frame[columns].notna(), None).values.tolist()
    path.with_suffix(".json").write_text(json.dumps({"columns": columns, "rows": rows}) + "\n")


def main():
    layouts(HERE / "layouts_earliest.h5", "earliest")
    layouts(HERE / "layouts_latest.h5", "latest")
    filters(HERE / "filters.h5")
    types(HERE / "types.h5")
    groups(HERE / "groups_earliest.h5", "earliest")
    groups(HERE / "groups_latest.h5", "latest", userblock=1024)
    links(HERE / "links_earliest.h5", "earliest")
    links(HERE / "links_latest.h5", "latest")
    linked_coordinates(HERE / "linked_coordinates.h5")
    blosc_snappy(HERE / "blosc_snappy.h5")
    scales(HERE / "scales.h5")
    phony(HERE / "phony.h5")
    netcdf(HERE / "netcdf.nc")
    curvilinear(HERE / "curvilinear.nc")
    for path in sorted(HERE.glob("*.h5")) + sorted(HERE.glob("*.nc")):
        expect(path)
    for name in ("phony.h5", "netcdf.nc"):
        describe(HERE / name)
    decode(HERE / "netcdf.nc")


if __name__ == "__main__":
    main()
