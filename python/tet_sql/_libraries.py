"""Libraries that are imported when they are first needed."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

#: What to install for libraries of which only some versions work.
REQUIREMENTS = {"datafusion": "'datafusion>=55,<56'"}


def library(name: str, purpose: str) -> ModuleType:
    """Imports a library, or explains how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        requirement = REQUIREMENTS.get(name, name)
        raise ImportError(f"{purpose} needs {name}, which is not installed: pip install {requirement}") from error


def is_a(obj: Any, module: str, name: str) -> bool:
    """Returns ``True`` if an object is of a class of a library, which is not imported for the test."""
    imported = sys.modules.get(module)
    return imported is not None and isinstance(obj, getattr(imported, name))
