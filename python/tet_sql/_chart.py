"""Charts of results."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any


class Chart:
    """A chart of a result."""

    def __init__(self, batches: Any, kind: str | None) -> None:
        self._batches = batches
        self._kind = kind
        # Rows that cannot be drawn are reported here rather than when the chart is shown.
        str(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the chart to a ``.png``, ``.svg`` or ``.html`` file."""
        self._batches.chart(self._kind, os.fspath(path), 0, 0)

    def __str__(self) -> str:
        size = shutil.get_terminal_size()
        return self._batches.chart(self._kind, None, size.columns, size.lines)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "chart.svg")
            self.save(path)
            with open(path, encoding="utf-8") as file:
                return file.read()
