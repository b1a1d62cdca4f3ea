"""Queries of the package `datafusion` over the tables of a session."""

from __future__ import annotations

import gc
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import tet_sql

datafusion = pytest.importorskip("datafusion", "55", reason="needs datafusion 55 from PyPI")
if datafusion.__version__.split(".")[0] != "55":
    pytest.skip(f"needs datafusion 55, found {datafusion.__version__}", allow_module_level=True)


@pytest.fixture
def session(weather_path) -> tet_sql.Session:
    return tet_sql.connect(weather_path, threads=2)


@pytest.fixture
def context(session) -> datafusion.SessionContext:
    """A context that plans in the session, with a table of its files."""
    context = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(session))
    context.register_table("temperature", session.table("temperature"))
    return context


@pytest.fixture
def plain(session) -> datafusion.SessionContext:
    """A context with the same table, but without the extension."""
    context = datafusion.SessionContext()
    context.register_table("temperature", session.table("temperature"))
    return context


def explained(context: datafusion.SessionContext, query: str) -> str:
    plans = context.sql(f"EXPLAIN {query}").to_pydict()
    return plans["plan"][plans["plan_type"].index("physical_plan")]


def chunks(analyzed: str) -> dict[str, int]:
    """Returns the numbers of chunks in the plan that `EXPLAIN ANALYZE` prints, without those that are 0."""
    return {name: int(count) for name, count in re.findall(r"\bchunks_(\w+)=(\d+)", analyzed) if count != "0"}


def rows(batches: object) -> list[dict[str, object]]:
    return pa.table(batches).to_pylist()


QUERIES = [
    "SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat ORDER BY lat",
    "SELECT date_trunc('day', time) AS day, max(value) AS warmest FROM temperature GROUP BY day ORDER BY day",
    "SELECT time, lat, lon, value FROM temperature WHERE lat > 20 AND lon BETWEEN 0 AND 90 ORDER BY time, lat, lon",
    "SELECT count(*) AS n, count(value) AS known, sum(value) AS total FROM temperature WHERE value > 3",
    "SELECT lat, value FROM temperature WHERE time = (SELECT max(time) FROM temperature) ORDER BY lat, lon",
    "SELECT a.lat, avg(a.value - b.value) AS d FROM temperature a JOIN temperature b USING (time, lat, lon) "
    "GROUP BY a.lat ORDER BY a.lat",
    "SELECT lat, lon, value, row_number() OVER (PARTITION BY lat ORDER BY lon, time) AS n FROM temperature "
    "ORDER BY lat, lon, time LIMIT 20",
    "SELECT lat FROM temperature WHERE lat IN (SELECT lat FROM temperature WHERE value > 8) GROUP BY lat ORDER BY lat",
    "WITH m AS (SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat) SELECT max(mean) AS m FROM m",
    "SELECT round(sqrt(abs(value)), 3) AS r FROM temperature WHERE time = '2024-01-01T05:00:00' ORDER BY lat, lon LIMIT 9",
]


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_the_session(session, context, plain, query):
    expected = rows(session.sql(query))
    assert len(expected) > 0
    assert rows(context.sql(query)) == expected
    assert rows(plain.sql(query)) == expected


def test_aggregates_run_in_array_space(context, plain):
    query = "SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat"
    assert "ArrayAggregateExec" in explained(context, query)
    analyzed = context.sql(f"EXPLAIN ANALYZE {query}").to_pydict()["plan"][0]
    assert "ArrayAggregateExec" in analyzed and "chunks_read" in analyzed
    # Without the extension, only the scan is an operator of tet_sql.
    found = explained(plain, query)
    assert "ArrayAggregateExec" not in found and "TetSqlExec" in found and "AggregateExec" in found


def test_joins_of_arrays_zip_chunks(context, plain):
    query = "SELECT a.lat, a.value - b.value AS d FROM temperature a JOIN temperature b USING (time, lat, lon)"
    assert "HashJoinExec" in explained(plain, query)
    assert "HashJoinExec" not in explained(context, query)


def test_filters_of_a_plain_context_prune_chunks(session, plain):
    query = "SELECT value FROM temperature WHERE lat > 20 AND time < '2024-01-01T06:00:00'"
    # The filter is answered exactly by the scan, so that DataFusion has none of its own.
    assert "FilterExec" not in explained(plain, query)
    assert len(rows(plain.sql(query))) == len(rows(session.sql(query)))
    found = chunks(plain.sql(f"EXPLAIN ANALYZE {query}").to_pydict()["plan"][0])
    assert found == chunks(session.sql(query).explain(analyze=True))
    assert found == {"total": 84, "pruned_by_slice": 76, "read": 8}


def test_queries_are_tables(context, plain, session):
    daily = session.sql("SELECT date_trunc('day', time) AS day, lat, avg(value) AS mean FROM temperature GROUP BY 1, 2")
    expected = session.sql("SELECT lat, count(*) AS n FROM (SELECT DISTINCT date_trunc('day', time), lat FROM temperature) WHERE lat > 0 GROUP BY lat ORDER BY lat")
    for one in (context, plain):
        one.register_table("daily", daily)
        found = one.sql("SELECT lat, count(mean) AS n FROM daily WHERE lat > 0 GROUP BY lat ORDER BY lat")
        assert rows(found) == rows(expected)
    assert "ArrayAggregateExec" in explained(context, "SELECT lat, mean FROM daily WHERE lat > 0")


def test_objects_in_memory(session, context, grid):
    session.register("grid", grid)
    context.register_table("grid", session.table("grid"))
    query = "SELECT lat, avg(t2m) AS t2m FROM grid WHERE mask GROUP BY lat ORDER BY lat"
    assert rows(context.sql(query)) == rows(session.sql(query))
    assert "ArrayAggregateExec" in explained(context, query)
    assert "HashAggregate" not in explained(context, query)


def test_tables_of_both_sides_join(context, tmp_path):
    names = pd.DataFrame({"lat": [5, 15, 25], "name": ["a", "b", "c"]})
    context.from_pandas(names, name="names")
    pa.parquet.write_table(pa.table({"lat": [5, 15], "height": [1.5, 2.5]}), tmp_path / "heights.parquet")
    context.register_parquet("heights", tmp_path / "heights.parquet")
    context.register_view("known", context.sql("SELECT lat, name FROM names WHERE name <> 'c'"))
    found = context.sql(
        "SELECT name, height, count(*) AS n FROM temperature JOIN known USING (lat) JOIN heights USING (lat) "
        "GROUP BY name, height ORDER BY name"
    )
    assert rows(found) == [{"name": "a", "height": 1.5, "n": 960}, {"name": "b", "height": 2.5, "n": 960}]


def test_queries_without_arrays(context):
    context.from_pydict({"a": [3, 1, 2]}, name="numbers")
    assert context.sql("SELECT a FROM numbers ORDER BY a").to_pydict() == {"a": [1, 2, 3]}
    context.sql("CREATE TABLE squares AS SELECT a * a AS square FROM numbers")
    context.sql("INSERT INTO squares VALUES (100)").collect()
    assert context.sql("SELECT sum(square) AS total FROM squares").to_pydict() == {"total": [114]}
    assert context.sql("SELECT 1 AS one UNION ALL SELECT 2 ORDER BY one").to_pydict() == {"one": [1, 2]}


def test_what_version_55_does_not_pass_on(context, tmp_path):
    # A context with a planner of another library cannot write files.
    with pytest.raises(Exception, match="FFI does not support decode_file_format"):
        context.sql(f"COPY temperature TO '{tmp_path / 'a.parquet'}'").collect()


def test_frames_of_expressions(context, session):
    from datafusion import col, functions

    frame = context.table("temperature").filter(col("lat") > datafusion.lit(0))
    frame = frame.aggregate([col("lat")], [functions.avg(col("value")).alias("mean")]).sort(col("lat"))
    assert rows(frame) == rows(session.sql("SELECT lat, avg(value) AS mean FROM temperature WHERE lat > 0 GROUP BY lat ORDER BY lat"))


def test_functions_in_python_are_called(context, session):
    # With the name of a function of DataFusion, which must not be called instead.
    negated = datafusion.udf(lambda values: pc.negate(values), [pa.float32()], pa.float32(), "immutable", "abs")
    context.register_udf(negated)
    found = context.sql("SELECT abs(value) AS v FROM temperature WHERE value > 0 ORDER BY v LIMIT 3")
    assert rows(found) == rows(session.sql("SELECT -value AS v FROM temperature WHERE value > 0 ORDER BY v LIMIT 3"))


@pytest.fixture
def small() -> tuple[datafusion.SessionContext, tet_sql.Session]:
    """A context with small tables and the session that it plans in."""
    session = tet_sql.connect()
    session.register("g", pa.table({"a": [1.0, 1.0, None, 2.0, 2.0]}))
    session.register("h", pa.table({"w": [1.0, None, 5.0]}))
    session.register("grid", np.arange(6.0).reshape(2, 3), dims=["y", "x"])
    context = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(session))
    for name in ["g", "h", "grid"]:
        context.register_table(name, session.table(name))
    return context, session


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("EXISTS (SELECT 1 FROM h WHERE h.w IS NOT DISTINCT FROM g.a)", [1.0, 1.0, None]),
        ("NOT EXISTS (SELECT 1 FROM h WHERE h.w IS NOT DISTINCT FROM g.a)", [2.0, 2.0]),
    ],
)
def test_subqueries_that_match_null_are_no_set_operations(small, query, expected):
    context, _ = small
    found = context.sql(f"SELECT a FROM g WHERE {query} ORDER BY a").to_pydict()
    assert found == {"a": expected}


def test_set_operations_of_the_session_count_equal_rows(small):
    context, session = small
    for name, query in [("common", "INTERSECT ALL"), ("rest", "EXCEPT ALL")]:
        context.register_table(name, session.sql(f"SELECT a FROM g {query} SELECT w FROM h"))
    assert context.sql("SELECT a FROM common ORDER BY a").to_pydict() == {"a": [1.0, None]}
    assert context.sql("SELECT a FROM rest ORDER BY a").to_pydict() == {"a": [1.0, 2.0, 2.0]}
    # Those of the context are DataFusion's. Distinct ones are right.
    found = context.sql("SELECT a FROM g INTERSECT SELECT w FROM h ORDER BY a")
    assert found.to_pydict() == {"a": [1.0, None]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT y FROM grid UNION SELECT y FROM grid ORDER BY y", [0, 1]),
        ("SELECT y FROM grid UNION SELECT x FROM grid ORDER BY y", [0, 1, 2]),
        ("SELECT y FROM grid UNION SELECT value FROM grid ORDER BY y", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("SELECT sum(y) FROM (SELECT y FROM grid UNION ALL SELECT x FROM grid)", [9]),
        ("SELECT (SELECT max(y) FROM (SELECT y FROM grid UNION ALL SELECT x FROM grid))", [2]),
    ],
)
def test_unions_of_dimensions(small, query, expected):
    context, _ = small
    assert list(context.sql(query).to_pydict().values()) == [expected]


def test_results_of_unions_have_the_attributes_of_the_session(small):
    context, session = small
    query = "SELECT y FROM grid UNION SELECT y FROM grid"
    expected = pa.table(session.sql(query)).schema.field("y").metadata
    assert pa.table(context.sql(query)).schema.field("y").metadata == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT max(value) FROM grid WHERE false", None),
        ("SELECT max(value) FROM grid WHERE y IS NULL", None),
        ("SELECT max(value) FROM (SELECT * FROM grid LIMIT 0)", None),
        ("SELECT max(value) FROM grid JOIN g ON false", None),
        ("SELECT sum(DISTINCT y) FROM grid WHERE false", None),
        ("SELECT count(w) FROM g LEFT JOIN (SELECT w FROM h WHERE false) ON a = w", 0),
        ("SELECT max(value) FROM (SELECT * FROM grid WHERE false UNION ALL SELECT * FROM grid)", 5.0),
    ],
)
def test_aggregates_of_no_rows(small, query, expected):
    context, _ = small
    assert list(context.sql(query).to_pydict().values()) == [[expected]]


def test_functions_of_the_session(context, plain, session):
    with pytest.raises(Exception, match="Invalid function 'season'"):
        context.sql("SELECT season(time) FROM temperature")
    for one in (context, plain):
        tet_sql.datafusion_extension(session).register_functions(one)
        for query in [
            "SELECT season(time) AS season, arg_max(lat, value) AS lat, round(norm_l2(value), 6) AS norm, "
            "quantile_cont(value, 0.25) AS q FROM temperature GROUP BY season ORDER BY season",
            "SELECT lat, round(haversine(lat, lon, 0, 0)) AS d, year(time) AS y, dayofyear(time) AS n FROM temperature "
            "WHERE month(time) = 1 ORDER BY lat, lon, time LIMIT 5",
            "SELECT season(DATE '2024-07-01') AS season",
        ]:
            assert rows(one.sql(query)) == rows(session.sql(query)), query
    # Functions keep their meaning for the session.
    assert "ArrayAggregateExec" in explained(context, "SELECT season(time) AS s, avg(value) FROM temperature GROUP BY s")


def test_external_tables(session, grid, tmp_path, weather_path):
    extension = tet_sql.datafusion_extension(session)
    assert {"TET", "ZARR", "TILEDB", "TATAMI"} <= set(extension.formats)
    assert not {"CSV", "PARQUET"} & set(extension.formats)
    context = datafusion.SessionContext().with_extensions(extension)
    for name in extension.formats:
        context.register_table_factory(name, extension)
    context.sql(f"CREATE EXTERNAL TABLE t STORED AS TET LOCATION '{weather_path}' OPTIONS (dataset 'temperature')")
    query = "SELECT lat, avg(value) AS mean FROM t GROUP BY lat ORDER BY lat"
    assert rows(context.sql(query)) == rows(session.sql(query.replace("FROM t ", "FROM temperature ")))
    assert "ArrayAggregateExec" in explained(context, query)
    grid.drop_vars("height").to_zarr(tmp_path / "grid.zarr", zarr_format=3, consolidated=False)
    context.sql(f"CREATE EXTERNAL TABLE z STORED AS ZARR LOCATION '{tmp_path / 'grid.zarr'}' OPTIONS (dataset 't2m')")
    assert context.sql("SELECT count(value) AS n FROM z").to_pydict() == {"n": [int(grid.t2m.count())]}
    with pytest.raises(Exception, match="nowhere.tet: no such file or directory"):
        context.sql("CREATE EXTERNAL TABLE n STORED AS TET LOCATION 'nowhere.tet'")


def test_errors_have_the_message_of_the_session(context, session):
    with pytest.raises(Exception, match="Divide by zero"):
        context.sql("SELECT 1 / (lat - lat) AS e FROM temperature").collect()
    session.register("gone", np.ones(3))
    context.register_table("gone", session.table("gone"))
    session.deregister("gone")
    assert context.sql("SELECT sum(value) AS s FROM gone").to_pydict() == {"s": [3.0]}


def test_the_memory_limit_is_that_of_the_session(weather_path):
    small = tet_sql.connect(weather_path, memory_limit="1M")
    context = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(small))
    context.register_table("series", small.sql("SELECT value FROM generate_series(1, 10000000)"))
    with pytest.raises(Exception, match="[Mm]emory"):
        context.sql("SELECT array_agg(value) FROM series").collect()


def test_streams_and_partitions(context):
    frame = context.sql("SELECT time, lat, lon, value FROM temperature")
    assert sum(batch.to_pyarrow().num_rows for batch in frame.execute_stream()) == 9600
    partitions = frame.execute_stream_partitioned()
    assert sum(batch.to_pyarrow().num_rows for stream in partitions for batch in stream) == 9600
    assert frame.count() == 9600


def test_the_version_to_install_is_named(monkeypatch, session):
    extension = tet_sql.datafusion_extension(session)
    monkeypatch.setitem(sys.modules, "datafusion", None)
    with pytest.raises(ImportError, match="pip install 'datafusion>=55,<56'"):
        extension.__datafusion_session_components__(None)


def test_extensions_are_installed_once(context, session):
    with pytest.raises(ValueError, match="tet_sql"):
        context.with_extensions(tet_sql.datafusion_extension(session))


def test_contexts_and_sessions_end(weather_path):
    for _ in range(20):
        session = tet_sql.connect(weather_path)
        context = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(session))
        context.register_table("temperature", session.table("temperature"))
        del session
        gc.collect()
        assert context.sql("SELECT count(*) AS n FROM temperature").to_pydict() == {"n": [9600]}
