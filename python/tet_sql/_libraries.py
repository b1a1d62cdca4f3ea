"""Libraries that are imported when they are first needed."""

from __future__ import annotations

import importlib
from types import ModuleType

#: What to install for libraries of which only some versions work.
REQUIREMENTS = {"datafusion": "'datafusion>=55,<56'"}


def library(name: str, purpose: str) -> ModuleType:
    """Imports a library, or explains how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        requirement = REQUIREMENTS.get(name, name)
        raise ImportError(f"{purpose} needs {name}, which is not installed: pip install {requirement}") from error
