"""The progress of queries that take long: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import contextlib
import html
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: The time in seconds after which progress is shown.
PATIENCE = 1.0
#: The number of characters of the bar in a terminal that is wide enough.
BAR_WIDTH = 30


@dataclass
class Reading:
    """The chunks that the scans of a query have read."""

    #: The chunks that are not pruned by selections, statistics or indexes.
    wanted: int = 0
    #: The wanted chunks that were read or turned out not to be needed.
    done: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, operators: Iterable[Mapping[str, Any]]) -> Reading:
        """Sums up the metrics of the operators of a plan."""
        reading = cls()
        for operator in operators:
            metrics = operator["metrics"]
            count: Callable[[str], int] = lambda name: metrics.get(name, 0)
            pruned = sum(value for name, value in metrics.items() if name.startswith("chunks_pruned_by_"))
            pruned_late = count("chunks_pruned_by_dynamic_filter")
            reading.wanted += max(0, count("chunks_total") - (pruned - pruned_late))
            reading.done += count("chunks_read") + count("chunks_known_by_zone_map") + pruned_late
            reading.bytes += count("bytes_read")
        reading.done = min(reading.done, reading.wanted)
        return reading

    @property
    def fraction(self) -> float:
        return self.done / self.wanted if self.wanted else 0.0

    def text(self, seconds: float) -> str:
        if not self.wanted:
            return f"{seconds:.0f} s"
        if self.done == self.wanted:
            # The rows are still being joined, sorted or grouped.
            return f"all {self.wanted:,} chunks read, {seconds:.0f} s"
        text = f"{self.done:,} of {self.wanted:,} chunks, {self.bytes / seconds / 2**20:.1f} MiB/s"
        if self.done:
            text += f", {seconds * (self.wanted - self.done) / self.done:.0f} s left"
        return text


class Progress:
    """Shows the progress of one execution after one second, and removes the display at the end.

    Calling the object updates the display. A display that fails is not used again.
    """

    def __init__(self, metrics: Callable[[], Iterable[Mapping[str, Any]]], display: Any) -> None:
        self._metrics = metrics
        self._display: Any | None = display
        self._started = time.monotonic()
        self._is_shown = False

    def __call__(self) -> None:
        seconds = time.monotonic() - self._started
        if self._display is None or seconds < PATIENCE:
            return
        self._is_shown = True
        reading = Reading.of(self._metrics())
        try:
            self._display.show(reading.fraction, reading.text(seconds))
        except Exception:
            # An error here would cancel the query, whose rows do not need the display.
            self._display = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._display is not None and self._is_shown:
            with contextlib.suppress(Exception):
                self._display.clear()


class _Terminal:
    """The last line of standard error."""

    def show(self, fraction: float, text: str) -> None:
        # A line of the full width would wrap in some terminals, and `\r` would not return to its start.
        room = shutil.get_terminal_size().columns - 1
        width = max(0, min(BAR_WIDTH, room - 1 - len(text)))
        full = round(fraction * width)
        line = f"{'━' * full}{' ' * (width - full)} {text}"[:room]
        # The escape sequence erases the rest of a longer line.
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _Notebook:
    """A bar in the output of a notebook's cell."""

    def __init__(self) -> None:
        from IPython import display

        self._html = display.HTML
        self._show = display.display
        self._handle: Any = None

    def show(self, fraction: float, text: str) -> None:
        bar = self._html(f'<progress value="{fraction:.3f}" max="1"></progress> {html.escape(text)}')
        if self._handle is None:
            self._handle = self._show(bar, display_id=True)
        else:
            self._handle.update(bar)

    def clear(self) -> None:
        self._handle.update(self._html(""))


def display() -> Any | None:
    """Returns the display for progress, or `None`."""
    # The module may be incomplete while it is imported, or a replacement without a shell.
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_shell is None else get_shell()
    # The shell of a kernel, which IPython in a terminal does not have.
    if getattr(shell, "kernel", None) is not None:
        return _Notebook()
    return _Terminal() if _is_terminal(sys.stderr) else None


def _is_terminal(stream: Any) -> bool:
    """Returns `True` if a stream is a terminal that understands escape sequences."""
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(stream.isatty())
    except Exception:
        # There may be no stream, as in a process without a console, a closed one, or one that can only be written to.
        return False
