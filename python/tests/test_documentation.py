"""The Python examples of the documentation."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import pytest


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


def test_the_readme_runs(files):
    (block,) = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    variables: dict[str, object] = {}
    exec(block, variables)
    assert variables["means"].sizes == {"time": 48} and variables["warm"].sizes == {"lat": 6, "lon": 8}
