"""SQL over chunked n-dimensional arrays.

>>> import numpy as np
>>> import tet_sql
>>> session = tet_sql.connect()
>>> session.register("t", np.arange(6.0).reshape(2, 3), dims=["y", "x"])
>>> session.sql("SELECT y, sum(value) AS total FROM t GROUP BY y ORDER BY y").numpy()["total"]
array([ 3., 12.])
"""

from __future__ import annotations

from ._tet_sql import (
    Error,
    ExecutionError,
    FileError,
    ForkError,
    OutOfMemoryError,
    QueryError,
    UnsupportedError,
    __version__,
)
from ._accessor import install as _install
from ._extension import DataFusionExtension, datafusion_extension
from ._relation import Relation
from ._schema import Field, Schema
from ._session import Session, connect

__all__ = [
    "DataFusionExtension",
    "Error",
    "ExecutionError",
    "Field",
    "FileError",
    "ForkError",
    "OutOfMemoryError",
    "QueryError",
    "Relation",
    "Schema",
    "Session",
    "UnsupportedError",
    "__version__",
    "connect",
    "datafusion_extension",
]

_install()
