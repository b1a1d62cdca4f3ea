#!/usr/bin/env python3
"""Compares answers over S3 with those over local files. `moto` is the S3 server.

    tests/clients/run s3.py
"""

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

BINARY = Path(sys.argv[1]).resolve()
QUERIES = [
    "SELECT count(*) AS n, sum(temperature) AS s, avg(humidity) AS mean FROM {}",
    "SELECT lat, max(temperature) AS m FROM {} GROUP BY lat ORDER BY lat",
    "SELECT * FROM {} WHERE lat = 40 AND lon < 50 AND time < '2024-01-01T05:00' ORDER BY time, lon",
    "SELECT time, count(*) AS n FROM {} WHERE temperature > 20 GROUP BY time ORDER BY time",
]


def run(statements, environment, check=True):
    """Runs statements, and returns the standard output and the standard error."""
    arguments = [BINARY, "--quiet", "--format", "csv", "--no-init"]
    for statement in statements:
        arguments += ["-c", statement]
    ran = subprocess.run(arguments, env={**os.environ, **environment}, capture_output=True, text=True)
    if check and ran.returncode != 0:
        sys.exit(f"{statements}: {ran.stderr}")
    return ran.stdout, ran.stderr


def main():
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "an-id", "aws_secret_access_key": "a-secret"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="eu-west-1", **keys)
    client.create_bucket(Bucket="arrays", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    environment = {
        "AWS_ACCESS_KEY_ID": "an-id",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT": endpoint,
    }
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        names = ["weather.tet", "weather.zarr", "weather.parquet", "weather.tatami", "weather.tiledb"]
        sparse = lambda name: "OPTIONS (sparse 'true')" if name.endswith(".tiledb") else ""
        copies = [f"COPY time_lat_lon TO '{directory}/{name}' {sparse(name)}" for name in names]
        arguments = [BINARY, "--quiet", "--no-init", "--demo"]
        for copy in copies:
            arguments += ["-c", copy]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        for path in directory.rglob("*"):
            if path.is_file():
                client.upload_file(str(path), "arrays", str(path.relative_to(directory)))
        compared = 0
        for name in names:
            table = "#time_lat_lon" if name.endswith((".tet", ".zarr")) else ""
            for query in QUERIES:
                local, _ = run([query.format(f"'{directory}/{name}{table}'")], environment)
                remote, _ = run([query.format(f"'s3://arrays/{name}{table}'")], environment)
                assert local == remote, f"{name}: {query}\n{local}\n{remote}"
                compared += 1
        # Options instead of the environment.
        create = f"""CREATE EXTERNAL TABLE t STORED AS ZARR LOCATION 's3://arrays/weather.zarr' OPTIONS (
            dataset 'time_lat_lon', 'aws.access_key_id' 'an-id', 'aws.secret_access_key' 'a-secret',
            'aws.region' 'eu-west-1', 'aws.endpoint' '{endpoint}')"""
        local, _ = run([QUERIES[0].format(f"'{directory}/weather.zarr#time_lat_lon'")], {})
        remote, _ = run([create, QUERIES[0].format("t")], {})
        assert remote.endswith(local), f"{local}\n{remote}"
        # Writing.
        for name in ["copied.tet", "copied.zarr"]:
            copy = f"COPY (SELECT time, lat, lon, temperature FROM 's3://arrays/weather.tet#time_lat_lon') TO 's3://arrays/{name}'"
            run([copy], environment)
            query = "SELECT count(*) AS n, round(sum(value), 3) AS s FROM {}"
            local, _ = run([query.format(f"'{directory}/weather.tet#temperature'")], environment)
            remote, _ = run([query.format(f"'s3://arrays/{name}#temperature'")], environment)
            assert local == remote, f"{name}\n{local}\n{remote}"
        # Writing with options instead of the environment. The plan does not show them.
        options = f"""'aws.access_key_id' 'an-id', 'aws.secret_access_key' 'a-secret', 'aws.region' 'eu-west-1',
            'aws.endpoint' '{endpoint}'"""
        for name in ["options.tet", "options.csv", "options.parquet"]:
            more = ", dims 'k'" if name.endswith(".tet") else ""
            copy = f"COPY (SELECT value AS k, value * 2 AS value FROM generate_series(1, 9)) TO 's3://arrays/{name}' OPTIONS ({options}{more})"
            shown, _ = run([f"EXPLAIN VERBOSE {copy}"], {})
            assert "a-secret" not in shown, shown
            run([copy], {})
            total, _ = run([f"SELECT sum(value) AS s FROM 's3://arrays/{name}'"], environment)
            assert total.split() == ["s", "90"], total
        # A cache directory changes no answer, and holds no secrets.
        cache = directory / "cache"
        for name in ["weather.tet", "weather.zarr"]:
            query = QUERIES[1].format(f"'s3://arrays/{name}#time_lat_lon'")
            expected, _ = run([query], environment)
            for _ in range(2):
                kept, _ = run([f"SET tet.cache_dir = '{cache}'", query], environment)
                assert kept == expected, f"{name}: {kept}"
        kept = [path.read_bytes() for path in cache.rglob("*") if path.is_file()]
        assert kept and not any(b"a-secret" in content for content in kept)
        _, message = run(["SELECT * FROM 's3://arrays/none.tet'"], environment, check=False)
        assert "404" in message and "a-secret" not in message, message
    server.stop()
    print(f"{compared} queries have the same answers over S3 as over local files")


if __name__ == "__main__":
    main()
