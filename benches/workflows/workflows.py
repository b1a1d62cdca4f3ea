#!/usr/bin/env python3
"""Measures common workflows over gridded data in tet-sql, DuckDB, NumPy and xarray, and checks that their answers agree.

    python3 benches/workflows/workflows.py FOLDER [PATH OF tet-sql] [--quick] [--only WORD] [--runs N]
                                           [--without-array-plans] [--duckdb-process]

FOLDER receives the data, which are written once: about 700 MB, or 6 MB with --quick. Only installed tools are measured.

- tet-sql is measured as a whole process that reads Zarr stores and writes CSV. --without-array-plans measures it once more
  with joins and aggregates left to DataFusion.
- DuckDB queries the same rows in Parquet files, in this process, and returns NumPy arrays. --duckdb-process measures it
  once more as a Python process that writes CSV.
- xarray opens the Zarr stores anew in each run, in this process. It uses flox, numbagg and bottleneck if they are
  installed. Sums of f32 are f32 in xarray, so that the answers that are compared come from a copy of the data in f64.
  Groups of hours are also measured as a reduction of whole days. Ratios refer to the faster one.
- NumPy is the arithmetic alone, by one thread, over decoded cells in memory. Nothing is read.

Each figure is the min of N runs (by default five) after a warm-up run, or of as many runs as fit into a minute.
"""

import argparse
import csv
import dataclasses
import io
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import peers  # noqa: E402

WITHOUT_ARRAY_PLANS = ("tet.lookup_joins", "tet.zip_joins", "tet.array_aggregates")
HOUR = np.timedelta64(1, "h")
# The valid time of the forecast in DataFusion and in DuckDB.
VALID_TIME = "f.init + CAST(concat(f.lead, ' hours') AS INTERVAL)"
VALID_TIME_OF_DUCKDB = "f.init + to_hours(f.lead)"
BOXES = [
    ("Australia", -45, -10, 110, 155),
    ("Europe", 35, 70, 0, 40),
    ("North America", 15, 70, 190, 305),
    ("Southern Ocean", -65, -45, 0, 359),
    ("tropics", -20, 20, 0, 359),
]
CLIMATOLOGY = "SELECT lat, lon, date_part('hour', time) AS hour, avg(value) AS mean FROM {t} GROUP BY lat, lon, hour"
ANOMALY = f"""{{t}} AS v JOIN ({CLIMATOLOGY}) AS c
    ON v.lat = c.lat AND v.lon = c.lon AND date_part('hour', v.time) = c.hour"""

# {t}, {f}, {weights} and {boxes} are tables, and {valid} is the valid time of the forecast.
QUERIES = {
    "climatology by lat, lon, hour": f"""
        SELECT hour, avg(mean), min(mean), max(mean) FROM ({CLIMATOLOGY}) GROUP BY hour ORDER BY hour""",
    "zonal mean": "SELECT lat, avg(value) FROM {t} GROUP BY lat ORDER BY lat",
    "daily range by lat, lon": """
        SELECT lat, lon, avg(warmest - coldest)
        FROM (SELECT date_trunc('day', time) AS day, lat, lon, min(value) AS coldest, max(value) AS warmest
              FROM {t} GROUP BY day, lat, lon)
        GROUP BY lat, lon ORDER BY lat, lon""",
    "hours above a threshold": """
        SELECT lat, lon, count(*) FILTER (WHERE value > 300) FROM {t} GROUP BY lat, lon ORDER BY lat, lon""",
    "anomaly": f"""
        SELECT v.time, max(abs(v.value - c.mean)), avg(abs(v.value - c.mean)) FROM {ANOMALY}
        GROUP BY v.time ORDER BY v.time""",
    "anomaly of a region": f"""
        SELECT v.time, v.lat, v.lon, v.value - c.mean FROM {ANOMALY}
        WHERE v.lat BETWEEN 40 AND 60 AND v.lon BETWEEN 0 AND 20 ORDER BY v.time, v.lat, v.lon""",
    "forecast skill": """
        SELECT f.lead, sqrt(avg(power(f.value - e.value, 2)))
        FROM {f} AS f JOIN {t} AS e ON {valid} = e.time AND f.lat = e.lat AND f.lon = e.lon
        GROUP BY f.lead ORDER BY f.lead""",
    "regions": """
        SELECT name, avg(value), count(*)
        FROM {t} AS v JOIN {boxes} AS b ON v.lat BETWEEN lat_min AND lat_max AND v.lon BETWEEN lon_min AND lon_max
        GROUP BY name ORDER BY name""",
    "regrid": """
        SELECT count(*), avg(total), min(total), max(total)
        FROM (SELECT time, y, x, sum(value * weight) AS total
              FROM {t} AS v JOIN {weights} AS w ON v.lat = w.lat AND v.lon = w.lon GROUP BY time, y, x)""",
    "rolling mean": """
        SELECT lat, max(mean)
        FROM (SELECT lat, avg(value) OVER (PARTITION BY lat, lon ORDER BY time
                                           ROWS BETWEEN 23 PRECEDING AND CURRENT ROW) AS mean
              FROM {t} WHERE lat BETWEEN 40 AND 60)
        GROUP BY lat ORDER BY lat""",
    "area-weighted mean": """
        SELECT time, sum(value * cos(radians(lat))) / sum(cos(radians(lat))) FROM {t} GROUP BY time ORDER BY time""",
    "median by lat": "SELECT lat, median(value) FROM {t} GROUP BY lat ORDER BY lat",
    "point series": "SELECT time, value FROM {t} WHERE lat = 50 AND lon = 10 ORDER BY time",
}


@dataclasses.dataclass
class Size:
    """The extents of the data. All series begin at midnight and have whole days."""

    hours: int
    lats: int
    lons: int
    inits: int
    leads: int
    targets: tuple[int, int]


FULL = Size(hours=720, lats=181, lons=360, inits=20, leads=36, targets=(60, 120))
QUICK = Size(hours=240, lats=37, lons=72, inits=4, leads=36, targets=(12, 24))


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def write_once(path, write):
    """Calls `write` with a temporary path if the file does not exist."""
    if not path.exists():
        part = path.with_name("part-" + path.name)
        write(part)
        part.rename(path)


def write_arrays(path, cells, **coordinates):
    write_once(path, lambda part: np.savez(part, **coordinates, value=cells()))


def write_rows(path, header, rows):
    def write(part):
        with open(part, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])

    write_once(path, write)


def write_data(folder, size, copy):
    """Writes the data. `copy` runs a COPY statement over the arrays of an `.npz` file, whose dimensions it names."""
    folder.mkdir(parents=True, exist_ok=True)
    time = np.datetime64("2024-01-01", "us") + np.arange(size.hours) * HOUR
    lat = np.linspace(-90, 90, size.lats)
    lon = np.arange(size.lons) * (360 / size.lons)
    grid = {"lat": lat, "lon": lon}

    def temperature():
        random = np.random.default_rng(1)
        daily = 5 * np.sin(2 * np.pi * np.arange(size.hours) / 24)
        zonal = 260 + 40 * np.cos(np.radians(lat))
        cells = np.empty((size.hours, size.lats, size.lons), "f4")
        for hour in range(size.hours):
            cells[hour] = np.round(zonal[:, None] + daily[hour] + random.normal(0, 2, cells.shape[1:]), 2)
        return cells

    def forecast():
        random = np.random.default_rng(2)
        truth = np.load(folder / "temperature.npz")["value"]
        cells = np.empty((size.inits, size.leads, size.lats, size.lons), "f4")
        for day in range(size.inits):
            steps = truth[24 * day : 24 * day + size.leads]
            cells[day] = np.round(steps + random.normal(0, 0.5, steps.shape), 2)
        return cells

    write_arrays(folder / "temperature.npz", temperature, time=time, **grid)
    write_arrays(folder / "forecast.npz", forecast, init=time[: 24 * size.inits : 24], lead=np.arange(size.leads), **grid)
    write_rows(folder / "boxes.csv", ["name", "lat_min", "lat_max", "lon_min", "lon_max"], BOXES)
    write_rows(folder / "weights.csv", ["y", "x", "lat", "lon", "weight"], bilinear(lat, lon, size.targets))
    for name, dims, chunk in [
        ("temperature", "time,lat,lon", f"24,{size.lats},{size.lons}"),
        ("forecast", "init,lead,lat,lon", f"1,{size.leads},{size.lats},{size.lons}"),
    ]:
        for kind, options in [
            ("zarr", f"STORED AS ZARR OPTIONS (dims '{dims}', chunk '{chunk}', dataset 'value')"),
            ("parquet", "STORED AS PARQUET"),
        ]:
            path = folder / f"{name}.{kind}"
            if not path.exists():
                copy(folder / f"{name}.npz", dims, f"COPY (SELECT * FROM value) TO '{path}' {options}")


def bilinear(lat, lon, targets):
    """Yields the four sources of each target cell, with their weights."""
    for y, row in enumerate(np.linspace(0, len(lat) - 1, targets[0])):
        for x, column in enumerate(np.linspace(0, len(lon) - 1, targets[1])):
            south, west = min(int(row), len(lat) - 2), min(int(column), len(lon) - 2)
            for j in (south, south + 1):
                for i in (west, west + 1):
                    yield y, x, lat[j], lon[i], (1 - abs(row - j)) * (1 - abs(column - i))


def read_weights(folder, size):
    """Returns the latitudes, longitudes and weights of the sources, by target row and column."""
    table = np.genfromtxt(folder / "weights.csv", delimiter=",", names=True)
    return [table[name].reshape(*size.targets, 4) for name in ("lat", "lon", "weight")]


def numpy_peer(folder, size):
    t = np.load(folder / "temperature.npz")
    time, lat, lon, t = t["time"], t["lat"], t["lon"], t["value"]
    f = np.load(folder / "forecast.npz")
    init, lead, f = f["init"], f["lead"], f["value"]
    source_lat, source_lon, weight = read_weights(folder, size)
    source = np.searchsorted(lat, source_lat) * len(lon) + np.searchsorted(lon, source_lon)
    lats, lons = np.repeat(lat, len(lon)), np.tile(lon, len(lat))

    def within(axis, low, high):
        return slice(np.searchsorted(axis, low), np.searchsorted(axis, high, "right"))

    def days(array):
        return array.reshape(-1, 24, *array.shape[1:])

    def climatology():
        mean = days(t).mean(0, dtype="f8")
        return np.arange(24), mean.mean((1, 2)), mean.min((1, 2)), mean.max((1, 2))

    def daily_range():
        return lats, lons, (days(t).max(1) - days(t).min(1)).mean(0, dtype="f8")

    def anomaly():
        mean = days(t).mean(0, dtype="f8")
        distances = [np.abs(day - mean) for day in days(t)]
        return time, [day.max((1, 2)) for day in distances], [day.mean((1, 2)) for day in distances]

    def anomaly_of_region():
        y, x = within(lat, 40, 60), within(lon, 0, 20)
        region = t[:, y, x]
        anomalies = days(region) - days(region).mean(0, dtype="f8")
        return *np.meshgrid(time, lat[y], lon[x], indexing="ij"), anomalies

    def skill():
        squares = np.zeros(len(lead))
        for forecast, start in zip(f, np.searchsorted(time, init)):
            squares += np.square(forecast - t[start : start + len(lead)], dtype="f8").mean((1, 2))
        return lead, np.sqrt(squares / len(init))

    def regions():
        parts = [t[:, within(lat, south, north), within(lon, west, east)] for _, south, north, west, east in BOXES]
        return [box[0] for box in BOXES], [part.mean(dtype="f8") for part in parts], [part.size for part in parts]

    def regrid():
        total = np.array([(step[source] * weight).sum(-1) for step in t.reshape(len(t), -1)])
        return total.size, total.mean(), total.min(), total.max()

    def rolling():
        y = within(lat, 40, 60)
        sums = np.cumsum(t[:, y], axis=0, dtype="f8")
        sums[24:] -= sums[:-24].copy()
        sums /= np.minimum(np.arange(1, len(time) + 1), 24)[:, None, None]
        return lat[y], sums.max((0, 2))

    def area_weighted():
        weights = np.cos(np.radians(lat))
        return time, t.mean(2, dtype="f8") @ weights / weights.sum()

    return {
        "climatology by lat, lon, hour": climatology,
        "zonal mean": lambda: (lat, t.mean((0, 2), dtype="f8")),
        "daily range by lat, lon": daily_range,
        "hours above a threshold": lambda: (lats, lons, (t > 300).sum(0)),
        "anomaly": anomaly,
        "anomaly of a region": anomaly_of_region,
        "forecast skill": skill,
        "regions": regions,
        "regrid": regrid,
        "rolling mean": rolling,
        "area-weighted mean": area_weighted,
        "median by lat": lambda: (lat, np.median(t, axis=(0, 2))),
        "point series": lambda: (time, t[:, np.searchsorted(lat, 50), np.searchsorted(lon, 10)]),
    }


def xarray_peer(folder, size):
    """Returns two dictionaries of functions of the arrays of temperature and forecast: the usual expressions, and expressions
    without groups of hours, where each day is an element of a dimension of its own."""
    import xarray

    source_lat, source_lon, weight = (xarray.DataArray(a, dims=("y", "x", "source")) for a in read_weights(folder, size))
    space = ("lat", "lon")

    def climatology(t, f):
        mean = t.groupby("time.hour").mean("time")
        return mean.hour, mean.mean(space), mean.min(space), mean.max(space)

    def daily_range(t, f):
        days = t.resample(time="D")
        return cells((days.max() - days.min()).mean("time"))

    def cells(array):
        array = array.transpose(*(dim for dim in ("time", "lat", "lon") if dim in array.dims))
        return *np.meshgrid(*(array[dim] for dim in array.dims), indexing="ij"), array

    def region(t):
        return t.sel(lat=slice(40, 60), lon=slice(0, 20))

    def anomalies(t):
        hours = t.groupby("time.hour")
        return hours - hours.mean("time")

    def anomaly(t, f):
        distance = abs(anomalies(t))
        return t.time, distance.max(space), distance.mean(space)

    def skill(t, f):
        errors = f - t.sel(time=f.init + f.lead * HOUR)
        return f.lead, np.sqrt((errors**2).mean(("init", "lat", "lon")))

    def regions(t, f):
        parts = [t.sel(lat=slice(south, north), lon=slice(west, east)) for _, south, north, west, east in BOXES]
        return [box[0] for box in BOXES], [part.mean() for part in parts], [part.count() for part in parts]

    def regrid(t, f):
        total = (t.sel(lat=source_lat, lon=source_lon) * weight).sum("source")
        return total.size, total.mean(), total.min(), total.max()

    def rolling(t, f):
        means = t.sel(lat=slice(40, 60)).rolling(time=24, min_periods=1).mean()
        return means.lat, means.max(("time", "lon"))

    def by_days(t):
        return t.coarsen(time=24).construct(time=("day", "hour"))

    def climatology_by_days(t, f):
        mean = by_days(t).mean("day")
        return np.arange(24), mean.mean(space), mean.min(space), mean.max(space)

    def daily_range_by_days(t, f):
        days = t.coarsen(time=24)
        return cells((days.max() - days.min()).mean("time"))

    def anomalies_by_days(t):
        days = by_days(t)
        return days - days.mean("day")

    def anomaly_by_days(t, f):
        distance = abs(anomalies_by_days(t))
        return t.time, distance.max(space), distance.mean(space)

    def anomaly_of_region_by_days(t, f):
        part = region(t)
        return *np.meshgrid(part.time, part.lat, part.lon, indexing="ij"), anomalies_by_days(part)

    usual = {
        "climatology by lat, lon, hour": climatology,
        "zonal mean": lambda t, f: (t.lat, t.mean(("time", "lon"))),
        "daily range by lat, lon": daily_range,
        "hours above a threshold": lambda t, f: cells((t > 300).sum("time")),
        "anomaly": anomaly,
        "anomaly of a region": lambda t, f: cells(anomalies(region(t))),
        "forecast skill": skill,
        "regions": regions,
        "regrid": regrid,
        "rolling mean": rolling,
        "area-weighted mean": lambda t, f: (t.time, t.weighted(np.cos(np.deg2rad(t.lat))).mean(space)),
        "median by lat": lambda t, f: (t.lat, t.median(("time", "lon"))),
        "point series": lambda t, f: (t.time, t.sel(lat=50, lon=10)),
    }
    return usual, {
        "climatology by lat, lon, hour": climatology_by_days,
        "daily range by lat, lon": daily_range_by_days,
        "anomaly": anomaly_by_days,
        "anomaly of a region": anomaly_of_region_by_days,
    }


def xarray_stores(folder, dtype=None):
    """Opens the stores, which xarray reads when they are first used."""
    import xarray

    for name in ("temperature", "forecast"):
        # `lead` has no unit, so that it is a number of hours, and not a timedelta.
        array = xarray.open_dataset(folder / f"{name}.zarr", engine="zarr")["value"]
        yield array if dtype is None else array.astype(dtype)


def sql(name, folder, kind, valid):
    tables = {"t": f"temperature.{kind}", "f": f"forecast.{kind}", "weights": "weights.csv", "boxes": "boxes.csv"}
    return QUERIES[name].format(valid=valid, **{key: f"'{folder / file}'" for key, file in tables.items()})


def plain(column):
    """Returns a column as numbers, or as texts if it is not numeric. Times are texts."""
    column = np.asarray(column).ravel()
    if column.dtype.kind == "M":
        return np.datetime_as_string(column, unit="s")
    try:
        return column.astype("f8")
    except ValueError:
        return column.astype(str)


def columns_of(answer):
    """Returns the columns of an answer, which the command writes as CSV."""
    if not isinstance(answer, str):
        return [plain(column) for column in answer]
    _, *rows = csv.reader(io.StringIO(answer))
    return [plain(column) for column in zip(*rows)]


def compare(name, tool, found, expected):
    """Ends the benchmark if two answers differ. `atol` is for anomalies near zero, which are differences of large numbers."""
    found, expected = columns_of(found), columns_of(expected)
    if len(found) != len(expected):
        sys.exit(f"{name}: {tool} finds {len(found)} columns, not {len(expected)}")
    for number, (column, wanted) in enumerate(zip(found, expected), 1):
        if column.shape != wanted.shape:
            sys.exit(f"{name}: column {number}: {tool} finds {len(column)} rows, not {len(wanted)}")
        if wanted.dtype.kind == "f" == column.dtype.kind:
            differ = ~np.isclose(column, wanted, rtol=1e-6, atol=1e-9, equal_nan=True)
        else:
            differ = column.astype(str) != wanted.astype(str)
        if differ.any():
            row = np.argmax(differ)
            sys.exit(f"{name}: column {number}, row {row + 1}: {tool} finds {column[row]}, not {wanted[row]}")


def tools(folder, size, tet_sql, options):
    """Returns, for each tool, a description, a function that returns the work to be timed for a workflow, or `None`, and a
    function that returns the answer to be compared, or `None` if that is the answer of the timed work."""
    described = {}

    def tet(name, settings=()):
        query = sql(name, folder, "zarr", VALID_TIME)
        command = [tet_sql, "--format", "csv", *(f"--set={setting}=false" for setting in settings), "-c", query]
        return lambda: run(command)

    arithmetic = numpy_peer(folder, size)
    described["NumPy"] = f"NumPy {np.__version__} (arithmetic alone, one thread)", arithmetic.get, None
    version = run([tet_sql, "--version"]).split()[-1]
    described["tet-sql"] = f"tet-sql {version} (whole process)", tet, None
    if options.without_array_plans:
        off = ", ".join(f"`SET {setting} = false`" for setting in WITHOUT_ARRAY_PLANS)
        described["tet-sql without"] = f"tet-sql without = {off}", lambda name: tet(name, WITHOUT_ARRAY_PLANS), None
    if peers.is_installed("duckdb"):
        import duckdb

        quiet = "SET enable_progress_bar = false"
        duckdb.sql(quiet)

        def duck(name):
            query = sql(name, folder, "parquet", VALID_TIME_OF_DUCKDB)
            return lambda: list(duckdb.sql(query).fetchnumpy().values())

        def duck_process(name):
            query = sql(name, folder, "parquet", VALID_TIME_OF_DUCKDB)
            copy = f"COPY ({query}) TO '/dev/stdout' (HEADER, TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%S')"
            script = f"import duckdb, sys; duckdb.sql({quiet!r}); duckdb.sql(sys.argv[1])"
            command = [sys.executable, "-c", script, copy]
            return lambda: run(command)

        described["DuckDB"] = f"DuckDB {duckdb.__version__} (Parquet, in process)", duck, None
        if options.duckdb_process:
            described["DuckDB process"] = "DuckDB process = a Python process that writes CSV", duck_process, None
    if peers.is_installed("xarray") and peers.is_installed("zarr"):
        import xarray

        helpers = [name for name in ("flox", "numbagg", "bottleneck") if peers.is_installed(name)]
        version = f"xarray {xarray.__version__} (in process, with {', '.join(helpers) or 'no helpers'})"
        by_days = "xarray by days = `coarsen(time=24)` instead of `groupby` and `resample`"
        for tool, description, workflows in zip(("xarray", "xarray by days"), (version, by_days), xarray_peer(folder, size)):

            def work(name, workflows=workflows, dtype=None):
                if name in workflows:
                    return lambda: values(workflows[name](*xarray_stores(folder, dtype)))

            described[tool] = description, work, lambda name, work=work: work(name, dtype="f8")()
    return described


def values(columns):
    return [np.asarray(column) for column in columns]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tet_sql", nargs="?", default=shutil.which("tet-sql"))
    parser.add_argument("--quick", action="store_true", help="small arrays")
    parser.add_argument("--only", default="", metavar="WORD", help="only workflows with this word in their name")
    parser.add_argument("--runs", type=int, default=peers.RUNS, metavar="N")
    parser.add_argument("--without-array-plans", action="store_true")
    parser.add_argument("--duckdb-process", action="store_true")
    options = parser.parse_args()
    if options.tet_sql is None:
        sys.exit("name the path of tet-sql")
    peers.RUNS = options.runs
    size = QUICK if options.quick else FULL
    folder = options.folder.resolve() / ("quick" if options.quick else "full")

    def copy(arrays, dims, statement):
        run([options.tet_sql, "-q", "--dims", dims, arrays, "-c", statement])

    write_data(folder, size, copy)

    measured = tools(folder, size, options.tet_sql, options)
    others = [tool for tool in ("DuckDB", "xarray") if tool in measured]
    print("; ".join(described for described, *_ in measured.values()), end=".\n")
    cells = size.hours * size.lats * size.lons
    print(f"{cells / 1e6:.1f} million cells, {os.cpu_count()} cores, warm, seconds, min of {options.runs} runs.\n")
    columns = ["workflow", *measured, *(f"tet-sql / {tool}" for tool in others)]
    print("|", " | ".join(columns), "|\n| ---" + " | --:" * (len(columns) - 1) + " |")
    failures = []
    for name in (name for name in QUERIES if options.only in name):
        expected, seconds, failed = None, {}, set()
        for tool, (_, work, answer) in measured.items():
            timed = work(name)
            if timed is None:
                continue
            try:
                found, seconds[tool] = peers.best(timed)
                found = answer(name) if answer else found
            except Exception as error:  # Other tools are still measured.
                failures.append(f"{name}: {tool} failed: {error}")
                failed.add(tool)
                continue
            expected = found if expected is None else expected
            compare(name, tool, found, expected)
        shown = [f"{seconds[tool]:.3f}" if tool in seconds else "failed" if tool in failed else "" for tool in measured]
        for tool in others:
            fastest = min((seconds[other] for other in seconds if other.startswith(tool)), default=None)
            shown.append(f"{seconds['tet-sql'] / fastest:.2f}" if fastest and "tet-sql" in seconds else "")
        print("|", " | ".join([name, *shown]), "|", flush=True)
    sys.exit("\n".join(failures) or None)


if __name__ == "__main__":
    main()
