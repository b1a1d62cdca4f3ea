"""The Python examples of the documentation."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import tet_sql


ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def files(weather_path, grid, tmp_path, monkeypatch):
    """The files that the examples refer to."""
    shutil.copy(weather_path, tmp_path / "weather.tet")
    shutil.copy(ROOT / "tests" / "data" / "stations.csv", tmp_path)
    grid.drop_vars("height").to_zarr(tmp_path / "era5.zarr", zarr_format=2)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", ["docs/python.md", "docs/coming-from-xarray.md"])
def test_examples_give_what_the_page_shows(files, page):
    text = (ROOT / page).read_text(encoding="utf-8")
    # Blank lines in place of the text between the examples, so that line numbers are those of the page.
    lines = []
    end = 0
    for block in FENCE.finditer(text):
        lines.append("\n" * text.count("\n", end, block.start(1)) + block[1])
        end = block.end(1)
    examples = doctest.DocTestParser().get_doctest("".join(lines), {}, page, page, 0)
    assert examples.examples
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert results.failed == 0


def test_missing_cells_count_as_in_xarray():
    page = (ROOT / "docs/coming-from-xarray.md").read_text(encoding="utf-8")
    values = np.random.default_rng(3).permutation(72).reshape(6, 3, 4).astype("f8")
    # The first cells and all cells of a series, among others.
    values[values < 24] = np.nan
    values[:2, 1, 1] = values[:, 0, 0] = np.nan
    values[:, 2, 2] = 70 + np.arange(6)
    coords = {"time": np.arange("2024-01-01", "2024-01-07", dtype="M8[D]"), "lat": [1, 2, 3], "lon": [0, 1, 2, 3]}
    t = xr.DataArray(values, coords, ("time", "lat", "lon"), name="value")
    session = tet_sql.connect()
    session.register("t", t)
    ranks = t.copy(data=(values[:, None] >= values).sum(axis=1)).where(t.notnull())
    recipes = {
        "bool_or(value > 25 IS TRUE)": (t > 25).any("time"),
        "bool_and(value > 25 IS TRUE)": (t > 25).all("time"),
        "coalesce(sum(value), 0)": t.sum("time"),
        "coalesce(sum(value) OVER (ORDER BY time), 0)": t.cumsum("time"),
        # `DataArray.rank` needs the package bottleneck.
        "CASE WHEN value IS NOT NULL THEN rank() OVER (ORDER BY value) END": ranks,
    }
    for recipe, expected in recipes.items():
        assert f"`{recipe}`" in page
        if "OVER" in recipe:
            query = f"SELECT *, {recipe.replace('OVER (', 'OVER (PARTITION BY lat, lon ')} AS found FROM t"
        else:
            query = f"SELECT lat, lon, {recipe} AS found FROM t GROUP BY lat, lon"
        np.testing.assert_allclose(session.sql(query).to_xarray().found, expected)


def test_the_readme_runs(files):
    (block,) = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    variables: dict[str, object] = {}
    exec(block, variables)
    assert variables["means"].sizes == {"time": 48} and variables["warm"].sizes == {"lat": 6, "lon": 8}
