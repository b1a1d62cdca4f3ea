#!/usr/bin/env python3
"""Measures workflows over gridded data in Python: tet_sql beside xarray, xarray-sql and DuckDB.

    python3 python/benchmarks/workflows.py [FOLDER] [--quick] [--runs N]

FOLDER receives a Zarr directory and a Parquet file with the same cells, which are written once. Only installed packages
are measured. Imports and the opening of files are not part of the figures; each figure is the min of N runs after a
warm-up run. The answers are compared with those of xarray.

Build the package with optimisations first: `maturin develop --release -m python/Cargo.toml`.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import tet_sql

#: The workflows: the SQL, the dimensions of its result, and the same in xarray.
WORKFLOWS: dict[str, tuple[str, list[str], Callable[[xr.DataArray], xr.DataArray]]] = {
    "mean": ("SELECT avg(t2m) AS v FROM {t}", [], lambda t: t.mean()),
    "zonal mean": ("SELECT lat, avg(t2m) AS v FROM {t} GROUP BY lat", ["lat"], lambda t: t.mean(("time", "lon"))),
    "mean by lat and lon": (
        "SELECT lat, lon, avg(t2m) AS v FROM {t} GROUP BY lat, lon",
        ["lat", "lon"],
        lambda t: t.mean("time"),
    ),
    "climatology by hour": (
        "SELECT date_part('hour', time) AS hour, lat, lon, avg(t2m) AS v FROM {t} GROUP BY 1, 2, 3",
        ["hour", "lat", "lon"],
        lambda t: t.groupby("time.hour").mean(),
    ),
    "daily max": (
        "SELECT date_trunc('day', time) AS time, lat, lon, max(t2m) AS v FROM {t} GROUP BY 1, 2, 3",
        ["time", "lat", "lon"],
        lambda t: t.resample(time="1D").max(),
    ),
    "box over time": (
        "SELECT time, avg(t2m) AS v FROM {t} WHERE lat BETWEEN 20 AND 40 AND lon BETWEEN 0 AND 40 GROUP BY time",
        ["time"],
        lambda t: t.sel(lat=slice(20, 40), lon=slice(0, 40)).mean(("lat", "lon")),
    ),
}


def write(folder: Path, quick: bool) -> xr.Dataset:
    """Writes the data unless they exist, and returns them."""
    shape = (48, 19, 36) if quick else (720, 181, 360)
    lat, lon = np.linspace(-90, 90, shape[1]), np.arange(shape[2]) * (360 / shape[2])
    values = np.random.default_rng(0).normal(280, 15, shape).astype("f4")
    coords = {"time": pd.date_range("2024-01-01", periods=shape[0], freq="h"), "lat": lat, "lon": lon}
    dataset = xr.Dataset({"t2m": (("time", "lat", "lon"), values, {"units": "K"})}, coords)
    if not (folder / "t.zarr").exists():
        dataset.chunk(time=24).to_zarr(folder / "t.zarr", zarr_format=2)
        tet_sql.connect(folder / "t.zarr").sql("SELECT time, lat, lon, value AS t2m FROM t2m").write(folder / "t.parquet")
    return dataset


def installed(name: str) -> object | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def tools(folder: Path, memory: xr.Dataset) -> dict[str, Callable[[str], object]]:
    """Returns the tools, each with a function that runs a workflow."""
    files, objects = tet_sql.connect(folder / "t.zarr"), tet_sql.connect()
    files.sql("CREATE VIEW cells AS SELECT time, lat, lon, value AS t2m FROM t2m")
    objects.register("t", memory)

    def ours(session: tet_sql.Session, table: str) -> Callable[[str], object]:
        def run(name: str) -> object:
            query, dims, _ = WORKFLOWS[name]
            result = session.sql(query.format(t=table))
            return result.to_xarray(dims=dims).v if dims else result.numpy()["v"]

        return run

    found: dict[str, Callable[[str], object]] = {
        "tet_sql, Zarr": ours(files, "cells"),
        "xarray, Zarr": lambda name: WORKFLOWS[name][2](xr.open_zarr(folder / "t.zarr").t2m).compute(),
        "tet_sql, memory": ours(objects, "t"),
        "xarray, memory": lambda name: WORKFLOWS[name][2](memory.t2m),
    }
    if duckdb := installed("duckdb"):
        table = f"'{folder / 't.parquet'}'"
        found["DuckDB, Parquet"] = lambda name: duckdb.sql(WORKFLOWS[name][0].format(t=table)).df()
    if xarray_sql := installed("xarray_sql"):
        context = xarray_sql.XarrayContext()
        context.from_dataset("t", memory, chunks={"time": 24})
        found["xarray-sql, memory"] = lambda name: context.sql(WORKFLOWS[name][0].format(t="t")).to_pandas()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    memory = write(folder, arguments.quick)
    measured = tools(folder, memory)
    print("| workflow, ms | " + " | ".join(measured) + " |")
    print("| --- |" + " --: |" * len(measured))
    for name, (_, dims, reference) in WORKFLOWS.items():
        # xarray adds up f32 in f32.
        expected = reference(memory.t2m.astype("f8"))
        figures = []
        for tool, run in measured.items():
            result = run(name)
            if tool.startswith("tet_sql"):
                if dims:
                    result = result.sel({dim: expected[dim].values for dim in dims}).transpose(*expected.dims)
                np.testing.assert_allclose(np.asarray(result).squeeze(), expected.values, rtol=1e-6)
            times = []
            for _ in range(arguments.runs):
                start = time.perf_counter()
                run(name)
                times.append(time.perf_counter() - start)
            figures.append(f"{min(times) * 1000:.1f}")
        print(f"| {name} | " + " | ".join(figures) + " |", flush=True)


if __name__ == "__main__":
    main()
