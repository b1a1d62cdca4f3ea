"""The queries of the cookbook, whose answers are those of the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tet_sql

ROOT = Path(__file__).resolve().parents[2]
#: Pages that need the second file of the Rust tests, which these tests do not have.
PAGES = [page for page in sorted((ROOT / "queries").glob("*.slt")) if "second" not in page.read_text(encoding="utf-8")]


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """Returns the number of the first line of each block, this line, and the other lines."""
    found = []
    number = 1
    for block in re.split(r"\n{2,}", page.read_text(encoding="utf-8").rstrip("\n")):
        lines = block.split("\n")
        comments = next((index for index, line in enumerate(lines) if line and not line.startswith("#")), len(lines))
        if comments < len(lines):
            found.append((number + comments, lines[comments], "\n".join(lines[comments + 1 :])))
        number += len(lines) + 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_answers(page, weather_path, tmp_path):
    session = tet_sql.connect(weather_path, threads=4)
    compared = 0
    for line, kind, rest in blocks(page):
        sql, _, expected = rest.partition("\n----")
        sql = sql.replace("${data}", str(ROOT / "tests" / "data")).replace("${scratch}", str(tmp_path))
        if message := re.match(r"(?:query|statement) error ?(.*)", kind):
            with pytest.raises(tet_sql.Error, match=message[1] or None):
                session.sql(sql).arrow()
        elif kind == "statement ok":
            session.sql(sql)._query.collect()
        elif kind.startswith("query") and not sql.lstrip().startswith("EXPLAIN"):
            rows = session.sql(sql)._query.collect().rows(1000)
            found = [" ".join("NULL" if value is None else value or "(empty)" for value in row).rstrip() for row in rows]
            wanted = [row.rstrip() for row in expected.strip("\n").split("\n") if row]
            if kind.endswith("rowsort"):
                found, wanted = sorted(found), sorted(wanted)
            assert found == wanted, f"{page.name}:{line}"
            compared += 1
    assert compared
