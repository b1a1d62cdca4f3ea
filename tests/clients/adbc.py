"""Queries `tet-sql serve` through ADBC's Flight SQL driver, as Python programs do.

Expected values are computed with NumPy from weather_small.npz, which holds the same arrays as
weather_small.tet.
"""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import numpy
import pandas
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

DATA = pathlib.Path(__file__).parent.parent / "data"
WEATHER = DATA / "weather_small.tet"
ARRAYS = numpy.load(DATA / "weather_small.npz")
# Takes hours and yields regularly.
ENDLESS = "SELECT sum(value % 7) FROM range(1000000000000)"
READY = "listening on "
Status = adbc_driver_manager.AdbcStatusCode


@contextlib.contextmanager
def server(binary, *arguments, files=(WEATHER,), token=None):
    """Runs a server on a free port and yields its address."""
    command = [binary, "serve", *map(str, files), "--listen", "127.0.0.1:0", *arguments]
    environment = {"TOKEN": token} if token else {}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        for line in process.stderr:
            if line.startswith(READY):
                break
        else:
            raise RuntimeError("the server did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield line.removeprefix(READY).strip()
        process.terminate()
        assert process.wait(timeout=30) == 143, process.returncode
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cursor(address, **options):
    """Yields a cursor of a new connection."""
    with flightsql.connect(address, db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as opened:
            yield opened


def rows(cursor, sql, parameters=None):
    cursor.execute(sql, parameters)
    return cursor.fetchall()


def fails(status, ask):
    """Checks that a call fails with the given status, and returns the message."""
    try:
        ask()
    except adbc_driver_manager.Error as error:
        assert error.status_code == status, (error.status_code, str(error))
        return str(error)
    raise AssertionError("no error")


def answers(binary):
    with server(binary) as address, cursor(address) as ask:
        temperature = ARRAYS["temperature"].astype(float)
        ask.execute("SELECT lat, avg(value) AS mean, count(value) AS n FROM temperature GROUP BY lat ORDER BY lat")
        table = ask.fetch_arrow_table()
        assert table.schema.names == ["lat", "mean", "n"]
        by_latitude = temperature.transpose(1, 0, 2).reshape(10, -1)
        numpy.testing.assert_allclose(table["mean"].to_numpy(), numpy.nanmean(by_latitude, axis=1), rtol=1e-12)
        assert table["n"].to_pylist() == (~numpy.isnan(by_latitude)).sum(axis=1).tolist()

        ask.execute("SELECT value FROM temperature ORDER BY time, lat, lon")
        values = ask.fetch_arrow_table()["value"].to_numpy()
        numpy.testing.assert_array_equal(values, ARRAYS["temperature"].ravel())

        ask.execute("SELECT time, station, value FROM pressure ORDER BY time, station")
        frame = ask.fetch_df()
        assert isinstance(frame, pandas.DataFrame) and frame.shape == (240, 3)
        assert frame["time"].min() == pandas.Timestamp("2024-01-01")
        assert sorted(set(frame["station"])) == ["EGLL", "KPDX", "KSEA", "RJTT", "YSSY"]

        # Types that only DataFusion uses are converted to plain ones.
        ask.execute(
            "SELECT arrow_cast('x', 'Utf8View') AS v, arrow_cast('y', 'Dictionary(Int32, Utf8)') AS d, "
            "[arrow_cast('z', 'Utf8View')] AS l, NULL AS n"
        )
        table = ask.fetch_arrow_table()
        assert table.schema.field("v").type == pyarrow.string(), table.schema
        assert table.schema.field("d").type == pyarrow.string(), table.schema
        assert table.to_pylist() == [{"v": "x", "d": "y", "l": ["z"], "n": None}]

        assert rows(ask, "SELECT * FROM temperature WHERE lat > 1000") == []
        assert any("physical_plan" in row for row in rows(ask, "EXPLAIN SELECT 1"))
        assert ("temperature",) in [row[2:3] for row in rows(ask, "SHOW TABLES")]
        message = fails(Status.INVALID_ARGUMENT, lambda: ask.execute("SELECT nonsense"))
        assert "nonsense" in message


def parameters(binary):
    with server(binary) as address, cursor(address) as ask:
        pressure = ARRAYS["pressure"]
        sql = "SELECT count(*), max(value) FROM pressure WHERE station = ? AND value < ?"
        kept = pressure[:, 0][(pressure[:, 0] < 10140) & (pressure[:, 0] != -32768)]
        for statement in [sql, sql.replace("?", "$1", 1).replace("?", "$2", 1)]:
            [(count, most)] = rows(ask, statement, ("KSEA", 10140))
            assert (count, most) == (len(kept), kept.max()), (count, most)
        # A fraction is not truncated although the coordinates are integers.
        assert rows(ask, "SELECT DISTINCT lat FROM temperature WHERE lat > ? ORDER BY lat", (34.5,)) == [(35,), (45,)]
        [(now,)] = rows(ask, "SELECT ?", (pyarrow.scalar(7, pyarrow.int16()),))
        assert now == 7
        schema = ask.adbc_prepare(sql)
        assert [(field.name, field.type) for field in schema] == [
            ("$1", pyarrow.string()),
            ("$2", pyarrow.int16()),
        ], schema
        message = fails(Status.INVALID_ARGUMENT, lambda: ask.execute(sql, ("KSEA",)))
        assert "2 parameters, but 1" in message, message
        # A schema without executing the query.
        schema = ask.adbc_execute_schema("SELECT time, value FROM pressure")
        assert schema.names == ["time", "value"] and schema.field("value").type == pyarrow.int16()


def metadata(binary):
    with server(binary) as address, flightsql.connect(address, autocommit=True) as connection:
        about = connection.adbc_get_info()
        assert about["vendor_name"] == "tet-sql", about
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        catalogs = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [catalog] = [one for one in catalogs if one["catalog_name"] == "datafusion"]
        schemas = {one["db_schema_name"]: one for one in catalog["catalog_db_schemas"]}
        tables = {one["table_name"]: one for one in schemas["weather_small"]["db_schema_tables"]}
        assert set(tables) == {"temperature", "humidity", "pressure", "time_lat_lon"}
        columns = [column["column_name"] for column in tables["temperature"]["table_columns"]]
        assert columns == ["time", "lat", "lon", "value"]
        schema = connection.adbc_get_table_schema("pressure", db_schema_filter="weather_small")
        assert schema.field("station").type == pyarrow.string()
        assert not schema.field("station").nullable and schema.field("value").nullable
        filtered = connection.adbc_get_objects(depth="tables", table_name_filter="press%").read_all().to_pylist()
        found = [t["table_name"] for c in filtered for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]]
        assert found == ["pressure"]


def refusals(binary):
    with server(binary) as address, cursor(address) as ask:
        for sql in ["CREATE VIEW v AS SELECT 1", "SET tet.nan_as_null = false", "COPY pressure TO 'x.csv'"]:
            message = fails(Status.UNAUTHORIZED, lambda: ask.execute(sql))
            assert "the server is read-only" in message, message
        message = fails(Status.INVALID_ARGUMENT, lambda: ask.execute(f"SELECT * FROM '{WEATHER}#pressure'"))
        assert "not found" in message


def tokens(binary):
    with server(binary, "--token-env", "TOKEN", token="a-word") as address:
        header = DatabaseOptions.AUTHORIZATION_HEADER.value
        for options in [{header: "Bearer a-word"}, {"username": "anybody", "password": "a-word"}]:
            with cursor(address, **options) as ask:
                assert rows(ask, "SELECT count(*) FROM pressure") == [(240,)]
        for options in [{}, {header: "Bearer another"}]:
            with cursor(address, **options) as ask:
                fails(Status.UNAUTHENTICATED, lambda: ask.execute("SELECT 1"))
        fails(Status.UNAUTHENTICATED, lambda: flightsql.connect(address, {"username": "anybody", "password": "no"}))


def encryption(binary):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        certificate, key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            + ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
        with server(binary, "--tls-cert", str(certificate), "--tls-key", str(key)) as address:
            assert address.startswith("grpc+tls://"), address
            trust = {DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text()}
            with cursor(address, **trust) as ask:
                assert rows(ask, "SELECT count(*) FROM pressure") == [(240,)]
            with cursor(address) as ask:
                fails(Status.IO, lambda: ask.execute("SELECT 1"))


def cancellation(binary):
    with server(binary, "--max-queries", "1", "--wait-limit", "5s", "--time-limit", "60s") as address:
        with cursor(address) as ask, cursor(address) as other:
            canceller = threading.Timer(1.0, ask.adbc_cancel)
            canceller.start()
            started = time.monotonic()

            def endless():
                ask.execute(ENDLESS)
                ask.fetchall()

            fails(Status.CANCELLED, endless)
            canceller.join()
            assert time.monotonic() - started < 30
            # The cancelled query has freed its slot.
            assert rows(other, "SELECT 1") == [(1,)]
    with server(binary, "--time-limit", "500ms") as address, cursor(address) as ask:

        def late():
            ask.execute(ENDLESS)
            ask.fetchall()

        assert "deadline exceeded" in fails(Status.TIMEOUT, late)


def main():
    binary, *wanted = sys.argv[1:]
    for check in [answers, parameters, metadata, refusals, tokens, encryption, cancellation]:
        if wanted and check.__name__ not in wanted:
            continue
        started = time.monotonic()
        check(binary)
        print(f"{check.__name__:<13} ok  {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
