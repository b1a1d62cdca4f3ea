#!/usr/bin/env python3
"""Compares answers over Azure Blob Storage with those over local files. Azurite is the server: install it with
`npm install azurite`, and name its command.

    AZURITE=node_modules/.bin/azurite-blob tests/clients/run azurite.py
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from azure.storage.blob import BlobServiceClient

BINARY = Path(sys.argv[1]).resolve()
# The account of every Azurite, which is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
QUERIES = [
    "SELECT count(*) AS n, sum(temperature) AS s, avg(humidity) AS mean FROM {}",
    "SELECT lat, max(temperature) AS m FROM {} GROUP BY lat ORDER BY lat",
    "SELECT * FROM {} WHERE lat = 40 AND lon < 50 AND time < '2024-01-01T05:00' ORDER BY time, lon",
]


def run(statements, environment):
    """Runs statements, and returns the standard output."""
    arguments = [BINARY, "--quiet", "--format", "csv", "--no-init"]
    for statement in statements:
        arguments += ["-c", statement]
    ran = subprocess.run(arguments, env={**os.environ, **environment}, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{statements}: {ran.stderr}")
    return ran.stdout


def main():
    command = os.environ.get("AZURITE")
    if not command:
        sys.exit("set AZURITE to the command azurite-blob")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    environment = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
    }
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        options = ["--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--disableTelemetry"]
        server = subprocess.Popen([command, *options, "--blobPort", str(port)], stdout=subprocess.DEVNULL)
        try:
            service = BlobServiceClient(endpoint, credential={"account_name": ACCOUNT, "account_key": KEY})
            for _ in range(60):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(1)
            container = service.create_container("arrays")
            names = ["weather.tet", "weather.zarr", "weather.parquet"]
            arguments = [BINARY, "--quiet", "--no-init", "--demo"]
            for name in names:
                arguments += ["-c", f"COPY time_lat_lon TO '{directory}/{name}'"]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            for path in directory.rglob("*"):
                if path.is_file():
                    container.upload_blob(str(path.relative_to(directory)), path.read_bytes())
            compared = 0
            for name in names:
                table = "" if name.endswith(".parquet") else "#time_lat_lon"
                for query in QUERIES:
                    local = run([query.format(f"'{directory}/{name}{table}'")], environment)
                    remote = run([query.format(f"'az://arrays/{name}{table}'")], environment)
                    assert local == remote, f"{name}: {query}\n{local}\n{remote}"
                    compared += 1
            for name in ["copied.tet", "copied.zarr"]:
                source = "'az://arrays/weather.tet#temperature'"
                run([f"COPY (SELECT * FROM {source}) TO 'az://arrays/{name}'"], environment)
                query = "SELECT count(*) AS n, round(sum(value), 3) AS s FROM {}"
                local = run([query.format(source)], environment)
                table = "#temperature"
                remote = run([query.format(f"'az://arrays/{name}{table}'")], environment)
                assert local == remote, f"{name}\n{local}\n{remote}"
        finally:
            server.terminate()
    print(f"{compared} queries have the same answers over Azure as over local files")


if __name__ == "__main__":
    main()
