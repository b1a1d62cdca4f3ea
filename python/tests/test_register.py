"""NumPy arrays, frames and xarray objects as tables."""

from __future__ import annotations

import resource

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import tet_sql


@pytest.fixture
def session() -> tet_sql.Session:
    return tet_sql.connect(threads=2)


def test_frames_and_streams(session):
    frame = pd.DataFrame({"code": ["a", "b"], "height": [1.5, None]})
    for number, obj in enumerate([frame, pl.from_pandas(frame), pa.table(frame), pa.table(frame).to_reader()]):
        session.register(f"t{number}", obj)
        assert session.sql(f"SELECT code FROM t{number} WHERE height IS NULL").numpy()["code"].tolist() == ["b"]
    session.register("again", session.sql("SELECT * FROM t0"))
    session.register("again", session.sql("SELECT code FROM t0 WHERE height > 1"))
    assert session.sql("SELECT * FROM again").df().to_dict("list") == {"code": ["a"]}
    session.deregister("again")
    assert "again" not in session.tables()
    with pytest.raises(tet_sql.QueryError, match="no table is registered as again"):
        session.deregister("again")
    with pytest.raises(TypeError, match="cannot register an object of type dict"):
        session.register("d", {})


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", "M8[ns]", "M8[D]", "m8[s]"]
)
def test_element_types(session, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    session.register("a", array, dims=["y", "x"])
    found = session.sql("SELECT y, x, value FROM a WHERE y > 0").to_xarray().value
    expected = array[1:]
    if dtype == "M8[D]":
        expected = expected.astype("M8[s]")
    np.testing.assert_array_equal(found.values, expected)
    assert found.dtype == expected.dtype.newbyteorder("=")
    if array.dtype.kind in "fiu":
        sums = session.sql("SELECT y, sum(value) AS s, count(*) AS n FROM a GROUP BY y ORDER BY y").numpy()
        np.testing.assert_array_equal(sums["s"].astype("f8"), array.astype("f8").sum(axis=1))


@pytest.mark.parametrize("dtype", ["m8[500ms]", "m8[25us]", "M8[25us]", "M8[2D]", "M8[10ns]", "m8[W]"])
def test_units_of_time_are_exact(session, dtype):
    array = np.array([1, 3], dtype)
    session.register("a", array, dims=["x"], coords={"x": array})
    found = session.sql("SELECT x, value FROM a ORDER BY x").numpy()
    np.testing.assert_array_equal(found["value"], array)
    np.testing.assert_array_equal(found["x"], array)


@pytest.mark.parametrize("dtype", ["M8[ps]", "m8[as]", "m8[Y]", "M8[D]"])
def test_times_that_sql_does_not_have(session, dtype):
    with pytest.raises(tet_sql.UnsupportedError, match="^value has the "):
        session.register("a", np.array([10**18], dtype))


def test_types_of_pandas(session):
    columns = {
        "i": pd.array([1, 2**60], "Int64"),
        "n": pd.array([1, None], "Int64"),
        "f": pd.array([0.5, None], "Float64"),
        "b": pd.array([True, False], "boolean"),
    }
    session.register("p", xr.Dataset.from_dataframe(pd.DataFrame(columns)))
    assert [field.type for field in session.schema("p")] == ["Int64", "Int64", "Float64", "Float64", "Boolean"]
    row = session.sql("SELECT i, n IS NULL AS n, f IS NULL AS f, b FROM p WHERE index = 1").df().iloc[0]
    assert row.tolist() == [2**60, True, True, False]
    # Booleans with NA, and integers with NA that float64 does not represent.
    for values, message in (
        (pd.array([True, None], "boolean"), "a pandas array with NA of booleans"),
        (pd.array([2**60, None], "Int64"), "a pandas array with NA of type int64 with integers of 2"),
    ):
        given = xr.Dataset.from_dataframe(pd.DataFrame({"p": values}))
        with pytest.raises(tet_sql.UnsupportedError, match=rf"{message}.*astype\('float64'\) or array.fillna\(value\)"):
            session.register("p", given)
        session.register("p", given.p.astype("float64"))
        assert session.sql("SELECT count(p) AS n FROM p").numpy()["n"][0] == 1
        session.register("p", given.p.fillna(0))


def test_coordinates_with_a_time_zone_are_in_utc(session):
    times = pd.date_range("2024-01-01", periods=2, tz="Asia/Tokyo")
    session.register("a", xr.DataArray([1.0, 2.0], {"t": times}, ("t",), name="v"))
    session.register("b", np.array([1.0, 2.0]), dims=["t"], coords={"t": times})
    for table in ("a", "b"):
        assert session.sql(f"SELECT min(t) AS t FROM {table}").numpy()["t"][0] == np.datetime64("2023-12-31T15")


def test_frames_that_have_metadata(session):
    # That of pandas, and a column of which all values are missing.
    session.register("p", pd.DataFrame({"a": [1]}))
    assert session.sql("SELECT a FROM p UNION SELECT 5 ORDER BY a").df().a.tolist() == [1, 5]
    session.register("n", pl.DataFrame({"a": [1], "n": [None]}))
    assert session.sql("SELECT a FROM n WHERE n IS NULL").df().a.tolist() == [1]
    for nested in ([None], {"a": None}, []):
        session.register("n", pl.DataFrame({"n": [nested]}))
        assert session.sql("SELECT n FROM n").arrow().to_pylist() == [{"n": nested}]
    for series in (pd.Series([1]), pl.Series([1])):
        with pytest.raises(TypeError, match="register series.to_frame()"):
            session.register("s", series)


def test_coordinates(session):
    array = np.random.default_rng(1).random((5, 3))
    coords = {"day": np.arange("2024-01-30", "2024-02-04", dtype="M8[D]"), "site": ["a", "b", "c"]}
    session.register("a", array, dims=["day", "site"], coords=coords)
    means = session.sql("SELECT date_trunc('month', day) AS month, site, avg(value) AS mean FROM a GROUP BY 1, 2")
    found = means.to_xarray(dims=["month", "site"])
    expected = pd.DataFrame(array, index=pd.DatetimeIndex(coords["day"]), columns=coords["site"]).resample("MS").mean()
    np.testing.assert_allclose(found["mean"].values, expected.values)
    assert found.site.values.tolist() == ["a", "b", "c"]
    for wrong in [{"dims": ["x"]}, {"dims": ["x", "x"]}, {"coords": {"z": [1]}}, {"coords": {"dim_0": [1]}}]:
        with pytest.raises(ValueError):
            session.register("b", array, **wrong)
    session.register("c", array.astype("c16").real, dims=["y", "x"])
    with pytest.raises(tet_sql.UnsupportedError, match="value has the type complex128"):
        session.register("d", array.astype("c16"))


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", ">f8", "i1", ">i2", "i4", "i8", "u1", "u8", "M8[D]", "M8[ns]", "m8[s]", "U2", "S2"]
)
def test_masked_cells_are_null(session, dtype):
    cells = np.array([[1, 9], [3, 4]]).astype("U2" if dtype == "S2" else dtype).astype(dtype)
    masked = np.ma.masked_array(cells.copy(), [[False, True], [False, False]])
    session.register("m", masked)
    rows = session.sql("SELECT dim_0, dim_1, value FROM m WHERE value IS NULL").df()
    assert rows[["dim_0", "dim_1"]].values.tolist() == [[0, 1]]
    found = session.sql("SELECT min(value) AS low, max(value) AS high, count(value) AS n FROM m").df().iloc[0]
    session.register("a", cells[:, 0])
    assert found.low == session.sql("SELECT min(value) AS low FROM a").df().low[0] and found.n == 3
    # The array is not changed.
    np.testing.assert_array_equal(masked.data, cells)
    assert masked.mask.sum() == 1


def test_masked_integers(session):
    session.register("m", np.ma.masked_equal([[1, -9999], [3, 4]], -9999))
    found = session.sql("SELECT min(value) AS low, round(avg(value), 3) AS mean, count(value) AS n FROM m").df()
    assert found.values.tolist() == [[1, 2.667, 3]]
    # Without masked cells, arrays keep their types.
    session.register("m", np.ma.masked_equal([2**60, 1], 5))
    assert session.schema("m")["value"].type == "Int64"
    for inexact in (2**53 + 1, -(2**63)):
        with pytest.raises(tet_sql.UnsupportedError, match="m is a masked array of type int64 .* array.filled"):
            session.register("m", np.ma.masked_equal([inexact, 1], 1))
    with pytest.raises(tet_sql.UnsupportedError, match="m is a masked array of booleans"):
        session.register("m", np.ma.masked_array([True, False], [True, False]))
    with pytest.raises(ValueError, match="the coordinates of x have masked values"):
        session.register("m", np.zeros(2), dims=["x"], coords={"x": np.ma.masked_equal([1, 2], 1)})


def test_an_aggregate_runs_in_array_space(session, grid):
    session.register("g", grid)
    query = "SELECT lat, avg(t2m) AS mean, sum(hits) AS hits FROM g WHERE time >= '2024-01-31' GROUP BY lat"
    assert "ArrayAggregateExec" in session.explain(query)
    found = session.sql(query).to_xarray()
    expected = grid.sel(time=slice("2024-01-31", None)).astype("f8")
    np.testing.assert_allclose(found["mean"], expected.t2m.mean(("time", "lon")))
    np.testing.assert_array_equal(found.hits, expected.hits.sum(("time", "lon")))


def test_variables_with_fewer_dimensions_are_repeated(session, grid):
    session.register("g", grid)
    query = "SELECT time, sum(t2m * area) / sum(area) AS mean FROM g WHERE mask AND t2m IS NOT NULL GROUP BY time"
    found = session.sql(query).to_xarray()["mean"]
    weights = grid.area.where(grid.mask, 0)
    np.testing.assert_allclose(found, grid.t2m.astype("f8").weighted(weights).mean(("lat", "lon")))


def test_joins_of_two_objects(session, grid):
    session.register("a", grid.t2m)
    session.register("b", grid.t2m.mean("time"))
    query = "SELECT a.time, avg(a.t2m - b.t2m) AS anomaly FROM a JOIN b USING (lat, lon) GROUP BY a.time"
    found = session.sql(query).to_xarray(dims=["time"]).anomaly.sortby("time")
    expected = (grid.t2m - grid.t2m.mean("time")).mean(("lat", "lon"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_round_trip(grid):
    back = grid.tet.sql("SELECT * FROM this").to_xarray()
    xr.testing.assert_equal(back, grid)
    for name in grid.variables:
        assert back[name].attrs == grid[name].attrs, name
        assert back[name].dtype == grid[name].dtype, name
        assert back[name].dims == grid[name].dims, name
    assert set(back.coords) == set(grid.coords)
    part = grid.tet.sql("SELECT * FROM this WHERE lat < 40 AND lon > 100").to_xarray()
    xr.testing.assert_equal(part, grid.sel(lat=slice(39, None), lon=slice(100, None)))


def test_data_arrays_without_coordinates_and_texts():
    array = xr.DataArray([["a", None], ["b", "a"]], dims=("y", "x"))
    back = array.tet.sql("SELECT * FROM this").to_xarray()
    assert list(back.coords) == []
    xr.testing.assert_equal(back.value, array)
    counts = array.tet.sql("SELECT value, count(*) AS n FROM this GROUP BY value ORDER BY value").df()
    assert counts.n.tolist() == [2, 1, 1]


@pytest.mark.parametrize("form", ["dask", "zarr", "zarr without chunks", "transposed", "strided"])
def test_arrays_that_are_read_chunk_by_chunk(grid, tmp_path, form):
    expected = grid
    if form == "dask":
        obj = grid.chunk(time=10, lat=4)
    elif form.startswith("zarr"):
        grid.chunk(time=12).to_zarr(tmp_path / "g.zarr", zarr_format=2)
        obj = xr.open_zarr(tmp_path / "g.zarr", chunks={} if form == "zarr" else None)
    elif form == "transposed":
        obj = grid.assign(hits=grid.hits.transpose("lon", "time", "lat"))
    else:
        obj = expected = grid.isel(lon=slice(None, None, 2))
    query = "SELECT time, lat, avg(t2m) AS mean, max(hits) AS hits FROM this GROUP BY time, lat"
    found = obj.tet.sql(query).to_xarray()
    np.testing.assert_allclose(found["mean"], expected.t2m.astype("f8").mean("lon"))
    np.testing.assert_array_equal(found.hits, expected.hits.max("lon"))


@pytest.mark.parametrize("form", ["netcdf", "zarr", "dask"])
def test_texts_are_loaded(session, tmp_path, form):
    cftime = pytest.importorskip("cftime")
    given = xr.Dataset(
        {"v": (("x", "y"), np.arange(6.0).reshape(2, 3)), "site": ("x", ["abc", "de"])},
        {"x": [10, 20], "member": "r1", "seen": ("y", [cftime.Datetime360Day(2001, 2, day) for day in (28, 29, 30)])},
    )
    if form == "netcdf":
        pytest.importorskip("netCDF4")
        given.to_netcdf(tmp_path / "g.nc")
        obj = xr.open_dataset(tmp_path / "g.nc")
    elif form == "zarr":
        given.to_zarr(tmp_path / "g.zarr", zarr_format=2)
        obj = xr.open_zarr(tmp_path / "g.zarr")
    else:
        obj = given.chunk(x=1)
    session.register("g", obj)
    assert session.sql("SELECT avg(v) AS mean FROM g").numpy()["mean"][0] == 2.5
    found = session.sql("SELECT * FROM g WHERE site = 'de' AND member = 'r1' AND seen >= '2001-02-30'").df()
    assert found.v.tolist() == [5.0]
    xr.testing.assert_equal(session.sql("SELECT * FROM g").to_xarray(), given)
    obj.close()


def test_texts_that_are_repeated_too_often_are_left_out(session, grid, monkeypatch):
    monkeypatch.setattr("tet_sql._register.REPEATED_TEXTS", 100)
    sites = xr.DataArray(np.full(grid.t2m.shape, "a"), dims=grid.t2m.dims)
    with pytest.warns(UserWarning, match="member has texts that are repeated .* the variable is left out"):
        session.register("g", grid.assign_coords(member="r1", site=sites))
    columns = session.schema("g").names
    assert "site" in columns and "t2m" in columns and "member" not in columns


def test_unsupported_variables_are_left_out(session):
    lists = np.empty(2, dtype=object)
    lists[:] = [np.array([1, 2]), np.array([3])]
    given = xr.Dataset(
        {
            # Has a dimension that no other variable has.
            "wide": (("x", "y"), np.ones((2, 3), dtype="c8")),
            "complex": ("x", [1j, 2j]),
            "mixed": ("x", np.array([1, "a"], dtype=object)),
            "lists": ("x", lists),
            "latin": ("x", [b"\xe9", b"a"]),
            "surrogate": ("x", ["\ud800", "a"]),
            "v": ("x", [1.0, 2.0]),
        },
        {"x": [1, 2], "phase": ("x", [1j, 2j])},
    )
    with pytest.warns(UserWarning) as warned:
        assert given.tet.sql("SELECT avg(v) AS mean FROM this").numpy()["mean"][0] == 1.5
    messages = [str(warning.message) for warning in warned]
    assert [message.split()[0] for message in messages] == [
        "wide",
        "complex",
        "mixed",
        "lists",
        "latin",
        "surrogate",
        "phase",
    ]
    assert all(message.endswith("; the variable is left out") for message in messages)
    with pytest.warns(UserWarning):
        session.register("g", given)
    assert session.schema("g").names == ["x", "v"]
    # Nothing would be left.
    with pytest.raises(tet_sql.UnsupportedError, match="complex has the type complex128, expected"):
        session.register("g", given[["complex", "mixed"]])
    with pytest.raises(tet_sql.UnsupportedError, match="mixed has the type object and a value of type int, expected"):
        session.register("g", given.mixed)
    with pytest.raises(tet_sql.UnsupportedError, match="x has the type complex128"):
        session.register("g", given[["v"]].drop_vars("phase").assign_coords(x=[1j, 2j]))


def test_only_selected_chunks_are_read(session):
    import dask.array

    read = []

    def record(block):
        read.append(block.shape)
        return block

    blocks = dask.array.zeros((100, 10), chunks=(10, 10)).map_blocks(record, dtype="f8", meta=np.empty((0, 0)))
    session.register("lazy", xr.DataArray(blocks, dims=("y", "x"), name="value"))
    assert read == []
    session.sql("SELECT avg(value) AS mean FROM lazy WHERE y = 35").arrow()
    assert read == [(10, 10)]


def test_an_exception_while_reading_is_raised(session):
    import dask.array

    def fail(block):
        raise OSError("the disk is gone")

    failing = dask.array.zeros((4, 4), chunks=2).map_blocks(fail, dtype="f8", meta=np.empty((0, 0)))
    session.register("failing", xr.DataArray(failing, dims=("y", "x"), name="value"))
    with pytest.raises(OSError, match="the disk is gone"):
        session.sql("SELECT sum(value) FROM failing").arrow()


def test_variables_that_share_no_table(session):
    with pytest.raises(ValueError, match="register the variables as two tables"):
        session.register("g", xr.Dataset({"a": ("x", [1, 2]), "b": ("y", [1, 2, 3])}))


def test_memory_is_not_copied(session):
    array = np.ones((1024, 512, 256), dtype="f4")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    session.register("big", xr.DataArray(array, dims=("z", "y", "x")))
    assert session.sql("SELECT sum(value) AS s FROM big").numpy()["s"][0] == array.size
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024, f"{grown} KiB more for an array of {array.nbytes >> 10} KiB"
    array[0, 0, 0] = 2
    assert session.sql("SELECT sum(value) AS s FROM big").numpy()["s"][0] == array.size + 1


def test_an_array_lives_as_long_as_its_table(session):
    session.register("a", np.full(1000, 7.0))
    view = session.sql("SELECT value FROM a").numpy()["value"]
    session.deregister("a")
    assert view.sum() == 7000
