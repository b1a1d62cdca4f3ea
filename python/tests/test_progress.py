"""The progress of queries that take long."""

from __future__ import annotations

import io
import sys
import time
import types

import numpy as np
import pytest
import xarray as xr

import tet_sql
from tet_sql._progress import Progress, _Terminal, display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def installed(monkeypatch) -> Terminal:
    """Replaces standard error by a terminal. Called by each test, since pytest replaces standard error after fixtures."""
    fake = Terminal()
    monkeypatch.setattr(sys, "stderr", fake)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return fake


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


def slow(delay: float, progress: bool = True, fails: bool = False) -> tet_sql.Relation:
    """A query over 16 chunks, each of which takes this many seconds to read. The last one may fail."""

    class Slow(xr.backends.BackendArray):
        shape, dtype = (16,), np.dtype("f8")

        def __getitem__(self, key: xr.core.indexing.ExplicitIndexer) -> np.ndarray:
            time.sleep(delay)
            if fails and key.tuple[0].start == 15:
                raise OSError("the disk is gone")
            return xr.core.indexing.explicit_indexing_adapter(
                key, self.shape, xr.core.indexing.IndexingSupport.BASIC, lambda cells: np.ones(16)[cells]
            )

    array = xr.Variable("x", xr.core.indexing.LazilyIndexedArray(Slow()), encoding={"preferred_chunks": {"x": 1}})
    session = tet_sql.connect(threads=1, progress=progress)
    session.register("t", xr.Dataset({"v": array}))
    return session.sql("SELECT sum(v) AS total FROM t")


def test_a_terminal_shows_progress(monkeypatch):
    terminal = installed(monkeypatch)
    assert slow(0.15).numpy()["total"][0] == 16
    shown = terminal.getvalue().split("\r")
    assert "of 16 chunks" in shown[1] and "s left" in shown[1] and "━" in shown[1]
    done = [int(line.split(" of 16")[0].split()[-1]) for line in shown if " of 16" in line]
    assert done == sorted(done) and len(set(done)) > 3, done
    # The line is erased at the end.
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_short_queries_show_nothing(monkeypatch):
    terminal = installed(monkeypatch)
    slow(0.01).arrow()
    assert terminal.getvalue() == ""


def test_progress_can_be_turned_off(monkeypatch):
    terminal = installed(monkeypatch)
    slow(0.1, progress=False).df()
    assert terminal.getvalue() == ""


def test_pipes_get_no_progress(capsys):
    slow(0.1).df()
    assert capsys.readouterr().err == ""


def test_files_are_written_with_progress(monkeypatch, tmp_path):
    terminal = installed(monkeypatch)
    slow(0.1).write(tmp_path / "total.parquet")
    assert "of 16 chunks" in terminal.getvalue()


def test_an_error_erases_the_line(monkeypatch):
    terminal = installed(monkeypatch)
    with pytest.raises(OSError, match="the disk is gone"):
        slow(0.1, fails=True).arrow()
    assert "of 16 chunks" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K")


def test_the_line_fits_the_terminal(monkeypatch):
    terminal = installed(monkeypatch)
    for columns in (100, 60, 20):
        monkeypatch.setenv("COLUMNS", str(columns))
        _Terminal().show(0.5, "1,234 of 5,678 chunks, 100.0 MiB/s, 99 s left")
    wide, middle, narrow = [line.removesuffix("\x1b[K") for line in terminal.getvalue().split("\r")[1:]]
    assert wide.startswith("━" * 15 + " ") and wide.endswith("s left")
    # The bar shrinks before the text is cut.
    assert len(middle) == 59 and middle.startswith("━") and middle.endswith("s left")
    assert len(narrow) == 19 and "1,234 of 5,678" in narrow


def test_a_terminal_without_escape_sequences_gets_no_progress(monkeypatch):
    installed(monkeypatch)
    assert isinstance(display(), _Terminal)
    monkeypatch.setenv("TERM", "dumb")
    assert display() is None


@pytest.mark.parametrize("stream", [None, object(), types.SimpleNamespace(write=print), closed()])
def test_an_unusual_standard_error_gets_no_progress(monkeypatch, stream):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    # A module that is not IPython itself.
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    assert display() is None
    assert tet_sql.connect().sql("SELECT 1 AS one").numpy()["one"][0] == 1


def test_a_terminal_that_fails_does_not_cancel_the_query(monkeypatch):
    class Broken(Terminal):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            # The first line is shown. The terminal is closed afterwards.
            if self.writes > working:
                raise OSError("Input/output error")
            return super().write(text)

    for working in (0, 1):
        broken = Broken()
        installed(monkeypatch)
        monkeypatch.setattr(sys, "stderr", broken)
        assert slow(0.1).numpy()["total"][0] == 16
        # The display is not used again.
        assert broken.writes == working + 1


def test_an_error_while_the_display_is_removed_is_ignored():
    class Display:
        def show(self, fraction: float, text: str) -> None:
            pass

        def clear(self) -> None:
            raise OSError("Input/output error")

    with Progress(lambda: [], Display()) as progress:
        progress._started -= 2
        progress()


def test_a_notebook_updates_one_display(monkeypatch):
    outputs: list[list[str]] = []

    class Handle:
        def __init__(self) -> None:
            outputs.append([])

        def update(self, html: str) -> None:
            outputs[-1].append(html)

    def display(html: str, display_id: bool) -> Handle:
        assert display_id
        handle = Handle()
        handle.update(html)
        return handle

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML = str
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    assert slow(0.1).numpy()["total"][0] == 16
    (shown,) = outputs
    assert shown[0].startswith("<progress") and len(shown) > 2 and shown[-1] == ""
