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
    with pytest.raises(tet_sql.Error, match="no column x, expected one of value"):
        session.sql("SELECT value FROM generate_series(1, 3)").to_xarray(dims=["x"])
    with pytest.raises(tet_sql.Error, match="several rows have the same coordinates along lat"):
        session.sql("SELECT lat, t FROM t").to_xarray(dims=["lat"])
    one = session.sql("SELECT time, avg(t) AS mean FROM t WHERE time = '2024-01-02' GROUP BY time").to_xarray()
    assert one["mean"].shape == (1,) and one["mean"].values[0] == 8.5


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
