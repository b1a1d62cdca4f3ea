"""Columns and their attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: The metadata key that marks a dimension.
DIMENSION = "tet:dimension"
#: The prefix of metadata that is not an attribute.
OWN_PREFIX = "tet:"


@dataclass(frozen=True)
class Field:
    """A column of a table or of a result."""

    #: The name of the column.
    name: str
    #: The Arrow type, such as ``Float32`` or ``Timestamp(Microsecond, None)``.
    type: str
    #: ``True`` if the column is a dimension of an array.
    is_dimension: bool = False
    #: Attributes such as ``units`` and ``long_name``.
    attributes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def _of(cls, name: str, type: str, metadata: Mapping[str, str]) -> Field:
        attributes = {key: text for key, text in metadata.items() if not key.startswith(OWN_PREFIX)}
        return cls(name, type, DIMENSION in metadata, dict(sorted(attributes.items())))


class Schema:
    """The columns of a table or of a result, in order.

    >>> import numpy as np, tet_sql
    >>> session = tet_sql.connect()
    >>> session.register("t", np.zeros((2, 3)), dims=["y", "x"])
    >>> session.schema("t")
    y      Int64    dimension
    x      Int64    dimension
    value  Float64
    """

    def __init__(self, query: Any) -> None:
        self._query = query
        self.fields = [Field._of(*described) for described in query.fields()]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: int | str) -> Field:
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(key)

    def __arrow_c_schema__(self) -> object:
        return self._query.__arrow_c_schema__()

    def __repr__(self) -> str:
        names = max((len(field.name) for field in self.fields), default=0)
        types = max((len(field.type) for field in self.fields), default=0)
        lines = []
        for field in self.fields:
            mark = "dimension" if field.is_dimension else ""
            units = field.attributes.get("units", "")
            line = f"{field.name:{names}}  {field.type:{types}}  {mark:9}  {units}"
            lines.append(line.rstrip())
        return "\n".join(lines)
