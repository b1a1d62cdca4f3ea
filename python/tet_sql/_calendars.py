"""Dates of calendars that NumPy does not have: text in SQL, objects of the package ``cftime`` in xarray."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ._libraries import library
from ._metadata import CALENDAR_MARK
from ._schema import DIMENSION

#: The attribute that names the calendar of dates as text.
CALENDAR = "calendar"

_DATE = re.compile(r"(-?\d{1,5})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")


def is_missing(value: Any) -> bool:
    """Returns ``True`` for ``None``, NaN, NaT and ``pandas.NA``."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        # `pandas.NA` is neither equal to itself nor different.
        return True
    except ValueError:
        # Arrays are compared cell by cell.
        return False


def calendar_of(values: Iterable[Any]) -> str | None:
    """Returns the calendar of ``cftime`` objects, which may be missing (``None`` or NaN).

    Returns ``None`` for other values, or if the calendars differ.
    """
    calendars = {getattr(value, CALENDAR, None) for value in values if not is_missing(value)}
    return calendars.pop() if len(calendars) == 1 else None


def stored_calendar(metadata: Mapping[str, str]) -> str | None:
    """Returns the calendar of a column of dates as text; ``None`` if the column is not known to have dates.

    Registered columns have a mark. Columns of files have only the attribute, which is text of any meaning unless the
    column is a dimension.
    """
    if CALENDAR_MARK in metadata:
        return metadata[CALENDAR_MARK] or None
    return metadata.get(CALENDAR) if DIMENSION in metadata else None


def dates(texts: Any, calendar: str) -> Any | None:
    """Returns dates as text as objects of ``cftime``.

    Returns ``None`` if a text is not a date of the calendar, or if ``cftime`` is not installed.
    """
    if texts.dtype != object or importlib.util.find_spec("cftime") is None:
        return None
    cftime = library("cftime", "Relation.to_xarray()")
    try:
        # xarray selects by text, such as "2001-03", only among objects of the calendar's own class.
        date = type(cftime.num2date(0, "days since 2000-01-01", calendar, only_use_cftime_datetimes=True))
    except ValueError:
        return None
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
            found.reshape(-1)[cell] = date(*numbers, microseconds)
        except ValueError:
            return None
    return found
