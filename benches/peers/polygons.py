#!/usr/bin/env python3
"""Measures zonal statistics of polygons in tet-sql, and checks the number of cells of each polygon with Shapely.

    python3 benches/peers/polygons.py FOLDER [PATH OF tet-sql]

FOLDER receives 24 x 721 x 1440 cells of float32 as a zstd Zarr directory in chunks of 24 x 91 x 180, and 3,000 polygons of 40
corners each as text. The mean of all cells, which reads the same chunks, is measured for comparison. tet-sql is measured as a
whole process. Each figure is the min of five runs after a warm-up run.
"""

import csv
import io
import pathlib
import subprocess
import sys

import numpy as np
from peers import best

POLYGONS = 3000
CORNERS = 40
ZONES = """
    SELECT id, count(value) AS count, avg(value) FROM (SELECT id, ST_GeomFromText(wkt) AS geometry FROM '{polygons}') AS p
    JOIN '{array}' AS t ON ST_Contains(geometry, ST_Point(lon, lat)) GROUP BY id ORDER BY id"""


def corners():
    """Returns the corners of polygons around points of the globe, which do not cross themselves."""
    random = np.random.default_rng(1)
    x, y = random.uniform(5, 355, POLYGONS), random.uniform(-84, 84, POLYGONS)
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    radii = random.uniform(1, 5, (POLYGONS, 1)) * random.uniform(0.6, 1, (POLYGONS, CORNERS))
    return np.stack([x[:, None] + radii * np.cos(angles), y[:, None] + radii * np.sin(angles)], axis=-1).round(3)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    tet_sql = sys.argv[2] if len(sys.argv) > 2 else "tet-sql"
    folder.mkdir(parents=True, exist_ok=True)

    def run(query):
        command = [tet_sql, "--format", "csv", "-c", query]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    lat, lon = np.linspace(90, -90, 721), np.arange(1440) / 4
    array, polygons = folder / "array.zarr", folder / "polygons.csv"
    shapes = corners()
    if not array.exists():
        cells = np.random.default_rng(2).normal(280, 10, (24, 721, 1440)).astype("f4")
        np.savez(folder / "array.npz", time=np.arange(24), lat=lat, lon=lon, value=cells)
        options = "STORED AS ZARR OPTIONS (dims 'time,lat,lon', chunk '24,91,180', dataset 'value')"
        copy = f"COPY (SELECT * FROM value) TO '{array}' {options}"
        names = [tet_sql, "-q", "--dims", "time,lat,lon", folder / "array.npz", "-c", copy]
        subprocess.run(names, check=True)
    with open(polygons, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "wkt"])
        for number, shape in enumerate(shapes):
            points = ", ".join(f"{x} {y}" for x, y in [*shape, shape[0]])
            rows.writerow([number, f"POLYGON(({points}))"])

    zones, seconds = best(lambda: run(ZONES.format(polygons=polygons, array=array)))
    _, mean = best(lambda: run(f"SELECT avg(value) FROM '{array}'"))
    print(f"mean of all cells {mean:.3f} s, count and mean of {POLYGONS} polygons {seconds:.3f} s, {seconds / mean:.2f} times")

    import shapely

    found = {int(row["id"]): int(row["count"]) for row in csv.DictReader(io.StringIO(zones))}
    x, y = np.meshgrid(lon, lat)
    for number, shape in enumerate(shapes):
        rows = slice(*np.searchsorted(-lat, [-shape[:, 1].max(), -shape[:, 1].min()], "left") + [0, 1])
        columns = slice(*np.searchsorted(lon, [shape[:, 0].min(), shape[:, 0].max()], "left") + [0, 1])
        inside = shapely.contains_xy(shapely.Polygon(shape), x[rows, columns], y[rows, columns])
        assert found.get(number, 0) == 24 * inside.sum(), number
    print("Shapely finds the same cells")


if __name__ == "__main__":
    main()
