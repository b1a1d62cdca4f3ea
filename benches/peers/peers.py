#!/usr/bin/env python3
"""Measures other tools over the files that `cargo bench` wrote, and checks that their answers agree.

    python3 benches/peers/peers.py FOLDER [PATH OF tet-sql]

FOLDER is the directory of the benchmark's files (TET_SQL_BENCH_DATA). Only installed tools are measured. NumPy and xarray
read the raw file through a memory map. Its chunks of 10 x 512 x 512 form one contiguous array. xarray-sql queries the same
array, and DuckDB queries the Parquet file. `tetration`, the command of the format's authors, has reductions but no SQL;
REFERENCE_TET names its executable. `tetration` and `tet-sql` are measured as whole processes. NumPy and xarray use one
thread. Each figure is the min of five runs after a warm-up run, or of as many runs as fit into a minute.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

RUNS = 5
PATIENCE = 60
SHAPE = (1000, 512, 512)
QUERIES = {
    "avg": "SELECT avg(value) FROM {t}",
    "avg by time": "SELECT time, avg(value) FROM {t} GROUP BY time ORDER BY time",
    "avg by lat, lon": "SELECT lat, lon, avg(value) FROM {t} GROUP BY lat, lon ORDER BY lat, lon",
    "avg where value > 300": "SELECT avg(value) FROM {t} WHERE value > 300",
}


def best(work):
    """Returns the answer and the shortest time. The first run counts only if no time is left for another."""
    times = []
    begin = time.perf_counter()
    while len(times) <= RUNS and (not times or time.perf_counter() - begin < PATIENCE):
        start = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - start)
    return answer, min(times[1:] or times)


def cells(path, tet_sql):
    """Returns a memory map of the cells. Searches the file for the first cells to find their offset."""
    query = "SELECT value FROM f.temperature WHERE time = 0 AND lat = 0 AND lon < 8 ORDER BY lon"
    command = [tet_sql, "--format", "csv", "-c", query, f"f={path}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    first = np.array(lines[1:], dtype="<f4").tobytes()
    with open(path, "rb") as file:
        offset = file.read(1 << 20).find(first)
    if offset < 0:
        sys.exit(f"{path}: the cells are not where they are expected")
    return np.memmap(path, dtype="<f4", mode="r", offset=offset, shape=SHAPE)


def is_installed(module):
    return importlib.util.find_spec(module) is not None


def numpy_peer(array):
    def where():
        kept = array[array > 300]
        return kept.mean(dtype="f8") if kept.size else np.nan

    yield "avg", lambda: array.mean(dtype="f8")
    yield "avg by time", lambda: array.mean(axis=(1, 2), dtype="f8")
    yield "avg by lat, lon", lambda: array.mean(axis=0, dtype="f8")
    yield "avg where value > 300", where


def xarray_peer(array):
    import xarray

    data = xarray.DataArray(array, dims=("time", "lat", "lon"))
    yield "avg", lambda: data.mean(dtype="f8").values
    yield "avg by time", lambda: data.mean(("lat", "lon"), dtype="f8").values
    yield "avg by lat, lon", lambda: data.mean("time", dtype="f8").values
    yield "avg where value > 300", lambda: data.where(data > 300).mean(dtype="f8").values


def xarray_sql_peer(array):
    import xarray
    import xarray_sql

    coordinates = {name: np.arange(extent) for name, extent in zip(("time", "lat", "lon"), SHAPE)}
    data = xarray.Dataset({"value": (("time", "lat", "lon"), array)}, coords=coordinates)
    context = xarray_sql.XarrayContext()
    context.from_dataset("t", data, chunks={"time": 10})
    for name, sql in QUERIES.items():
        yield name, lambda sql=sql: context.sql(sql.format(t="t")).to_pandas().iloc[:, -1].to_numpy()


def duckdb_peer(parquet):
    import duckdb

    for name, sql in QUERIES.items():
        sql = sql.format(t=f"'{parquet}'")
        yield name, lambda sql=sql: duckdb.sql(sql).fetchnumpy()["avg(\"value\")"]


def tet_sql_peer(tet_sql, path):
    def ask(sql):
        command = [tet_sql, "--format", "csv", "-c", sql, f"f={path}"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return np.array([line.rsplit(",", 1)[-1] for line in lines[1:]], dtype="f8")

    for name, sql in QUERIES.items():
        sql = sql.format(t="f.temperature")
        # Timed queries return one row, so that printing costs nothing. All rows are printed once, to be compared.
        inner = sql.split(" ORDER BY")[0].replace("avg(value)", "avg(value) AS v")
        yield name, lambda inner=inner: ask(f"SELECT avg(v) FROM ({inner})"), lambda sql=sql: ask(sql)


def reference_peer(tet, path):
    for name, reduced in {"avg": [], "avg by time": ["lat", "lon"], "avg by lat, lon": ["time"]}.items():
        query = json.dumps({"dataset": "temperature", "mean": reduced})
        command = [tet, "query", query, "-t", str(path), "-x", "--format", "json", "--preview", "0"]

        def run(command=command):
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(output)["execution"]
            return found["operation_mean"] if "operation_mean" in found else found["operation_reduced_mean"]

        yield name, run


def main():
    folder = pathlib.Path(sys.argv[1])
    tet_sql = sys.argv[2] if len(sys.argv) > 2 else shutil.which("tet-sql")
    if tet_sql is None:
        sys.exit("name the path of tet-sql")
    path = folder / "layout-1-1000x512x512-10x512x512-f32-raw.tet"
    parquet = folder / "temperature-1-1000x512x512.parquet"
    array = cells(path, tet_sql)
    peers = {"NumPy " + np.__version__: numpy_peer(array)}
    if is_installed("xarray"):
        peers["xarray"] = xarray_peer(array)
    if is_installed("xarray_sql"):
        peers["xarray-sql"] = xarray_sql_peer(array)
    if is_installed("duckdb"):
        peers["DuckDB (Parquet)"] = duckdb_peer(parquet)
    if "REFERENCE_TET" in os.environ:
        peers["tetration, whole process"] = reference_peer(os.environ["REFERENCE_TET"], path)
    peers["tet-sql, whole process"] = tet_sql_peer(tet_sql, path)
    answers = {}
    print("| query | tool | ms |\n| --- | --- | --: |")
    for tool, queries in peers.items():
        for name, work, *whole in queries:
            try:
                answer, seconds = best(work)
                answer = np.asarray(answer, dtype="f8").ravel()
                all_rows = np.asarray(whole[0](), dtype="f8").ravel() if whole else answer
            except Exception as error:  # Other tools are still measured.
                print(f"| {name} | {tool} | failed: {error} |")
                continue
            print(f"| {name} | {tool} | {seconds * 1e3:.0f} |", flush=True)
            expected = answers.setdefault(name, all_rows)
            # The timed queries of the two commands return only the mean of the rows.
            for found, wanted in [(np.nanmean(answer), np.nanmean(expected)), (all_rows, expected)]:
                if np.size(found) == 1 < np.size(wanted) and tool.startswith("tetration"):
                    continue
                if np.shape(found) != np.shape(wanted) or not np.allclose(found, wanted, rtol=1e-6, atol=0):
                    sys.exit(f"{name}: {tool} finds {found}, not {wanted}")


if __name__ == "__main__":
    main()
