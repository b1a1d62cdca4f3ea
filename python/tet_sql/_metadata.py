"""Attributes of xarray objects as field metadata, whose values are text, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ._schema import OWN_PREFIX

#: Lists the attributes whose text is JSON, because their values are not text.
JSON = "tet:json"
#: The NumPy type of coordinates that have another type in SQL.
DTYPE = "tet:dtype"
#: Marks a dimension without coordinates.
INDEX = "tet:index"
#: The dimensions of a variable that is repeated along further dimensions, as JSON.
DIMS = "tet:dims"
#: Marks a column of `cftime` dates and names their calendar. The mark is empty if the column has texts that only look
#: like dates.
CALENDAR_MARK = "tet:calendar"
#: Marks a variable that is a coordinate.
COORDINATE = "tet:coordinate"
#: The attributes of a column's Dataset, as JSON.
ATTRIBUTES = "tet:attributes"


def encoded(attributes: Mapping[Any, Any]) -> dict[str, str]:
    """Returns attributes as text. Values without a JSON form are written as ``str`` writes them."""
    texts: dict[str, str] = {}
    as_json = []
    for key, value in attributes.items():
        if not isinstance(value, str):
            value = value.tolist() if hasattr(value, "tolist") else value
            try:
                value = json.dumps(value)
                as_json.append(str(key))
            except TypeError:
                value = str(value)
        texts[str(key)] = value
    if as_json:
        texts[JSON] = json.dumps(as_json)
    return texts


def decoded(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Returns the attributes that `encoded` wrote, or text attributes of a file."""
    as_json = json.loads(metadata.get(JSON, "[]"))
    return {
        key: json.loads(text) if key in as_json else text
        for key, text in sorted(metadata.items())
        if not key.startswith(OWN_PREFIX)
    }


def common_attributes(columns: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Returns the attributes of the Datasets of columns. Attributes with different values are dropped."""
    texts = {metadata[ATTRIBUTES] for metadata in columns if ATTRIBUTES in metadata}
    datasets = [decoded(json.loads(text)) for text in sorted(texts)]
    # `repr` also compares NaN and lists.
    values = {key: {repr(one[key]) for one in datasets if key in one} for one in datasets for key in one}
    return {key: one[key] for one in datasets for key in one if len(values[key]) == 1}
