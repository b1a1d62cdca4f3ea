"""The accessor ``tet`` of xarray Datasets and DataArrays."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ._relation import Relation
from ._session import Session


class Accessor:
    """SQL over an xarray object.

    >>> import xarray as xr
    >>> ds = xr.Dataset({"t2m": (("lat", "lon"), [[1.0, 2.0], [3.0, 5.0]])}, {"lat": [10, 20]})
    >>> ds.tet.sql("SELECT lat, avg(t2m) AS t2m FROM this GROUP BY lat").to_xarray().t2m.values
    array([1.5, 4. ])
    """

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def sql(self, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Relation:
        """Plans a query over the object, which is the table ``this``."""
        session = Session()
        session.register("this", self._obj)
        return session.sql(query, params)


def install() -> None:
    """Registers the accessor, now or when xarray is imported."""
    if "xarray" in sys.modules:
        _register(sys.modules["xarray"])
    else:
        sys.meta_path.insert(0, _Finder())


def _register(xarray: ModuleType) -> None:
    xarray.register_dataset_accessor("tet")(Accessor)
    xarray.register_dataarray_accessor("tet")(Accessor)


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the accessor after xarray is imported, so that this package does not import it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
