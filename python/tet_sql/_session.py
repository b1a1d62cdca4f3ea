"""Sessions: files, tables and statements."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _tet_sql
from ._parameters import parameters
from ._register import register
from ._relation import Relation
from ._schema import Schema
from ._settings import as_text

#: Parameters of a statement: for ``$1`` and ``?``, or for ``$name``.
Parameters = Sequence[Any] | Mapping[str, Any]


def connect(
    *files: str | os.PathLike[str],
    threads: int | None = None,
    memory_limit: int | str | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool = True,
    cluster: Sequence[str] = (),
    cluster_token: str | None = None,
    cluster_ca: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Session:
    """Opens files in a new session.

    Files are opened as by the command ``tet-sql``: array files (``.tet``, Zarr, NumPy, TileDB), documents
    (``.tatami``) and rows (CSV, Parquet, JSON, Arrow). An array file becomes a schema named after its stem, and each
    of its arrays a table; ``"name=path"`` chooses the name. The first array file is the default schema. A file of
    rows becomes a table, and a directory stands for all ``.tet`` files in it. URLs (``s3://``, ``gs://``, ``az://``,
    ``https://``) work in place of paths.

    Parameters
    ----------
    files
        The files to open.
    threads
        The number of partitions of a query. By default, one for each processor.
    memory_limit
        The memory for queries, in bytes or as text such as ``"2G"``. By default, the memory budget of the first file.
    settings
        Settings by name, as in ``SET``: ``{"tet.nan_as_null": False, "datafusion.execution.batch_size": 65536}``.
    progress
        Whether queries that take longer than a second show their progress: on standard error if it is a terminal,
        and in notebooks.
    cluster
        The URLs of workers that run parts of the queries, such as ``["http://a:50052", "http://b:50052"]``. A worker is
        the command ``tet-sql worker``.
    cluster_token
        The token that the workers require.
    cluster_ca
        A PEM file with the authorities that signed the certificates of workers with ``https://`` URLs.
    options
        Options for opening files: ``dims``, ``text_labels``, ``decode_times``, ``decode_coords``,
        ``auxiliary_coordinates``, ``unpack``,
        ``nan_as_null``, ``fill_as_null``, ``zone_maps``, ``access``, ``ignore_footer`` and ``key_file``.

    Examples
    --------
    >>> session = connect(threads=2, settings={"datafusion.execution.batch_size": 4096})
    >>> session.sql("SELECT 1 + 1 AS two").numpy()["two"]
    array([2])
    """
    return Session(
        *files,
        threads=threads,
        memory_limit=memory_limit,
        settings=settings,
        progress=progress,
        cluster=cluster,
        cluster_token=cluster_token,
        cluster_ca=cluster_ca,
        **options,
    )


class Session:
    """Files and tables, and statements over them. Threads can share a session."""

    def __init__(
        self,
        *files: str | os.PathLike[str],
        threads: int | None = None,
        memory_limit: int | str | None = None,
        settings: Mapping[str, Any] | None = None,
        progress: bool = True,
        cluster: Sequence[str] = (),
        cluster_token: str | None = None,
        cluster_ca: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self._progress = progress
        settings = dict(settings or {})
        if cluster:
            settings["tet.cluster"] = cluster if isinstance(cluster, str) else ",".join(cluster)
        self._session = _tet_sql.Session(
            [os.fspath(file) for file in files],
            threads,
            None if memory_limit is None else str(memory_limit),
            [(name, as_text(value)) for name, value in settings.items()],
            [(name, as_text(value)) for name, value in options.items()],
            (cluster_token, None if cluster_ca is None else Path(cluster_ca).read_bytes()),
        )
        for warning in self._session.warnings:
            warnings.warn(warning, stacklevel=3)

    def sql(self, query: str, params: Parameters | None = None) -> Relation:
        """Plans a query. The query runs when its result is needed.

        Any other statement, such as ``CREATE``, ``SET``, ``INSERT`` or ``COPY``, runs at once.

        >>> session = connect()
        >>> session.sql("SELECT $1 + $2 AS total", [1, 2]).numpy()["total"]
        array([3])
        >>> session.sql("SELECT $n * 2 AS twice", {"n": 21}).numpy()["twice"]
        array([42])
        """
        values = None if params is None else parameters(params)
        relation = Relation(self._session.sql(query, values), self._progress)
        for warning in self._session.take_warnings():
            warnings.warn(warning, stacklevel=2)
        return relation

    def table(self, name: str) -> Relation:
        """All rows of a table, whose name is written as in SQL.

        >>> connect().table("information_schema.schemata").columns[0]
        'catalog_name'
        """
        return Relation(self._session.table(name), self._progress)

    def tables(self) -> list[str]:
        """The names of the tables: of the first file, then of the others as ``schema.table``."""
        return self._session.tables()

    def schema(self, table: str) -> Schema:
        """The columns of a table, whose name is written as in SQL."""
        return Schema(self._session.sql(f"SELECT * FROM {table}"))

    def explain(
        self,
        query: str,
        params: Parameters | None = None,
        *,
        analyze: bool = False,
        verbose: bool = False,
    ) -> str:
        """The plan of a query. ``analyze`` runs the query and adds what was read."""
        return self.sql(query, params).explain(analyze=analyze, verbose=verbose)

    def register(
        self,
        name: str,
        obj: Any,
        *,
        dims: Sequence[str] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes an object a table, in place of the one that was registered with the same name before.

        - An xarray ``Dataset`` or ``DataArray`` becomes a table of its dimensions, its coordinates and its variables.
          Arrays in memory are not copied, and others are read chunk by chunk, except texts, which are loaded.
          Variables with fewer dimensions are repeated along the others. Variables of complex numbers, or of objects
          other than texts and times, are left out with a warning.
        - A NumPy array becomes a table of its dimensions and the column ``value``. ``dims`` names the dimensions,
          and ``coords`` has the coordinates along some of them. Masked cells are NULL.
        - A pandas or Polars frame, and any other object with ``__arrow_c_stream__``, becomes a table of its columns.

        >>> import numpy as np
        >>> session = connect()
        >>> session.register("t", np.eye(3), dims=["y", "x"], coords={"y": [10, 20, 30]})
        >>> session.sql("SELECT x FROM t WHERE y = 20 AND value = 1").numpy()["x"]
        array([1])
        """
        register(self._session, name, obj, dims, coords)

    def deregister(self, name: str) -> None:
        """Removes a table that was registered."""
        if not self._session.deregister(name):
            raise _tet_sql.QueryError(f"no table is registered as {name}")

    def __repr__(self) -> str:
        tables = self.tables()
        shown = ", ".join(tables[:5]) + (", ..." if len(tables) > 5 else "")
        return f"<tet_sql.Session: {shown or 'no tables'}>"
