#!/usr/bin/env python3
"""Measures workflows over gridded data in Python: tet_sql beside xarray, xarray-sql and DuckDB.

    python3 python/benchmarks/workflows.py [FOLDER] [--quick] [--only WORD] [--runs N]

The workflows, their queries and their data are those of `benches/workflows/workflows.py`. FOLDER receives the data, which
are written once. Only installed packages are measured, each over files and over arrays in memory where it can. Imports
and the opening of files are not part of the figures, except that xarray opens the Zarr stores anew in each run, because
it would keep what it has read. Each figure is the min of N runs after a warm-up run, in ms. The answers are compared.

Build the package with optimisations first: `maturin develop --release -m python/Cargo.toml`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import tet_sql

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("command_workflows", ROOT / "benches/workflows/workflows.py")
workflows = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = workflows
spec.loader.exec_module(workflows)

#: A function that runs a workflow and returns the columns of its answer.
Tool = Callable[[str], Sequence[np.ndarray]]


def installed(name: str) -> object | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def tools(folder: Path, size: object) -> dict[str, Tool]:
    """Returns the tools. The answers of the first one are the expected ones."""
    rows = {name: pd.read_csv(folder / f"{name}.csv") for name in ("weights", "boxes")}
    t, f = (array.load() for array in workflows.xarray_stores(folder))
    usual, by_days = workflows.xarray_peer(folder, size)

    def query(name: str, tables: dict[str, str], valid: str = workflows.VALID_TIME) -> str:
        return workflows.QUERIES[name].format(valid=valid, **tables)

    def ours(session: tet_sql.Session, **tables: str) -> Tool:
        tables = {"weights": "weights", "boxes": "boxes"} | tables
        return lambda name: list(session.sql(query(name, tables)).numpy().values())

    def of_xarray(name: str, arrays: Callable[[], Sequence[object]], by_day: bool = False) -> list[np.ndarray]:
        return workflows.values((by_days if by_day else usual)[name](*arrays()))

    names = ("temperature.zarr", "forecast.zarr", "weights.csv", "boxes.csv")
    files, objects = tet_sql.connect(*(folder / name for name in names)), tet_sql.connect()
    for name, table in {"t": t, "f": f, **rows}.items():
        objects.register(name, table)
    found: dict[str, Tool] = {
        "tet_sql, Zarr": ours(files, t="temperature.value", f="forecast.value"),
        "xarray, Zarr": lambda name: of_xarray(name, lambda: tuple(workflows.xarray_stores(folder))),
        "tet_sql, memory": ours(objects, t="t", f="f"),
        "xarray, memory": lambda name: of_xarray(name, lambda: (t, f)),
        "xarray by days, memory": lambda name: of_xarray(name, lambda: (t, f), by_day=True),
    }
    if duckdb := installed("duckdb"):
        duckdb.sql("SET enable_progress_bar = false")
        tables = {"t": "temperature.parquet", "f": "forecast.parquet", "weights": "weights.csv", "boxes": "boxes.csv"}
        tables = {name: f"'{folder / file}'" for name, file in tables.items()}

        def duck(name: str) -> list[np.ndarray]:
            answer = duckdb.sql(query(name, tables, workflows.VALID_TIME_OF_DUCKDB))
            return list(answer.fetchnumpy().values())

        found["DuckDB, Parquet"] = duck
    if xarray_sql := installed("xarray_sql"):
        context = xarray_sql.XarrayContext()
        context.from_dataset("t", t.to_dataset(), chunks={"time": 24})
        context.from_dataset("f", f.to_dataset(), chunks={"init": 1})
        for name, table in rows.items():
            context.from_pandas(table, name=name)
        tables = {name: name for name in ("t", "f", "weights", "boxes")}

        def exploded(name: str) -> list[np.ndarray]:
            answer = context.sql(query(name, tables)).to_pandas()
            return [answer[column].to_numpy() for column in answer]

        found["xarray-sql, memory"] = exploded
    return found


def measured(run: Callable[[], object], runs: int) -> tuple[object, float]:
    """Returns the answer of a warm-up run, and the min of the times of other runs in ms."""
    answer, times = run(), []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return answer, min(times) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true", help="small arrays")
    parser.add_argument("--only", default="", metavar="WORD", help="only workflows with this word in their name")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    size = workflows.QUICK if arguments.quick else workflows.FULL
    folder = (arguments.folder or Path(tempfile.mkdtemp())).resolve() / ("quick" if arguments.quick else "full")

    def copy(arrays: Path, dims: str, statement: str) -> None:
        tet_sql.connect(arrays, dims=dims).sql(statement)

    workflows.write_data(folder, size, copy)
    found = tools(folder, size)
    doubles = tuple(array.load() for array in workflows.xarray_stores(folder, "f8"))
    usual, by_days = workflows.xarray_peer(folder, size)
    print("| workflow, ms | " + " | ".join(found) + " |")
    print("| --- |" + " --: |" * len(found))
    failures = []
    for name in workflows.QUERIES:
        if arguments.only not in name:
            continue
        # xarray adds up f32 in f32.
        expected = workflows.values(usual[name](*doubles))
        figures = []
        for tool, run in found.items():
            if "by days" in tool and name not in by_days:
                figures.append("")
                continue
            try:
                answer, milliseconds = measured(lambda: run(name), arguments.runs)
            except Exception as error:  # Other tools are still measured.
                failures.append(f"{name}: {tool} failed: {error}")
                figures.append("failed")
                continue
            if not tool.startswith("xarray"):
                workflows.compare(name, tool, answer, expected)
            figures.append(f"{milliseconds:.1f}")
        print(f"| {name} | " + " | ".join(figures) + " |", flush=True)
    sys.exit("\n".join(failures) or None)


if __name__ == "__main__":
    main()
