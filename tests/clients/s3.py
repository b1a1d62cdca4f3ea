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
        names = ["weather.tet", "weather.zarr", "weather.parquet"]
        copies = [f"COPY time_lat_lon TO '{directory}/{name}'" for name in names]
        arguments = [BINARY, "--quiet", "--no-init", "--demo"]
        for copy in copies:
            arguments += ["-c", copy]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        for path in directory.rglob("*"):
            if path.is_file():
                client.upload_file(str(path), "arrays", str(path.relative_to(directory)))
        compared = 0
        for name in names:
            table = "" if name.endswith(".parquet") else "#time_lat_lon"
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
        _, message = run(["SELECT * FROM 's3://arrays/none.tet'"], environment, check=False)
        assert "404" in message and "a-secret" not in message, message
    server.stop()
    print(f"{compared} queries have the same answers over S3 as over local files")


if __name__ == "__main__":
    main()
