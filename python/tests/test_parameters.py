"""Parameters of statements."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tet_sql

NEW_YEAR = np.datetime64("2024-01-01")


@pytest.fixture
def session() -> tet_sql.Session:
    session = tet_sql.connect()
    times = pd.date_range("2024-01-01", periods=3)
    session.register("d", xr.Dataset({"v": ("t", np.array([1, 2, 3], "f4"))}, {"t": times}))
    return session


def given(session, value):
    """Returns the type and the value that a parameter has in SQL."""
    found = session.sql("SELECT arrow_typeof($1) AS type, $1 AS value", [value]).numpy()
    return found["type"][0], found["value"][0]


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        (pd.Timestamp("2024-01-01T00:00:00.000000001"), "Timestamp(ns)", NEW_YEAR + np.timedelta64(1, "ns")),
        (pd.Timestamp("2024-01-01", tz="Asia/Tokyo"), "Timestamp(\u00b5s)", NEW_YEAR - np.timedelta64(9, "h")),
        (pd.Timedelta(1, "ns"), "Duration(ns)", np.timedelta64(1, "ns")),
        (np.timedelta64(1001, "ns"), "Duration(ns)", np.timedelta64(1001, "ns")),
        (np.timedelta64(2000, "ps"), "Duration(ns)", np.timedelta64(2, "ns")),
        (np.timedelta64(2, "W"), "Duration(\u00b5s)", np.timedelta64(14, "D")),
        (np.datetime64("2024"), "Timestamp(\u00b5s)", NEW_YEAR),
        (np.datetime64("2024-02", "M"), "Timestamp(\u00b5s)", np.datetime64("2024-02-01")),
        (np.datetime64("2024-01-01T05", "h"), "Timestamp(\u00b5s)", np.datetime64("2024-01-01T05")),
        (np.datetime64("0001-01-01"), "Timestamp(\u00b5s)", np.datetime64("0001-01-01")),
        (np.array("2024-01-01", "M8[ns]"), "Timestamp(ns)", NEW_YEAR),
        (xr.DataArray(np.array(["2024-01-01"], "M8[ns]"))[0], "Timestamp(ns)", NEW_YEAR),
        (datetime.date(2024, 1, 1), "Date32", NEW_YEAR),
        (np.uint64(2**64 - 1), "UInt64", 2**64 - 1),
        (2**63, "UInt64", 2**63),
        (-(2**63), "Int64", -(2**63)),
        (np.float32(0.1), "Float64", 0.1),
        (np.longdouble(0.5), "Float64", 0.5),
        (np.bool_(True), "Boolean", True),
        (np.ma.array([1], mask=[False]), "Int64", 1),
    ],
)
def test_values_are_exact(session, value, type, expected):
    assert given(session, value) == (type, expected)


@pytest.mark.parametrize(
    "value",
    [
        None,
        pd.NaT,
        pd.NA,
        np.datetime64("NaT"),
        np.timedelta64("NaT", "ns"),
        np.ma.masked,
        np.ma.array([1], mask=[True]),
    ],
)
def test_missing_values_are_null(session, value):
    assert session.sql("SELECT $1 IS NULL AS missing", [value]).numpy()["missing"][0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.timedelta64(10**14, "s"), OverflowError, "outside of the range of 64-bit microseconds"),
        (datetime.timedelta.max, OverflowError, "outside of the range"),
        (np.datetime64(10**18, "Y"), OverflowError, "outside of the range"),
        (2**64, OverflowError, "expected an integer from"),
        (-(2**63) - 1, OverflowError, "expected an integer from"),
        (np.timedelta64(1500, "ps"), ValueError, "expected whole nanoseconds"),
        (np.timedelta64(1, "Y"), TypeError, "expected a duration in weeks"),
        (1j, TypeError, "a parameter is of type complex"),
        (np.complex64(1), TypeError, "a parameter is of type complex"),
        (datetime.time(1), TypeError, "a parameter is of type time"),
    ],
)
def test_values_that_sql_does_not_have(session, value, error, message):
    with pytest.raises(error, match=message):
        session.sql("SELECT $1", [value])


def test_dates_of_other_calendars_are_text(session):
    cftime = pytest.importorskip("cftime")
    dates = [cftime.Datetime360Day(2001, 2, day) for day in (29, 30)]
    session.register("c", xr.DataArray([1.0, 2.0], {"t": dates}, ("t",), name="v"))
    assert session.sql("SELECT v FROM c WHERE t = $1", [dates[1]]).numpy()["v"].tolist() == [2.0]


def test_coordinates_of_float32_are_found(session):
    along = np.arange(8, dtype="f4") * np.float32(45.3)
    session.register("f", xr.DataArray(np.arange(8), {"x": along}, ("x",), name="v"))
    assert session.sql("SELECT v FROM f WHERE x = $1", [along[3]]).numpy()["v"].tolist() == [3]


@pytest.mark.parametrize("name", ["$1", "$step", "?"])
def test_types_follow_from_parameters(session, name):
    query = f"SELECT t + {name} AS t FROM d ORDER BY t LIMIT 1"
    for hour in (datetime.timedelta(hours=1), np.timedelta64(1, "h")):
        params = {"step": hour} if name == "$step" else [hour]
        assert session.sql(query, params).numpy()["t"][0] == np.datetime64("2024-01-01T01")
    params = {"step": 2} if name == "$step" else [2]
    assert session.sql(f"SELECT sum({name}) AS total FROM d", params).numpy()["total"][0] == 6
    with pytest.raises(tet_sql.QueryError, match="nowhere"):
        session.sql(f"SELECT t + {name} FROM nowhere", params)


def test_types_of_several_parameters(session, tmp_path):
    hour = datetime.timedelta(hours=1)
    one = np.datetime64("2024-01-01T01")
    path = tmp_path / "t.parquet"
    selected = "SELECT t + $1 AS t FROM d"
    for query in (selected, "FROM d SELECT t + $1 AS t", f"{selected} GROUP BY t + $1"):
        assert session.sql(query, [hour]).numpy()["t"].min() == one
    session.sql(f"COPY ({selected}) TO '{path}'", [hour])
    assert pd.read_parquet(path).t.min() == one
    # A parameter that is NULL has no type of its own.
    query = "SELECT t + $1 AS t FROM d WHERE $2 IS NULL OR v = $2"
    for value, rows in ((None, 3), (2, 1)):
        assert len(session.sql(query, [hour, value]).numpy()["t"]) == rows
    row = session.sql("SELECT t + $1 AS t, $1 AS step FROM d ORDER BY t LIMIT $2", [hour, 1])
    assert [field.type for field in row.schema][1] == "Duration(\u00b5s)"
    assert row.numpy()["step"].tolist() == [hour]


def test_parameters_have_values_and_values_are_used(session):
    hour = datetime.timedelta(hours=1)
    for query in ("SELECT $1 AS one", "SELECT t + $1 FROM d"):
        with pytest.raises(tet_sql.QueryError, match=r"parameter \$2 has a value, but the statement does not use it"):
            session.sql(query, [hour, 2])
    with pytest.raises(tet_sql.QueryError, match=r"No value found for placeholder with name \$1"):
        session.sql("SELECT t + $h, $1 FROM d", {"h": hour})
    with pytest.raises(tet_sql.QueryError, match=r"No value found for placeholder with id \$2"):
        session.sql("SELECT t + $1, $2 FROM d", [hour])


def test_only_placeholders_are_numbered(session):
    query = r"""
        SELECT ? AS a, E'\\d\'?' AS b, '?' AS c, -- ?
               'ü', ? AS d /* ? */, "e?" FROM (SELECT $$?$$ AS "e?")
    """
    row = session.sql(query, [1, 2]).df().iloc[0]
    assert [row.a, row.b, row.c, row.d, row["e?"]] == [1, r"\d'?", "?", 2, "?"]
