"""Settings and options as text."""

from __future__ import annotations

import os
from typing import Any


def as_text(value: Any) -> str:
    """Returns the value of a setting or an option as text. A list has commas between its values."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
