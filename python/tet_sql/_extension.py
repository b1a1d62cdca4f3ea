"""Queries of the package ``datafusion`` over the tables of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _tet_sql
from ._libraries import library
from ._session import Session

if TYPE_CHECKING:
    import datafusion


class DataFusionExtension(_tet_sql.Extension):
    """An extension for contexts of the package ``datafusion``. Create it with :func:`datafusion_extension`."""

    def __datafusion_session_components__(
        self, ctx: datafusion.SessionContext
    ) -> datafusion.SessionExtensionComponents:
        """The codecs, with which the context passes plans and tables to the session."""
        components = library("datafusion", "datafusion_extension()").SessionExtensionComponents
        return components(logical_extension_codecs=(self,), physical_extension_codecs=(self,))

    def register_functions(self, ctx: datafusion.SessionContext) -> None:
        """Registers the functions of the session that the package ``datafusion`` does not have with a context.

        >>> import datafusion, tet_sql
        >>> extension = tet_sql.datafusion_extension()
        >>> ctx = datafusion.SessionContext().with_extensions(extension)
        >>> extension.register_functions(ctx)
        >>> ctx.sql("SELECT season(DATE '2024-07-01') AS season").to_pydict()
        {'season': ['JJA']}
        """
        package = library("datafusion", "register_functions()")
        scalars, aggregates = self.functions()
        for function in scalars:
            ctx.register_udf(package.udf(function))
        for function in aggregates:
            ctx.register_udaf(package.udaf(function))


def datafusion_extension(session: Session | None = None) -> DataFusionExtension:
    """An extension with which the package ``datafusion`` plans and runs queries in a session.

    The context parses and optimizes queries over its tables with its own settings. The session plans and runs them
    with its settings, its memory limit and its threads. The context must outlive its data frames.
    ``Session.table`` and ``Session.sql`` return tables for ``register_table``. The extension is also the factory of
    tables for each of its ``formats``.

    >>> import datafusion, numpy, tet_sql
    >>> session = tet_sql.connect()
    >>> session.register("t", numpy.arange(6.0).reshape(2, 3), dims=["y", "x"])
    >>> ctx = datafusion.SessionContext().with_extensions(tet_sql.datafusion_extension(session))
    >>> ctx.register_table("t", session.table("t"))
    >>> ctx.sql("SELECT y, sum(value) AS total FROM t GROUP BY y ORDER BY y").to_pydict()
    {'y': [0, 1], 'total': [3.0, 12.0]}
    """
    return DataFusionExtension((Session() if session is None else session)._session)
