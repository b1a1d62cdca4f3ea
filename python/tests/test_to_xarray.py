"""Results as xarray Datasets."""

from __future__ import annotations

import time

import numpy as np
import pytest
import xarray as xr

import tet_sql
from tet_sql._to_xarray import dataset


@pytest.fixture
def cells() -> xr.DataArray:
    values = np.arange(24.0).reshape(4, 3, 2)
    coords = {"time": np.arange("2024-01-01", "2024-01-05", dtype="M8[D]"), "lat": [30.0, 20.0, 10.0], "site": ["b", "a"]}
    return xr.DataArray(values, coords, ("time", "lat", "site"), name="t")


@pytest.mark.parametrize("order", ["time, lat, site", "site, time, lat", "lat DESC, time DESC, site", "random()", "t % 7, t"])
def test_rows_in_any_order(cells, order):
    found = cells.tet.sql(f"SELECT * FROM this ORDER BY {order}").to_xarray().t
    assert found.dims == cells.dims
    for dim in cells.dims:
        found = found.sel({dim: cells[dim].values})
    xr.testing.assert_equal(found, cells)


def test_axes_keep_their_order(cells):
    found = cells.tet.sql("SELECT * FROM this ORDER BY time, lat DESC, site DESC").to_xarray()
    xr.testing.assert_equal(found.t, cells)
    holes = cells.tet.sql("SELECT * FROM this WHERE t <> 5 ORDER BY time, lat DESC, site DESC").to_xarray()
    assert holes.lat.values.tolist() == [30.0, 20.0, 10.0]
    xr.testing.assert_equal(holes.t, cells.where(cells != 5))


@pytest.mark.parametrize("x", [[3.0, 1.0, 2.0], [90, 60, 30], ["b", "c", "a"], np.array([0.3, 0.1, 0.2], "f4")])
def test_axes_keep_the_order_of_the_array(x):
    given = xr.DataArray(np.arange(-1.0, 5.0).reshape(2, 3), {"t": [0, 1], "x": x}, ("t", "x"), name="v")
    session = tet_sql.connect(threads=2)
    session.register("a", given)
    session.register("names", xr.DataArray([1, 2, 3], {"x": x}, ("x",), name="k"))
    xr.testing.assert_equal(session.sql("SELECT * FROM a WHERE v > 0").to_xarray().v, given.where(given > 0))
    grouped = session.sql("SELECT x, sum(v) AS v FROM a GROUP BY x").to_xarray().v
    xr.testing.assert_equal(grouped, given.sum("t"))
    joined = session.sql("SELECT a.t, a.x, v * k AS v FROM a JOIN names USING (x) ORDER BY v").to_xarray().v
    xr.testing.assert_equal(joined, given * [1, 2, 3])
    # ORDER BY comes first.
    for direction, expected in (("", sorted(x)), ("DESC", sorted(x, reverse=True))):
        found = session.sql(f"SELECT x, max(v) AS v FROM a GROUP BY x ORDER BY x {direction}").to_xarray()
        assert found.x.values.tolist() == expected


def test_axes_of_files_keep_their_order(tmp_path):
    given = xr.DataArray(np.arange(6.0).reshape(3, 2), {"lat": [90, 0, 45], "lon": [2, 1]}, ("lat", "lon"), name="v")
    given.to_dataset().to_zarr(tmp_path / "v.zarr", zarr_format=2)
    found = tet_sql.connect(tmp_path / "v.zarr").sql("SELECT lat, lon, value AS v FROM v WHERE value < 5").to_xarray()
    xr.testing.assert_equal(found.v, given.where(given < 5))


def test_the_order_of_batches_does_not_matter():
    array = np.arange(3_000_000.0).reshape(300, 10_000)
    given = xr.DataArray(array, {"a": np.arange(300) * 2.0, "b": np.arange(10_000)}, ("a", "b"), name="v")
    session = tet_sql.connect(threads=2)
    session.register("t", given)
    for _ in range(5):
        xr.testing.assert_equal(session.sql("SELECT * FROM t").to_xarray().v, given)
    # Computed coordinates are sorted.
    values = session.sql("SELECT * FROM (VALUES (2, 'b', 1), (3, 'c', 2), (1, NULL, 3)) AS t(i, name, v)")
    for dim, expected in (("i", [3, 1, 2]), ("name", [1, 2, 3])):
        assert values.to_xarray(dims=dim).v.values.tolist() == expected
    assert values.to_xarray(dims="name").name.isnull().values.tolist() == [False, False, True]
    for order in ("i DESC", "i DESC LIMIT 3", "-v DESC, i DESC"):
        rows = session.sql(f"SELECT i, i AS v FROM (VALUES (2), (3), (1)) AS t(i) ORDER BY {order}")
        assert rows.to_xarray(dims=["i"]).i.values.tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("x", "type"), [(["c", "b", "a"], "VARCHAR"), ([3, 1, 2], "VARCHAR"), ([3.0, 1.0, 2.0], "DOUBLE")]
)
def test_null_is_last_in_the_order_of_an_array(x, type):
    session = tet_sql.connect()
    session.register("a", xr.DataArray([0, 1, 2], {"x": x}, ("x",), name="i"))
    query = f"""
        SELECT a.x, v FROM (VALUES ('{x[1]}', 1), ('9', 2), ('{x[0]}', 3)) AS k(x, v)
        LEFT JOIN a ON CAST(a.x AS {type}) = CAST(k.x AS {type})
    """
    found = session.sql(query).to_xarray(dims="x")
    assert found.v.values.tolist() == [3, 1, 2] and found.x.isnull().values.tolist() == [False, False, True]


@pytest.mark.parametrize("type", ["DOUBLE", "INT", "TIMESTAMP", "VARCHAR"])
def test_missing_coordinates_are_last(type):
    query = f"SELECT CAST(i AS {type}) AS i, v FROM (VALUES (NULL, 1), ('2024', 2), ('1999', 3)) AS t(i, v)"
    if type == "TIMESTAMP":
        query = query.replace("'2024'", "'2024-01-01'").replace("'1999'", "'1999-01-01'")
    for order, expected in (("", [3, 2, 1]), (" ORDER BY i DESC", [2, 3, 1])):
        found = tet_sql.connect().sql(query + order).to_xarray(dims="i")
        assert found.v.values.tolist() == expected and found.i.isnull().values.tolist() == [False, False, True]


def test_names_of_columns_are_unique(cells):
    relation = cells.tet.sql("SELECT a.lat, a.t, b.t FROM this a JOIN this b USING (time, lat, site)")
    for convert in (relation.numpy, relation.to_xarray):
        with pytest.raises(tet_sql.QueryError, match="several columns are named t: rename them with AS"):
            convert()
    assert relation.df().columns.tolist() == ["lat", "t", "t"] and relation.df().shape == (24, 3)


def test_missing_cells_by_type(cells):
    query = """
        SELECT time, lat, site, CAST(t AS INT) AS i, time AS at, t > 3 AS b, site AS text, CAST(t AS REAL) AS f
        FROM this WHERE t <> 5
    """
    found = cells.tet.sql(query).to_xarray(dims=["time", "lat", "site"])
    hole = {"time": 0, "lat": 2, "site": 1}
    found = found.sortby("lat", ascending=False).sel(site=["b", "a"])
    assert np.isnan(found.i.isel(hole)) and np.isnat(found.at.isel(hole)) and np.isnan(found.f.isel(hole))
    assert found.b.isel(hole).item() is None and found.text.isel(hole).isnull()
    assert found.f.dtype == np.float32 and found.i.dtype == np.float64


def test_dimensions_are_marked_or_named(cells):
    session = tet_sql.connect()
    session.register("t", cells)
    assert session.sql("SELECT avg(t) AS mean, lat FROM t GROUP BY lat").to_xarray()["mean"].dims == ("lat",)
    with pytest.raises(tet_sql.Error, match=r"to_xarray\(dims=\[...\]\)"):
        session.sql("SELECT value FROM generate_series(1, 3)").to_xarray()
    with pytest.raises(tet_sql.Error, match="the result has 3 rows but no column that is a dimension"):
        session.sql("SELECT value FROM generate_series(1, 3)").to_xarray(dims=[])
    with pytest.raises(tet_sql.Error, match="no column x, expected one of value"):
        session.sql("SELECT value FROM generate_series(1, 3)").to_xarray(dims=["x"])
    with pytest.raises(tet_sql.Error, match="several rows have the same coordinates along lat"):
        session.sql("SELECT lat, t FROM t").to_xarray(dims=["lat"])
    one = session.sql("SELECT time, avg(t) AS mean FROM t WHERE time = '2024-01-02' GROUP BY time").to_xarray()
    assert one["mean"].shape == (1,) and one["mean"].values[0] == 8.5


@pytest.mark.parametrize("dims", [None, []])
def test_a_single_row_has_no_dimensions(cells, dims):
    query = """
        SELECT avg(t) AS mean, max(time) AS last, min(site) AS site, count(*) AS n, sum(t) FILTER (WHERE t < 0) AS nothing,
               bool_and(t > 3) AS warm, [min(t)] AS list FROM this
    """
    found = cells.assign_attrs(units="K").tet.sql(query).to_xarray(dims)
    assert found.sizes == {} and found["mean"].attrs == {"units": "K"}
    assert found["mean"].item() == 11.5 and found.n.item() == 24 and np.isnan(found.nothing)
    assert found["last"].values == np.datetime64("2024-01-04") and found.site.item() == "a"
    assert not found.warm.item() and found.list.item() == [0.0]


def test_scalar_variables_round_trip():
    cftime = pytest.importorskip("cftime")
    coords = {"member": "r1", "height": 2.0, "date": cftime.Datetime360Day(2001, 2, 30)}
    given = xr.Dataset({"t": 5.0, "n": 3, "name": "x"}, coords, {"title": "scalars"})
    xr.testing.assert_identical(given.tet.sql("SELECT * FROM this").to_xarray(), given)


def test_attributes_of_datasets(cells):
    first = cells.to_dataset().assign_attrs(title="t", history=["a", "b"], version=3, limit=float("nan"))
    session = tet_sql.connect()
    session.register("a", first)
    kept = session.sql("SELECT lat, avg(t) AS mean FROM a WHERE lat > 15 GROUP BY lat").to_xarray()
    assert kept.attrs.keys() == first.attrs.keys()
    assert kept.attrs["history"] == ["a", "b"] and kept.attrs["version"] == 3
    xr.testing.assert_identical(session.sql("SELECT * FROM a").to_xarray(), first)
    # Of several Datasets, the attributes in which they do not differ.
    session.register("b", first.assign_attrs(version=4, source="model"))
    joined = session.sql("SELECT a.*, b.t AS u FROM a JOIN b USING (time, lat, site)").to_xarray()
    assert joined.attrs["title"] == "t" and "version" not in joined.attrs
    assert cells.tet.sql("SELECT * FROM this").to_xarray().attrs == {}


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "julian"])
def test_dates_of_other_calendars(calendar, tmp_path):
    cftime = pytest.importorskip("cftime")
    times = xr.date_range("2001-02-27T12:00:00", periods=6, freq="D", calendar=calendar, use_cftime=True)
    given = xr.Dataset({"v": (("time", "x"), np.arange(12.0).reshape(6, 2))}, {"time": times, "x": [1, 2]})
    session = tet_sql.connect()
    session.register("t", given)
    xr.testing.assert_identical(session.sql("SELECT * FROM t").to_xarray(), given)
    late = session.sql("SELECT time, sum(v) AS v FROM t WHERE time >= '2001-03' GROUP BY time").to_xarray()
    expected = given.v.sum("x").isel(time=[time.month == 3 for time in times])
    xr.testing.assert_equal(late.v, expected)
    assert isinstance(late.time.values[0], cftime.datetime) and late.time.values[0].calendar == calendar
    # xarray selects months only among objects of the class of the calendar.
    assert type(late.time.values[0]) is type(times[0])
    xr.testing.assert_equal(late.v.sel(time="2001-03"), expected)
    # Text that is no date stays text.
    months = session.sql("SELECT substr(time, 1, 7) AS time, max(v) AS v FROM t GROUP BY 1").to_xarray(dims=["time"])
    assert months.time.values.tolist() == sorted({str(time)[:7] for time in times.strftime("%Y-%m")})
    given.to_zarr(tmp_path / "t.zarr", zarr_format=2)
    read = tet_sql.connect(tmp_path / "t.zarr").sql("SELECT time, x, value AS v FROM v").to_xarray()
    if calendar == "noleap":
        # These dates are timestamps too.
        assert read.time.dtype.kind == "M"
    else:
        xr.testing.assert_equal(read, given)
        assert read.sel(time="2001-03").sizes["time"] == expected.sizes["time"]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_dates_of_other_calendars(missing):
    cftime = pytest.importorskip("cftime")
    first, last = cftime.Datetime360Day(2001, 2, 30), cftime.Datetime360Day(2001, 3, 1, 12)
    dated = np.array([first, missing, last], dtype=object)
    # An attribute of the same name that is not text.
    given = xr.Dataset({"v": ("x", np.arange(3.0)), "seen": ("x", dated, {"calendar": 7})}, {"x": [1, 2, 3]})
    found = given.tet.sql("SELECT * FROM this").to_xarray().seen
    assert found.values.tolist() == [first, None, last] and found.attrs == {"calendar": 7}
    assert type(found.values[0]) is cftime.Datetime360Day


def test_texts_with_an_attribute_calendar_stay_texts():
    pytest.importorskip("cftime")
    texts = np.array(["2001-02-27", "2001-02-28"], dtype=object)
    given = xr.Dataset({"v": ("x", [1.0, 2.0]), "day": ("x", texts, {"calendar": "360_day"})}, {"x": [1, 2]})
    xr.testing.assert_identical(given.tet.sql("SELECT * FROM this").to_xarray(), given)
    # Neither a name of a calendar, nor dates of one.
    for texts, calendar in ((["2001-02-27", "2001-02-28"], "moon"), (["2001-02-31", "2001-03-01"], "360_day")):
        along = xr.DataArray([1.0, 2.0], {"day": ("day", texts, {"calendar": calendar})}, name="v").to_dataset()
        found = along.tet.sql("SELECT * FROM this").to_xarray().day
        assert found.values.tolist() == texts and found.attrs == {"calendar": calendar}
    # The same for texts along a dimension that are dates of the calendar.
    texts = ["2001-02-27", "2001-02-28"]
    along = xr.DataArray([1.0, 2.0], {"day": ("day", texts, {"calendar": "360_day"})}, name="v").to_dataset()
    assert along.tet.sql("SELECT * FROM this").to_xarray().day.values.tolist() == texts


def test_a_million_groups_are_reshaped():
    array = np.random.default_rng(5).random((4, 1000, 1000), dtype="f4")
    session = tet_sql.connect()
    session.register("a", xr.DataArray(array, dims=("time", "lat", "lon"), name="v"))
    batches = session.sql("SELECT lat, lon, avg(v) AS v FROM a GROUP BY lat, lon")._query.collect()
    assert len(batches) == 1_000_000
    times = []
    for _ in range(5):
        start = time.perf_counter()
        found = dataset(batches, None)
        times.append(time.perf_counter() - start)
    np.testing.assert_allclose(found.v, array.astype("f8").mean(axis=0))
    # The bound leaves room for a debug build on a busy machine.
    assert min(times) < 0.05, times
    print(f"1,000,000 groups: {min(times) * 1000:.1f} ms")
