"""Dates of calendars that NumPy does not have: text in SQL, objects of the package ``cftime`` in xarray."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ._libraries import library

#: The attribute that names the calendar of dates as text.
CALENDAR = "calendar"

_DATE = re.compile(r"(-?\d{1,5})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")


def calendar_of(values: Iterable[Any]) -> str | None:
    """Returns the calendar of ``cftime`` objects; ``None`` for other values, or if their calendars differ."""
    calendars = {getattr(value, CALENDAR, None) for value in values}
    return calendars.pop() if len(calendars) == 1 else None


def dates(texts: Any, metadata: Mapping[str, str]) -> Any | None:
    """Returns dates as text as objects of ``cftime``.

    Returns ``None`` if the column has no calendar, if a text is not a date, or if ``cftime`` is not installed.
    """
    calendar = metadata.get(CALENDAR)
    if calendar is None or texts.dtype != object or importlib.util.find_spec("cftime") is None:
        return None
    cftime = library("cftime", "Relation.to_xarray()")
    found = texts.copy()
    for cell, text in enumerate(texts.reshape(-1).tolist()):
        if text is None:
            continue
        match = _DATE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        *fields, fraction = match.groups()
        microseconds = int((fraction or "").ljust(6, "0"))
        numbers = [int(field or 0) for field in fields]
        try:
            found.reshape(-1)[cell] = cftime.datetime(*numbers, microseconds, calendar=calendar)
        except ValueError:
            return None
    return found
