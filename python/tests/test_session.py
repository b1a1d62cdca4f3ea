"""Sessions, statements and results."""

from __future__ import annotations

import socket
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tet_sql


def test_files_open_as_by_the_command(weather_path, tmp_path):
    csv = tmp_path / "stations.csv"
    csv.write_text("code,height\nKSEA,130\nEGLL,25\n")
    session = tet_sql.connect(f"w={weather_path}", csv)
    assert {"temperature", "stations"} <= set(session.tables())
    assert session.sql("SELECT count(*) AS n FROM w.temperature").numpy()["n"][0] == 9600
    assert session.sql("SELECT height FROM stations WHERE code = 'EGLL'").numpy()["height"][0] == 25


def test_zarr_and_npz(grid, tmp_path):
    path = tmp_path / "grid.zarr"
    grid.drop_vars("height").to_zarr(path, zarr_format=3, consolidated=False)
    np.savez(tmp_path / "a.npz", numbers=np.arange(6).reshape(2, 3))
    session = tet_sql.connect(path, tmp_path / "a.npz")
    means = session.sql("SELECT lat, avg(value) AS mean FROM t2m GROUP BY lat").to_xarray()
    # Exact in both: the sum of float32 cells is computed in float64.
    np.testing.assert_allclose(means["mean"], grid.t2m.astype("f8").mean(("time", "lon")).values)
    assert session.sql("SELECT sum(value) AS total FROM a.numbers").numpy()["total"][0] == 15


def test_options_and_settings(weather_path):
    session = tet_sql.connect(weather_path, text_labels=True, threads=3, memory_limit="1G", settings={"tet.nan_as_null": False})
    assert session.schema("temperature")["lat"].type == "Utf8"
    settings = session.sql("SELECT name, value FROM information_schema.df_settings").df().set_index("name").value
    assert settings["datafusion.execution.target_partitions"] == "3"
    assert settings["tet.nan_as_null"] == "false"
    with pytest.raises(tet_sql.QueryError, match="unknown option colour"):
        tet_sql.connect(colour="red")
    with pytest.raises(tet_sql.QueryError, match="tet.colour"):
        tet_sql.connect(settings={"tet.colour": "red"})


def test_a_query_is_planned_but_not_run(weather):
    relation = weather.sql("SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat")
    assert relation.columns == ["lat", "mean"]
    assert relation.metrics() == []
    assert "ArrayAggregateExec" in relation.explain()
    relation.arrow()
    operators = relation.metrics()
    assert any("chunks_read" in operator["metrics"] for operator in operators), operators
    assert "ArrayAggregateExec" in weather.explain("SELECT avg(value) FROM temperature", analyze=True)


def test_other_statements_run_at_once(weather, tmp_path):
    weather.sql("CREATE VIEW warm AS SELECT * FROM temperature WHERE value > 20")
    weather.sql("SET tet.zone_maps = false")
    assert weather.sql("SHOW tet.zone_maps").df().value[0] == "false"
    path = tmp_path / "warm.parquet"
    copied = weather.sql(f"COPY (SELECT * FROM warm) TO '{path}'").df()
    assert copied["count"][0] == len(pd.read_parquet(path))


def test_parameters(weather):
    query = "SELECT count(*) AS n FROM temperature WHERE lat > {} AND time < {}"
    expected = weather.sql(query.format("0", "TIMESTAMP '2024-01-02T00:00:00'")).numpy()["n"][0]
    end = pd.Timestamp("2024-01-02")
    assert weather.sql(query.format("$1", "$2"), [0, end]).numpy()["n"][0] == expected
    assert weather.sql(query.format("$south", "$end"), {"south": np.int32(0), "end": end.to_datetime64()}).numpy()["n"][0] == expected
    assert weather.sql(query.format("?", "?"), [0, end.to_pydatetime()]).numpy()["n"][0] == expected
    with pytest.raises(TypeError, match="a parameter is of type set"):
        weather.sql("SELECT $1", [{1}])
    with pytest.raises(tet_sql.Error):
        weather.sql("SELECT $1 AS one", []).arrow()
    for unused in ([1, 2], {"1": 1, "south": 2}):
        with pytest.raises(tet_sql.Error, match="has a value, but the statement does not use it"):
            weather.sql("SELECT $1 AS one", unused)


def test_durations_as_parameters(weather):
    query = "SELECT count(*) AS n FROM temperature WHERE time - TIMESTAMP '2024-01-01' < $1"
    expected = weather.sql(query.replace("$1", "INTERVAL '6 hours'")).numpy()["n"][0]
    six = pd.Timedelta("6h")
    for value in (six, six.to_pytimedelta(), np.timedelta64(6, "h"), np.timedelta64(6 * 3600 * 10**9, "ns")):
        assert weather.sql(query, [value]).numpy()["n"][0] == expected
    nothing = weather.sql("SELECT $1 AS d", [np.timedelta64("NaT")]).df()
    assert nothing["d"].isna().all()


def test_conversions_agree(weather):
    relation = weather.sql("SELECT time, lat, lon, value FROM temperature ORDER BY time, lat, lon")
    table = relation.arrow()
    assert isinstance(table, pa.Table) and table.num_rows == 9600
    frame = relation.df()
    pd.testing.assert_frame_equal(frame, table.to_pandas(), check_dtype=False)
    polars = relation.pl()
    assert polars["value"].null_count() == frame.value.isna().sum() == 2
    assert np.array_equal(relation.numpy()["value"], frame.value.values, equal_nan=True)
    assert pa.schema(relation) == table.schema
    streamed = pa.RecordBatchReader.from_stream(relation).read_all()
    assert streamed.sort_by([("time", "ascending"), ("lat", "ascending"), ("lon", "ascending")]).equals(table.combine_chunks())
    assert pl.DataFrame(relation).shape == (9600, 4)


def test_attributes_are_field_metadata(weather):
    schema = weather.schema("temperature")
    assert [field.name for field in schema if field.is_dimension] == ["time", "lat", "lon"]
    assert schema["value"].attributes["units"]
    assert pa.schema(schema).field("value").metadata[b"units"]


def test_types_of_columns():
    session = tet_sql.connect()
    row = session.sql(
        "SELECT 1 AS i, CAST(NULL AS INT) AS ni, 1.5 AS f, true AS b, CAST(NULL AS BOOLEAN) AS nb, 'x' AS t, "
        "CAST(NULL AS VARCHAR) AS nt, DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29T12:00:00' AS ts, "
        "CAST(NULL AS TIMESTAMP) AS nts, [1, 2] AS l, CAST(2.25 AS DECIMAL(5, 2)) AS dec"
    ).numpy()
    assert row["i"].dtype == np.int64 and np.isnan(row["ni"][0]) and row["f"][0] == 1.5
    assert row["b"].dtype == bool and row["b"][0] and row["nb"][0] is None
    assert row["t"][0] == "x" and row["nt"][0] is None
    assert row["d"][0] == np.datetime64("2024-02-29") and row["ts"][0] == np.datetime64("2024-02-29T12")
    assert np.isnat(row["nts"][0]) and row["l"][0] == [1, 2] and row["dec"][0] == 2.25
    decimals = session.sql("SELECT CAST(2.25 AS DECIMAL(5, 2)) AS d, CAST(NULL AS DECIMAL(5, 2)) AS n").df()
    assert decimals.d[0] == Decimal("2.25") and decimals.n[0] is None


def test_time_zones():
    query = """
        SELECT time AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo' AS tokyo, time AT TIME ZONE '-03:30' AS st_johns,
               arrow_cast(time, 'Timestamp(Second, Some("+0530"))') AS delhi, arrow_cast(time, 'Timestamp(Second, Some("+02"))') AS cairo
        FROM (VALUES (TIMESTAMP '2024-01-01'), (NULL)) AS t(time)
    """
    relation = tet_sql.connect().sql(query)
    frame = relation.df()
    assert frame.tokyo[0].isoformat() == "2024-01-01T09:00:00+09:00"
    assert frame.st_johns[0].isoformat() == "2024-01-01T00:00:00-03:30"
    for name, dtype in frame.dtypes.items():
        assert dtype.tz is not None and frame[name].isna().tolist() == [False, True]
        utc = relation.numpy()[name]
        assert frame[name][0] == pd.Timestamp(utc[0], tz="UTC") and np.isnat(utc[1])
    offsets = {name: frame[name][0].utcoffset().total_seconds() / 3600 for name in frame}
    assert offsets == {"tokyo": 9, "st_johns": -3.5, "delhi": 5.5, "cairo": 2}


def test_empty_results(weather):
    empty = weather.sql("SELECT * FROM temperature WHERE lat > 1000")
    assert len(empty.df()) == 0 and empty.arrow().num_rows == 0 and empty.pl().height == 0
    assert empty.to_xarray().sizes == {"time": 0, "lat": 0, "lon": 0}


@pytest.mark.parametrize("name", ["a.tet", "a.zarr", "a.parquet", "a.csv", "a.arrow", "a.json"])
def test_write(weather, tmp_path, name):
    path = tmp_path / name
    relation = weather.sql("SELECT lat, lon, avg(value) AS mean FROM temperature GROUP BY lat, lon")
    rows = relation.write(path)
    assert rows == len(relation.df())
    read = weather.sql(f"SELECT count(*) AS n FROM '{path}'")
    assert read.numpy()["n"][0] == rows


def test_write_options_and_refusals(weather, tmp_path):
    frame = weather.sql("SELECT CAST(value AS INT) AS i, value * 2 AS twice FROM generate_series(1, 4)")
    frame.write(tmp_path / "b.tet", dims=["i"])
    assert tet_sql.connect(tmp_path / "b.tet").schema("twice")["i"].is_dimension
    with pytest.raises(tet_sql.QueryError, match="expected a file name that ends in .tet"):
        frame.write(tmp_path / "b.xlsx")


def test_texts_and_charts(weather, tmp_path, capsys):
    relation = weather.sql("SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat ORDER BY lat")
    relation.show(2)
    assert capsys.readouterr().out.count("\n") == 6
    assert "lat   Int64    dimension\nmean  Float64             degC" in repr(relation)
    assert relation._repr_html_().count("<tr>") == 11
    assert "<script>" not in weather.sql("SELECT '<script>' AS x")._repr_html_()
    chart = relation.plot()
    assert len(str(chart).splitlines()) > 5 and chart._repr_svg_().lstrip().startswith("<")
    chart.save(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(tet_sql.ExecutionError, match="expected one of lines"):
        relation.plot("pie")


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("SELEC 1", tet_sql.QueryError, "syntax error"),
        ("SELECT nothing FROM temperature", tet_sql.QueryError, "nothing"),
        ("SELECT * FROM nowhere", tet_sql.QueryError, "nowhere"),
        ("SELECT CAST('x' AS INT)", tet_sql.ExecutionError, "x"),
        ("SELECT * FROM 'missing.tet'", tet_sql.QueryError, "missing.tet: no such file"),
    ],
)
def test_exceptions_by_kind(weather, query, kind, message):
    with pytest.raises(kind, match=message):
        weather.sql(query).arrow()
    assert issubclass(kind, tet_sql.Error)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(tet_sql.FileError, match="nowhere.tet: no such file or directory"):
        tet_sql.connect("nowhere.tet")
    broken = tmp_path / "broken.tet"
    broken.write_bytes(b"TETR")
    with pytest.raises(tet_sql.FileError, match="file length is 4 bytes"):
        tet_sql.connect(broken)


def test_memory_limit():
    session = tet_sql.connect(memory_limit="1M")
    with pytest.raises(tet_sql.OutOfMemoryError):
        session.sql("SELECT array_agg(value) FROM generate_series(1, 10000000)").arrow()


def test_workers_of_a_cluster(weather_path):
    # A port on which nothing listens.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        worker = f"http://127.0.0.1:{free.getsockname()[1]}"
    session = tet_sql.connect(
        weather_path, cluster=[worker], cluster_token="s3cret", settings={"tet.cluster_task_size": 1}
    )
    means = session.sql("SELECT lat, avg(value) FROM temperature GROUP BY lat")
    assert "ClusterExec: workers=1" in means.explain()
    with pytest.raises(tet_sql.ExecutionError, match=f"lost the worker {worker}"):
        means.arrow()
    with pytest.raises(tet_sql.Error, match="is not a URL like http://host:50052"):
        tet_sql.connect(weather_path, cluster=["localhost"])
    with pytest.raises(FileNotFoundError):
        tet_sql.connect(weather_path, cluster=[worker], cluster_ca="nowhere.pem")


def test_nothing_is_imported_until_needed():
    code = "import sys, tet_sql; tet_sql.connect().sql('SELECT 1').show(); print(sorted({'numpy','pandas','pyarrow','polars','xarray'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_a_missing_library_is_named(weather, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        weather.sql("SELECT 1").pl()


def test_files_in_statements_give_warnings(weather_path):
    cut = weather_path.parent / "netcdf" / "cut.nc"
    session = tet_sql.connect()
    with pytest.warns(UserWarning, match="the missing cells cannot be read"):
        session.sql(f"SELECT count(*) FROM '{cut}#t2m'")


def test_prepared_statements_are_queries():
    session = tet_sql.connect()
    session.register("g", np.arange(6.0).reshape(2, 3), dims=["y", "x"])
    session.sql("PREPARE some AS SELECT y, sum(value) AS total FROM g WHERE x > $1 GROUP BY y ORDER BY y")
    assert session.sql("EXECUTE some(0.5)").df().to_dict("list") == {"y": [0, 1], "total": [3.0, 9.0]}
    session.sql("PREPARE both AS SELECT value AS a FROM range(1) UNION ALL SELECT x FROM (VALUES (2.5)) AS t(x)")
    assert sorted(session.sql("EXECUTE both").df()["a"]) == [0.0, 2.5]
