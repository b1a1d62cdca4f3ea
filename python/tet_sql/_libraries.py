"""Libraries that are imported when they are first needed."""

from __future__ import annotations

import importlib
from types import ModuleType


def library(name: str, purpose: str) -> ModuleType:
    """Imports a library, or explains how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{purpose} needs {name}, which is not installed: pip install {name}") from error
