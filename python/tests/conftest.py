"""Files and arrays that several tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tet_sql

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


@pytest.fixture(scope="session")
def weather_path() -> Path:
    return DATA / "weather_small.tet"


@pytest.fixture
def weather(weather_path: Path) -> tet_sql.Session:
    return tet_sql.connect(weather_path)


@pytest.fixture(scope="session")
def grid() -> xr.Dataset:
    """Temperatures with a mask and a second coordinate, as xarray users have them."""
    random = np.random.default_rng(7)
    shape = (48, 6, 8)
    t2m = random.normal(280, 10, shape).astype("float32")
    t2m[3, 2, 1] = np.nan
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), t2m, {"units": "K", "long_name": "2 m temperature", "valid_min": 150.5}),
            "hits": (("time", "lat", "lon"), random.integers(0, 9, shape).astype("int16")),
            "mask": (("lat", "lon"), random.random(shape[1:]) > 0.5),
        },
        {
            "time": ("time", pd.date_range("2024-01-30", periods=48, freq="h"), {"axis": "T"}),
            "lat": ("lat", np.linspace(50, 25, 6), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(8) * np.float32(45.3), {"units": "degrees_east"}),
            "area": (("lat", "lon"), random.random(shape[1:])),
            "height": 2.0,
        },
    )
