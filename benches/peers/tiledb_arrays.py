#!/usr/bin/env python3
"""Measures tet-sql and TileDB-Py over the same TileDB arrays.

    python3 benches/peers/tiledb_arrays.py FOLDER [PATH OF tet-sql]

FOLDER receives the arrays, about 400 MB: 400 x 512 x 512 cells of float32 in tiles of 10 x 256 x 256, ten million points with
duplicates, and a dense and a sparse array of 1,000 fragments each. All are compressed with zstd.

tet-sql is measured as a whole process, and as a statement of a running session after the first, to the millisecond.
TileDB-Py opens the array and reads NumPy arrays in this process, with two threads. Each figure is the min of five runs after
a warm-up run.
"""

import pathlib
import re
import subprocess
import sys

import numpy as np
import tiledb
from peers import best

CONFIG = {"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "2"}
ZSTD = [tiledb.ZstdFilter(3)]
# Statements in a session: the first opens the array.
STATEMENTS = 6


def dimension(name, count, tile):
    return tiledb.Dim(name, domain=(0, count - 1), tile=tile, dtype="int64")


def create(path, dimensions, dtype, **options):
    """Creates an array. Returns `False` if it exists."""
    if path.exists():
        return False
    schema = tiledb.ArraySchema(
        domain=tiledb.Domain(*dimensions), attrs=[tiledb.Attr("value", dtype=dtype, filters=ZSTD)], **options
    )
    tiledb.Array.create(str(path), schema)
    return True


def write(folder):
    """Writes the arrays that do not exist, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    dense, sparse, fragments, points = (folder / name for name in ("dense", "sparse", "fragments", "points"))
    if create(dense, [dimension("time", 400, 10), dimension("lat", 512, 256), dimension("lon", 512, 256)], "float32"):
        time, lat, lon = np.ogrid[0:400, -1:1:512j, 0:6.28:512j]
        cells = 280 + 15 * np.cos(2 * lat) * np.sin(lon + time / 50) + random.normal(0, 0.1, (400, 512, 512))
        with tiledb.open(str(dense), "w") as array:
            array[:] = cells.astype("float32")
    side, count = 1_000_000, 10_000_000
    options = {"sparse": True, "allows_duplicates": True, "capacity": 10_000}
    if create(sparse, [dimension("x", side, 10_000), dimension("y", side, 10_000)], "float64", **options):
        x, y = random.integers(0, side, (2, count))
        with tiledb.open(str(sparse), "w") as array:
            array[x, y] = random.normal(size=count).round(3)
    if create(fragments, [dimension("t", 10_000, 10), dimension("x", 100, 100)], "float32"):
        for number in range(1000):
            with tiledb.open(str(fragments), "w") as array:
                array[number * 10 : number * 10 + 10] = np.full((10, 100), number, "float32")
    if create(points, [dimension("t", 100_000, 100)], "float32", sparse=True):
        for number in range(1000):
            with tiledb.open(str(points), "w") as array:
                array[np.arange(number * 100, number * 100 + 100)] = np.full(100, number, "float32")
    return dense, sparse, fragments, points


def main():
    folder = pathlib.Path(sys.argv[1])
    command = sys.argv[2] if len(sys.argv) > 2 else "tet-sql"
    dense, sparse, fragments, points = write(folder)

    def read(path, part, **options):
        with tiledb.open(str(path), ctx=tiledb.Ctx(CONFIG)) as array:
            return array.query(**options)[part]["value"] if options else array[part]["value"]

    values = {"attrs": ["value"], "dims": []}
    box = np.s_[0:100_000, 0:100_000]
    measured = [
        ("mean of 105 million cells", dense, "SELECT avg(value) FROM {t}", lambda: read(dense, np.s_[:]).mean(dtype="f8")),
        (
            "mean by lat",
            dense,
            "SELECT lat, avg(value) FROM {t} GROUP BY lat",
            lambda: read(dense, np.s_[:]).mean(axis=(0, 2), dtype="f8"),
        ),
        (
            "slice of 1 x 100 x 100",
            dense,
            "SELECT sum(value) FROM {t} WHERE time = 200 AND lat BETWEEN 100 AND 199 AND lon BETWEEN 100 AND 199",
            lambda: read(dense, np.s_[200, 100:200, 100:200]).sum(),
        ),
        (
            "sum of a box with 1 % of 10 million points",
            sparse,
            "SELECT sum(value) FROM {t} WHERE x < 100000 AND y < 100000",
            lambda: read(sparse, box, **values).sum(),
        ),
        ("sum of 10 million points", sparse, "SELECT sum(value) FROM {t}", lambda: read(sparse, np.s_[:], **values).sum()),
        ("min, max and count of cells", dense, "SELECT min(value), max(value), count(value) FROM {t}", None),
        ("min, max and count of points", sparse, "SELECT min(value), max(value), count(value) FROM {t}", None),
        (
            "one cell of 1,000 fragments",
            fragments,
            "SELECT value FROM {t} WHERE t = 7777 AND x = 3",
            lambda: read(fragments, np.s_[7777, 3]),
        ),
        ("count of the points of 1,000 fragments", points, "SELECT count(*) FROM {t}", lambda: read(points, np.s_[:]).size),
        ("sum of the points of 1,000 fragments", points, "SELECT sum(value) FROM {t}", lambda: read(points, np.s_[:]).sum()),
    ]
    print(f"TileDB-Py {tiledb.__version__}\n\n| query | process, ms | session, ms | TileDB-Py, ms |\n| --- | --: | --: | --: |")
    for name, path, sql, peer in measured:
        sql = sql.format(t=f"'{path}'")
        process = best(lambda: subprocess.run([command, "-c", sql], stdout=subprocess.DEVNULL, check=True))[1]
        script = ".timer on\n" + f"{sql};\n" * STATEMENTS
        session = subprocess.run([command], input=script, capture_output=True, text=True, check=True)
        seconds = re.findall(r"in ([0-9.]+) s", session.stdout + session.stderr)
        if len(seconds) != STATEMENTS:
            sys.exit(f"{command} timed {len(seconds)} statements, expected {STATEMENTS}:\n{session.stderr}")
        session = min(float(second) for second in seconds[1:])
        peer = f"{best(peer)[1] * 1e3:.1f}" if peer else ""
        print(f"| {name} | {process * 1e3:.0f} | {session * 1e3:.0f} | {peer} |", flush=True)


if __name__ == "__main__":
    main()
