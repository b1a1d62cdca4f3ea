#!/usr/bin/env python3
"""Measures tet-sql and xarray over the same NetCDF files, and checks that their answers agree.

    python3 benches/peers/netcdf.py DIRECTORY [PATH OF tet-sql]

DIRECTORY receives the files, about 1.4 GB: 400 x 512 x 512 cells of float32, as NetCDF-4 with shuffle and deflate (level 4) in
chunks of 10 x 256 x 256, as NetCDF-4 without chunks, as classic NetCDF (CDF-5), and as raw `.tet`.

tet-sql is measured as a whole process. xarray opens the file anew in each run, in this process, with each of its engines
that is installed. `inflate` decompresses all chunks with zlib-ng in two threads, and does nothing with the result. Each figure
is the min of five runs after a warm-up run. The last lines are the peak memory of tet-sql with positioned reads, and the
chunks that a slice reads.
"""

import concurrent.futures
import mmap
import pathlib
import re
import subprocess
import sys
import time

import h5py
import netCDF4
import numpy as np
import xarray
from peers import best, is_installed

SHAPE = (400, 512, 512)
CHUNKS = (10, 256, 256)
DIMENSIONS = ("time", "lat", "lon")
QUERIES = {
    "mean": ("SELECT avg(value) FROM {t}", lambda t: t.mean(dtype="f8")),
    "mean by lat": (
        "SELECT lat, avg(value) FROM {t} GROUP BY lat ORDER BY lat",
        lambda t: t.mean(("time", "lon"), dtype="f8"),
    ),
    "mean by lat, lon": (
        "SELECT lat, lon, avg(value) FROM {t} GROUP BY lat, lon ORDER BY lat, lon",
        lambda t: t.mean("time", dtype="f8"),
    ),
    "slice of one chunk": (
        "SELECT sum(value) FROM {t} WHERE time = 200 AND lat BETWEEN 100 AND 199 AND lon BETWEEN 100 AND 199",
        lambda t: t.sel(time=200, lat=slice(100, 199), lon=slice(100, 199)).sum(dtype="f8"),
    ),
}


def write(path, cells, form, **storage):
    with netCDF4.Dataset(path, "w", format=form) as file:
        for name, length in zip(DIMENSIONS, SHAPE):
            file.createDimension(name, length)
            file.createVariable(name, "i4", (name,))[:] = np.arange(length)
        file.createVariable("t", "f4", DIMENSIONS, **storage)[:] = cells


def files(directory, tet_sql):
    """Writes the files that do not exist, and returns the path of each."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = {
        "deflate": directory / "deflate.nc",
        "contiguous": directory / "contiguous.nc",
        "classic": directory / "classic.nc",
        "raw .tet": directory / "raw.tet",
    }
    if not paths["raw .tet"].exists():
        random = np.random.default_rng(7)
        time, lat, lon = np.ogrid[0:400, -1:1:512j, 0:6.28:512j]
        noise = random.normal(0, 0.1, SHAPE)
        cells = (280 + 15 * np.cos(2 * lat) * np.sin(lon + time / 50) + noise).astype("f4").round(2)
        compression = {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": CHUNKS}
        write(paths["deflate"], cells, "NETCDF4", **compression)
        write(paths["contiguous"], cells, "NETCDF4", contiguous=True)
        write(paths["classic"], cells, "NETCDF3_64BIT_DATA")
        subprocess.run([tet_sql, "tet", "convert", paths["contiguous"], paths["raw .tet"], "--codec", "raw"], check=True)
    return paths


def inflate(path):
    """Decompresses all chunks with two threads."""
    from zlib_ng import zlib_ng

    with h5py.File(path) as file:
        chunks = file["t"].id
        ranges = [chunks.get_chunk_info(number) for number in range(chunks.get_num_chunks())]
    size = int(np.prod(CHUNKS)) * 4

    def run():
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
            view = memoryview(bytes_)

            def one(chunk):
                part = view[chunk.byte_offset : chunk.byte_offset + chunk.size]
                return len(zlib_ng.decompress(part, bufsize=size))

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                total = sum(pool.map(one, ranges))
            view.release()
            assert total == np.prod(SHAPE) * 4

    return best(run)[1]


def numbers(text):
    """Returns the last column of a CSV file."""
    return [float(line.rsplit(",", 1)[-1]) for line in text.splitlines()[1:]]


def peak_memory(command):
    """Returns the peak memory of a process in MiB, sampled while it runs."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"VmHWM:\s*(\d+) kB", status)
            peak = max(peak, int(found[1]) if found else 0)
            time.sleep(0.001)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak / 1024


def main():
    directory = pathlib.Path(sys.argv[1])
    tet_sql = sys.argv[2] if len(sys.argv) > 2 else "tet-sql"
    paths = files(directory, tet_sql)
    engines = [name for name, module in [("netcdf4", "netCDF4"), ("h5netcdf", "h5netcdf")] if is_installed(module)]
    versions = f"xarray {xarray.__version__}, netCDF4 {netCDF4.__version__}, h5py {h5py.__version__}"
    print(f"{versions}\n\n| query | file | tet-sql, ms |", "".join(f" xarray, {engine}, ms |" for engine in engines))
    print("| --- | --- |", " --: |" * (1 + len(engines)))
    for query, (sql, reduce) in QUERIES.items():
        for name, path in paths.items():
            command = [tet_sql, "--format", "csv", "-c", sql.format(t=f"'{path}#t'")]
            done, seconds = best(lambda: subprocess.run(command, check=True, capture_output=True, text=True))
            figures = [seconds]
            for engine in engines if path.suffix == ".nc" else []:
                if name == "classic" and engine == "h5netcdf":
                    figures.append(None)
                    continue

                def read():
                    with xarray.open_dataset(path, engine=engine) as dataset:
                        return reduce(dataset["t"]).values

                answer, seconds = best(read)
                np.testing.assert_allclose(numbers(done.stdout), np.ravel(answer), rtol=1e-6)
                figures.append(seconds)
            print(f"| {query} | {name} |", " | ".join(f"{figure * 1e3:.1f}" if figure else "" for figure in figures), "|", flush=True)
    if is_installed("zlib_ng"):
        print(f"\ninflate, two threads: {inflate(paths['deflate']) * 1e3:.0f} ms")
    for name, path in paths.items():
        peak = peak_memory([tet_sql, "--access", "pread", "-c", f"SELECT lat, avg(value) FROM '{path}#t' GROUP BY lat"])
        print(f"peak memory, mean by lat, {name}: {peak:.0f} MiB")
    slice_ = QUERIES["slice of one chunk"][0].format(t=f"'{paths['deflate']}#t'")
    plan = subprocess.run([tet_sql, "-c", f"EXPLAIN ANALYZE {slice_}"], check=True, capture_output=True, text=True).stdout
    print("slice:", ", ".join(re.findall(r"chunks\w*=[^,\]]+", plan)))


if __name__ == "__main__":
    main()
