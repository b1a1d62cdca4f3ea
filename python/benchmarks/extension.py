#!/usr/bin/env python3
"""Measures queries in a session of the package `datafusion` that has the extension, beside the same queries in tet_sql.

    python3 python/benchmarks/extension.py FILE [--runs N]

FILE is a Zarr group called `temperature.zarr` with an array `value(time, lat, lon)`, such as `full/temperature.zarr` in the
directory of `workflows.py`. The tools take turns. Each figure is the median of N runs after a warm-up run, in ms, from the
text of the query to the collected answer. The answers are compared.

Build the package with optimisations first: `maturin develop --release -m python/Cargo.toml`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import datafusion
import numpy as np

import tet_sql

QUERIES = [
    "SELECT avg(value) AS a FROM {cells}",
    "SELECT count(*) AS a FROM {cells} WHERE value > 20",
    "SELECT avg(value) AS a FROM {cells} WHERE time < TIMESTAMP '2020-01-02' AND lat < 0",
    "SELECT lat, avg(value) AS a FROM {cells} GROUP BY lat ORDER BY lat",
    "SELECT lat, lon, max(value) AS a FROM {cells} GROUP BY lat, lon ORDER BY lat, lon",
    "SELECT band, avg(value) AS a FROM {cells} JOIN bands USING (lat) GROUP BY band ORDER BY band",
]


def timed(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    answer = run()
    return (time.perf_counter() - start) * 1e3, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    session = tet_sql.connect(options.file)
    context = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(session))
    context.register_table("cells", session.table("temperature.value"))
    latitudes = session.sql("SELECT DISTINCT lat FROM temperature.value ORDER BY lat").numpy()["lat"]
    bands = {"lat": latitudes.tolist(), "band": [number // 64 for number in range(len(latitudes))]}
    context.from_pydict(bands, name="bands")
    session.register("bands", context.table("bands"))
    print("| query | tet_sql, ms | datafusion, ms | ratio |\n| --- | --: | --: | --: |")
    for query in QUERIES:
        tools = [
            lambda query=query: session.sql(query.format(cells="temperature.value")).numpy()["a"],
            lambda query=query: context.sql(query.format(cells="cells")).to_arrow_table()["a"].to_numpy(),
        ]
        times: list[list[float]] = [[], []]
        for run in range(options.runs + 1):
            results = [timed(tool) for tool in tools]
            np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-9)
            if run > 0:
                for measured, (elapsed, _) in zip(times, results, strict=True):
                    measured.append(elapsed)
        ours, theirs = map(statistics.median, times)
        print(f"| `{query.format(cells='cells')}` | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main()
