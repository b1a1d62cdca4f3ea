"""Ctrl-C, cancellation, threads, processes and leaks."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import tet_sql

#: A query that runs for minutes.
ENDLESS = "SELECT sum(sqrt(a.value + b.value)) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"

INTERRUPTED = f"""
import os, signal, threading, time
import pyarrow as pa
import tet_sql
session = tet_sql.connect()
relation = session.sql({ENDLESS!r})
for run in (lambda: relation.df(), lambda: pa.RecordBatchReader.from_stream(relation).read_all()):
    sent = []
    def interrupt():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        run()
        time.sleep(1)
    except BaseException as error:
        took = time.monotonic() - sent[0]
        print(type(error).__name__, round(took * 1000))
    else:
        print("no error")
print(session.sql("SELECT 1 AS one").numpy()["one"][0])
os._exit(0)
"""


def test_ctrl_c_stops_a_query():
    found = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    collected, streamed, after = found.stdout.splitlines()
    kind, took = collected.split()
    assert kind == "KeyboardInterrupt" and int(took) < 200, collected
    # The library that reads the stream raises an error of its own.
    assert streamed.split()[0] == "ArrowInvalid" and int(streamed.split()[1]) < 200, streamed
    assert found.stderr == ""
    assert after == "1"


BLOCKED = """
import os, signal, threading, time
import pyarrow as pa
import tet_sql
session = tet_sql.connect()
schema = pa.schema([("a", pa.int64())])
def batches():
    yield pa.record_batch([[1]], schema)
    time.sleep(30)
sent = []
def interrupt():
    time.sleep(0.5)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    session.register("t", pa.RecordBatchReader.from_batches(schema, batches()))
except KeyboardInterrupt:
    print(round((time.monotonic() - sent[0]) * 1000))
print(session.sql("SELECT 1 AS one").numpy()["one"][0])
os._exit(0)
"""


def test_ctrl_c_stops_a_reader_that_blocks():
    found = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60)
    took, after = found.stdout.splitlines()
    assert int(took) < 200 and after == "1" and found.stderr == ""


ABANDONED = """
import os, signal, threading, time
import pyarrow as pa
import tet_sql
session = tet_sql.connect()
schema = pa.schema([("a", pa.int64())])
count = 0
def batches():
    global count
    while True:
        count += 1
        # Runs Python most of the time.
        sum(range(1_000_000))
        yield pa.record_batch([[1]], schema)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.register("t", pa.RecordBatchReader.from_batches(schema, batches()))
except KeyboardInterrupt:
    at_interrupt = count
    {then}
"""


@pytest.mark.parametrize("then", ["time.sleep(0.5); print(count - at_interrupt <= 1)", "print(True)"])
def test_an_abandoned_reader_ends(then):
    code = ABANDONED.format(then=then)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    # The process ends without an error, whatever the reader does.
    assert (found.stdout, found.stderr, found.returncode) == ("True\n", "", 0)


def test_dropping_a_stream_cancels_the_query():
    session = tet_sql.connect(threads=1)
    reader = pa.RecordBatchReader.from_stream(session.sql("SELECT * FROM generate_series(1, 100000000000)"))
    assert reader.read_next_batch().num_rows > 0
    del reader
    time.sleep(0.3)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.25, "the query is still running"


def test_other_threads_run_while_a_query_runs():
    session = tet_sql.connect()
    turns = []
    thread = threading.Thread(target=lambda: [turns.append(time.sleep(0.01)) for _ in range(10)])
    thread.start()
    session.sql("SELECT sum(value * value) FROM generate_series(1, 10000000)").arrow()
    thread.join()
    assert len(turns) == 10


def test_eight_threads_share_a_session(weather):
    array = np.random.default_rng(3).random((64, 32))
    weather.register("a", array, dims=["y", "x"])
    results: list[object] = []

    def work(number: int) -> None:
        for turn in range(20):
            y = (number * 20 + turn) % 64
            found = weather.sql("SELECT sum(value) AS s FROM a WHERE y = $1", [y]).numpy()["s"][0]
            results.append(abs(found - array[y].sum()) < 1e-9)
            weather.sql("SELECT lat, avg(value) FROM temperature GROUP BY lat").df()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 160


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_use_after_fork_is_refused():
    session = tet_sql.connect()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.sql("SELECT 1").arrow()
            text = "no error"
        except tet_sql.ForkError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert 'multiprocessing.get_context("spawn")' in text


def test_a_process_can_fork_before_the_first_use():
    code = "import os, tet_sql\nif os.fork() == 0:\n    tet_sql.connect().sql('SELECT 1').show(); os._exit(0)\nprint(os.wait()[1])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "0", found.stderr


def test_a_thousand_sessions_do_not_leak(weather_path):
    def open_and_query(times: int) -> None:
        for _ in range(times):
            session = tet_sql.connect(weather_path)
            session.register("a", np.ones(100_000))
            session.sql("SELECT sum(value) FROM a").arrow()

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the platform does not tell the memory of a process")
    open_and_query(100)
    files, before = len(os.listdir("/proc/self/fd")), resident()
    open_and_query(900)
    assert resident() - before < 100 << 20
    assert len(os.listdir("/proc/self/fd")) <= files + 2


DAEMON = """
import threading, time
import tet_sql
session = tet_sql.connect(progress=False)
endless = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.value * b.value % 7 = 3"
threading.Thread(target=lambda: session.sql(endless).numpy(), daemon=True).start()
time.sleep(0.5)
"""


def test_a_process_ends_while_a_daemon_thread_waits():
    found = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
