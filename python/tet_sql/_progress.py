"""The progress of queries that take long: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: The time in seconds after which progress is shown.
PATIENCE = 1.0
#: The number of characters of the bar in a terminal.
BAR_WIDTH = 30


@dataclass
class Reading:
    """The chunks that the scans of a query have read."""

    #: The chunks that the selections and zone maps left to be read.
    wanted: int = 0
    #: The wanted chunks that were read or turned out not to be needed.
    done: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, operators: Iterable[Mapping[str, Any]]) -> Reading:
        """Sums up the metrics of the operators of a plan."""
        reading = cls()
        for operator in operators:
            count: Callable[[str], int] = lambda name: operator["metrics"].get(name, 0)
            pruned = count("chunks_pruned_by_slice") + count("chunks_pruned_by_zone_map")
            reading.wanted += max(0, count("chunks_total") - pruned)
            reading.done += count("chunks_read")
            reading.done += count("chunks_known_by_zone_map") + count("chunks_pruned_by_dynamic_filter")
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
    """Shows the progress of one execution from its second second on, and removes it at the end.

    Calling the object updates the display.
    """

    def __init__(self, metrics: Callable[[], Iterable[Mapping[str, Any]]], display: Any) -> None:
        self._metrics = metrics
        self._display = display
        self._started = time.monotonic()
        self._is_shown = False

    def __call__(self) -> None:
        seconds = time.monotonic() - self._started
        if seconds >= PATIENCE:
            self._is_shown = True
            reading = Reading.of(self._metrics())
            self._display.show(reading.fraction, reading.text(seconds))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_shown:
            self._display.clear()


class _Terminal:
    """The last line of standard error."""

    def show(self, fraction: float, text: str) -> None:
        full = round(fraction * BAR_WIDTH)
        # Erases the rest of a longer line.
        print(f"\r{'━' * full}{' ' * (BAR_WIDTH - full)} {text}\x1b[K", end="", file=sys.stderr, flush=True)

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
    """Returns what shows progress here: a notebook, or standard error if it is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # The shell of a kernel, which IPython in a terminal does not have.
    if shell is not None and getattr(shell, "kernel", None) is not None:
        return _Notebook()
    # A process without a console has no standard error.
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal()
    return None
