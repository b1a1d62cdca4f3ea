"""Results of queries."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ._chart import Chart
from ._libraries import library
from ._numpy import check_names, objects, time_zone, values
from ._progress import Progress, display
from ._schema import Schema
from ._settings import as_text
from ._to_xarray import dataset

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow
    import xarray

#: The number of rows that notebooks show.
SHOWN_ROWS = 20


class Relation:
    """A planned query. Each method that needs the rows runs the query.

    >>> import tet_sql
    >>> squares = tet_sql.connect().sql("SELECT value AS n, value * value AS square FROM generate_series(1, 3)")
    >>> squares.show()
    +---+--------+
    | n | square |
    +---+--------+
    | 1 | 1      |
    | 2 | 4      |
    | 3 | 9      |
    +---+--------+
    """

    def __init__(self, query: Any, progress: bool = True) -> None:
        self._query = query
        self._progress = progress

    def _collect(self, rows: int | None = None) -> Any:
        """Runs the query, or the first rows of it, and shows its progress."""
        return self._shown(lambda progress: self._query.collect(rows, progress))

    def _shown(self, run: Callable[[Progress | None], Any]) -> Any:
        """Runs an execution and shows its progress."""
        shows = display() if self._progress else None
        if shows is None:
            return run(None)
        with Progress(self._query.metrics, shows) as progress:
            return run(progress)

    @property
    def schema(self) -> Schema:
        """The columns of the result, without running the query."""
        return Schema(self._query)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, without running the query."""
        return self.schema.names

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Streams the batches of the result. Dropping the stream cancels the query."""
        return self._query.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of the result, without running the query."""
        return self._query.__arrow_c_schema__()

    def __datafusion_table_provider__(self, session: object) -> object:
        """The result as a table for ``register_table`` of the package ``datafusion``."""
        return self._query.__datafusion_table_provider__(session)

    def arrow(self) -> pyarrow.Table:
        """The result as a ``pyarrow.Table``."""
        return library("pyarrow", "Relation.arrow()").table(self._collect())

    def df(self) -> pandas.DataFrame:
        """The result as a pandas ``DataFrame``. Times keep their time zone.

        Decimals are ``decimal.Decimal`` objects, which need pyarrow, as lists do.
        """
        pandas = library("pandas", "Relation.df()")
        batches = self._collect()
        columns = batches.columns()
        found: dict[int, Any] = {}
        for number, column in enumerate(columns):
            is_decimal = column.type.startswith("Decimal")
            found[number] = objects(number, column, batches) if is_decimal else values(number, column, batches)
            if zone := time_zone(column):
                found[number] = pandas.DatetimeIndex(found[number], tz="UTC").tz_convert(zone)
        frame = pandas.DataFrame(found, copy=False)
        # Names may repeat.
        frame.columns = [column.name for column in columns]
        return frame

    def pl(self) -> polars.DataFrame:
        """The result as a Polars ``DataFrame``."""
        return library("polars", "Relation.pl()").DataFrame(self._collect())

    def numpy(self) -> dict[str, numpy.ndarray]:
        """The columns of the result as NumPy arrays, by name.

        Nulls are NaN or NaT. Integers with nulls become ``float64``; texts, and booleans with nulls, become objects.
        Times with a time zone are in UTC, because NumPy has no time zones. Decimals become ``float64``.
        """
        check_names(self.columns)
        batches = self._collect()
        return {column.name: values(number, column, batches) for number, column in enumerate(batches.columns())}

    def to_xarray(self, dims: str | Sequence[str] | None = None) -> xarray.Dataset:
        """The result as an xarray ``Dataset``, with coordinates, units and attributes.

        ``dims`` are the columns that become dimensions. By default, they are the dimensions of arrays among the
        columns. A single row may have none. Rows in the order of the dimensions are reshaped; other rows are put in the
        cells of their coordinates, and cells without a row are NaN, NaT or ``None``. Coordinates are in the order of
        ORDER BY, or else of the arrays that they come from, or else ascending. Times with a time zone are in UTC.
        """
        check_names(self.columns)
        return dataset(self._collect(), [dims] if isinstance(dims, str) else dims, self._query.order)

    def write(self, path: str | os.PathLike[str], **options: Any) -> int:
        """Writes the result to a file, and returns the number of rows.

        The extension selects the format: ``.tet``, ``.zarr``, ``.parquet``, ``.csv``, ``.json`` or ``.arrow``.
        ``options`` are those of ``COPY``, such as ``dims=["time", "lat", "lon"]``.
        """
        texts = {name: as_text(value) for name, value in options.items()}
        return self._shown(lambda progress: self._query.write(os.fspath(path), texts, progress))

    def show(self, rows: int = SHOWN_ROWS) -> None:
        """Prints the first rows."""
        print(self._collect(rows).table(rows))

    def plot(self, kind: str | None = None) -> Chart:
        """A chart of the result: ``lines``, ``map``, ``scatter``, ``hist``, ``bars``, or what suits its columns.

        Notebooks show the chart, ``print`` draws it in a terminal, and ``save`` writes it to a file.
        """
        return Chart(self._collect(), kind)

    def explain(self, *, analyze: bool = False, verbose: bool = False) -> str:
        """The plan of the query. ``analyze`` runs the query and adds what was read."""
        return self._query.explain(analyze, verbose)

    def metrics(self) -> list[dict[str, Any]]:
        """The operators of the last execution, from the root of the plan, with what each has read and done.

        Empty if the query has not run.
        """
        return self._query.metrics()

    def __repr__(self) -> str:
        return f"<tet_sql.Relation>\n{self.schema!r}"

    def _repr_html_(self) -> str:
        batches = self._collect(SHOWN_ROWS + 1)
        escaped = lambda text: html.escape("" if text is None else text)
        head = "".join(f"<th>{escaped(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escaped(value)}</td>" for value in row) + "</tr>"
            for row in batches.rows(SHOWN_ROWS)
        )
        more = f"<p>first {SHOWN_ROWS} rows</p>" if len(batches) > SHOWN_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
