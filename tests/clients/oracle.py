"""Compares `tet-sql serve` with DuckDB over the same arrays, for generated queries.

    tests/clients/run oracle.py [--cases 300] [--seed 0]

The other generated tests compare DataFusion with DataFusion, so they cannot see a fault of
DataFusion itself. Here the expected rows come from DuckDB over the same cells as rows. The queries
stress what is special about arrays: all tables have `value` and share dimensions, so joins are full
of same-named columns, and cells are null, infinite, or a zero of either sign.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import sys
import tempfile

import duckdb
import numpy
import pyarrow

import adbc

DIMENSIONS = ("x", "y", "z")
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0)
SHOWN_FAILURES = 20

Array = collections.namedtuple("Array", ["schema", "name", "dimensions", "cells"])
Table = collections.namedtuple("Table", ["alias", "columns"])


def write_zarr(path, coordinates, arrays):
    """Writes a Zarr version 2 group of uncompressed chunks with two cells along each axis."""
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    variables = {name: ((name,), numpy.asarray(values)) for name, values in coordinates.items()}
    variables |= {array.name: (array.dimensions, array.cells) for array in arrays}
    for name, (dimensions, cells) in variables.items():
        folder = path / name
        folder.mkdir()
        metadata = {
            "zarr_format": 2,
            "shape": cells.shape,
            "chunks": [2] * cells.ndim,
            "dtype": cells.dtype.str,
            "compressor": None,
            "filters": None,
            "fill_value": None,
            "order": "C",
        }
        (folder / ".zarray").write_text(json.dumps(metadata))
        (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": dimensions}))
        padded = numpy.zeros([length + length % 2 for length in cells.shape], cells.dtype)
        padded[tuple(slice(length) for length in cells.shape)] = cells
        for chunk in numpy.ndindex(*(length // 2 for length in padded.shape)):
            corner = tuple(slice(2 * index, 2 * index + 2) for index in chunk)
            (folder / ".".join(map(str, chunk))).write_bytes(padded[corner].tobytes())


def make_data(folder, choose, connection):
    """Writes two Zarr stores, and creates the same tables in DuckDB."""
    every = {"x": [10, 20, 30, 40, 50], "y": [-1.5, 0.0, 1.5, 33.3], "z": [7, 3, 5]}
    other = {"x": [50, 30, 60, 10], "y": [-1.5, 0.0, 1.5, 33.3], "z": [7, 3, 5]}

    def floats(coordinates, dimensions, dtype="<f8"):
        shape = [len(coordinates[name]) for name in dimensions]
        cells = [choose.choice(SPECIAL) if choose.random() < 0.3 else choose.randint(-4, 4) * 0.5
                 for _ in range(math.prod(shape))]
        return numpy.array(cells, dtype).reshape(shape)

    def integers(coordinates, dimensions):
        shape = [len(coordinates[name]) for name in dimensions]
        return numpy.array([choose.randint(-3, 3) for _ in range(math.prod(shape))], "<i4").reshape(shape)

    stores = {
        "a": (every, [("p", "xy", floats), ("q", "xy", floats), ("i", "xy", integers), ("r", "y", floats),
                      ("t", "xyz", floats)]),
        "b": (other, [("p", "xy", floats), ("i", "xy", integers), ("t", "xyz", floats)]),
    }
    paths, arrays = [], []
    for schema, (coordinates, variables) in stores.items():
        mine = [Array(schema, name, tuple(dimensions), make(coordinates, dimensions))
                for name, dimensions, make in variables]
        path = folder / f"{schema}.zarr"
        write_zarr(path, coordinates, mine)
        connection.execute(f"CREATE SCHEMA {schema}")
        for array in mine:
            axes = numpy.meshgrid(*(coordinates[name] for name in array.dimensions), indexing="ij")
            columns = {name: axis.ravel() for name, axis in zip(array.dimensions, axes)}
            columns["value"] = pyarrow.array(array.cells.ravel(), from_pandas=True)
            rows = pyarrow.table(columns)
            connection.register("cells", rows)
            connection.execute(f"CREATE TABLE {schema}.{array.name} AS SELECT * FROM cells")
            connection.unregister("cells")
        paths.append(path)
        arrays += mine
    return paths, arrays


class Queries:
    """Random queries in SQL that means the same in both systems."""

    def __init__(self, choose, arrays):
        self.choose = choose
        self.arrays = arrays

    def one(self):
        kind = self.choose.random()
        if kind < 0.15:
            return self.set_operation()
        return self.select()

    def chance(self, probability):
        return self.choose.random() < probability

    def source(self, alias):
        """Returns a table for the FROM clause, and its columns."""
        kind = self.choose.random()
        if kind < 0.75:
            array = self.choose.choice(self.arrays)
            columns = (*array.dimensions, "value")
            return f"{array.schema}.{array.name} {alias}", Table(alias, columns)
        if kind < 0.9:
            # Cast, since the type of a column with only NULLs differs between DataFusion and DuckDB.
            rows = ", ".join(f"({self.choose.choice((10, 30, 50, 70))}, CAST({self.literal('value')} AS DOUBLE))"
                             for _ in range(self.choose.randint(1, 4)))
            return f"(VALUES {rows}) {alias}(x, value)", Table(alias, ("x", "value"))
        array = self.choose.choice(self.arrays)
        by = self.choose.choice(array.dimensions)
        inner = Table("inside", (*array.dimensions, "value"))
        where = f" WHERE {self.predicate([inner], 1)}" if self.chance(0.5) else ""
        function = self.choose.choice(("max", "min", "count"))
        return (f"(SELECT {by}, {function}(value) AS value FROM {array.schema}.{array.name} inside{where}"
                f" GROUP BY {by}) {alias}", Table(alias, (by, "value")))

    def literal(self, column):
        if column == "x":
            return str(self.choose.choice((10, 20, 30, 40, 50, 60)))
        if column == "y":
            return self.choose.choice(("-1.5", "0.0", "1.5", "33.3"))
        if column == "z":
            return str(self.choose.choice((3, 5, 7)))
        return self.choose.choice(("-1.0", "-0.5", "0.0", "0.5", "1.0", "2.0", "NULL"))

    def column(self, tables, name=None):
        table = self.choose.choice([one for one in tables if name is None or name in one.columns])
        name = name or self.choose.choice(table.columns)
        return f"{table.alias}.{name}", name

    def operand(self, tables):
        """Returns a column or a small expression over one, and the name of the column."""
        column, name = self.column(tables)
        if name == "value" and self.chance(0.3):
            other, _ = self.column(tables, "value")
            column = self.choose.choice((f"coalesce({column}, 0.0)", f"coalesce({column}, {other})", f"abs({column})",
                                         f"CASE WHEN {column} = 0.0 THEN 1.0 ELSE {column} END"))
        return column, name

    def predicate(self, tables, depth):
        kind = self.choose.random()
        if depth > 0 and kind < 0.5:
            joined = self.choose.choice((" AND ", " OR ")).join(
                self.predicate(tables, depth - 1) for _ in range(self.choose.randint(2, 3)))
            return f"NOT ({joined})" if self.chance(0.2) else f"({joined})"
        left, name = self.operand(tables)
        kind = self.choose.random()
        negated = "NOT " if self.chance(0.4) else ""
        if kind < 0.3:
            return f"{left} {self.choose.choice(COMPARISONS)} {self.literal(name)}"
        if kind < 0.5:
            same = [table for table in tables if name in table.columns]
            right, _ = self.column(same, name)
            return f"{left} {self.choose.choice(COMPARISONS)} {right}"
        if kind < 0.6:
            return f"{left} IS {negated}NULL"
        if kind < 0.7:
            right = self.literal(name) if self.chance(0.5) else self.column(tables, name)[0]
            return f"{left} IS {negated}DISTINCT FROM {right}"
        if kind < 0.85:
            members = ", ".join(self.literal(name) for _ in range(self.choose.randint(1, 5)))
            return f"{left} {negated}IN ({members})"
        if kind < 0.9:
            return f"{left} {negated}BETWEEN {self.literal(name)} AND {self.literal(name)}"
        return f"{left} {negated}IN ({self.members(name)})"

    def members(self, name):
        """Returns a subquery for one column of the given name."""
        holders = [array for array in self.arrays if name in (*array.dimensions, "value")]
        array = self.choose.choice(holders)
        table = Table("m", (*array.dimensions, "value"))
        return f"SELECT m.{name} FROM {array.schema}.{array.name} m WHERE {self.predicate_of_array(table)}"

    def predicate_of_array(self, table):
        """Returns a predicate without a subquery."""
        column, name = self.column([table])
        if self.chance(0.3):
            return f"{column} IS NOT NULL"
        return f"{column} {self.choose.choice(COMPARISONS)} {self.literal(name)}"

    def from_clause(self):
        text, table = self.source("t0")
        tables = [table]
        for number in range(1, self.choose.choice((1, 2, 2, 2, 3, 3))):
            right, table = self.source(f"t{number}")
            left = self.choose.choice(tables)
            shared = [name for name in left.columns if name in table.columns and name != "value"]
            if not shared:
                shared = ["value"]
            if len(shared) > 1 and self.chance(0.3):
                shared = self.choose.sample(shared, len(shared) - 1)
            conditions = [f"{left.alias}.{name} = {table.alias}.{name}" for name in shared]
            if self.chance(0.2):
                conditions.append(f"{left.alias}.value {self.choose.choice(COMPARISONS)} {table.alias}.value")
            text += f" {self.choose.choice(JOINS)} {right} ON {' AND '.join(conditions)}"
            tables.append(table)
        return text, tables

    def using(self):
        """Returns a join with USING, whose keys are columns without a qualifier."""
        left, right = self.choose.sample([array for array in self.arrays if len(array.dimensions) == 2], 2)
        join = self.choose.choice(JOINS)
        where = self.choose.choice(("", " WHERE x > 20", " WHERE l.value IS NULL OR y = 0.0", " WHERE r.value > 0"))
        columns = self.choose.choice(("*", "x, y, l.value, r.value", "x, count(*), count(l.value)", "y, max(r.value)"))
        group = {"x, c": " GROUP BY x", "y, m": " GROUP BY y"}.get(columns[:4], "")
        return (f"SELECT {columns} FROM {left.schema}.{left.name} l {join} {right.schema}.{right.name} r USING (x, y)"
                f"{where}{group}")

    def select(self):
        if self.chance(0.1):
            return self.using()
        source, tables = self.from_clause()
        where = f" WHERE {self.predicate(tables, 2)}" if self.chance(0.8) else ""
        kind = self.choose.random()
        if kind < 0.4:
            columns = [self.operand(tables)[0] for _ in range(self.choose.randint(1, 3))]
            distinct = "DISTINCT " if self.chance(0.2) else ""
            numbered = ", ".join(f"{column} AS c{index}" for index, column in enumerate(columns))
            return f"SELECT {distinct}{numbered} FROM {source}{where}"
        results = ", ".join(f"{self.aggregate(tables)} AS a{index}" for index in range(self.choose.randint(1, 3)))
        if kind < 0.6:
            return f"SELECT {results} FROM {source}{where}"
        keys = ", ".join(sorted({self.column(tables)[0] for _ in range(self.choose.randint(1, 2))}))
        having = f" HAVING count(*) > {self.choose.randint(1, 3)}" if self.chance(0.2) else ""
        named = ", ".join(f"{key} AS k{index}" for index, key in enumerate(keys.split(", ")))
        return f"SELECT {named}, {results} FROM {source}{where} GROUP BY {keys}{having}"

    def aggregate(self, tables):
        function = self.choose.choice(("count", "count", "sum", "min", "max", "avg"))
        if function == "count" and self.chance(0.5):
            return "count(*)"
        column, name = self.operand(tables)
        if function == "count" and self.chance(0.3):
            return f"count(DISTINCT {column})"
        condition = f" FILTER (WHERE {self.predicate(tables, 0)})" if self.chance(0.15) else ""
        if condition and " IN (SELECT" in condition:
            condition = ""
        return f"{function}({column}){condition}"

    def set_operation(self):
        """Returns a union or another set operation over several arrays, sometimes below an aggregate."""
        holders = [array for array in self.arrays if len(array.dimensions) == 2]
        sides = []
        for _ in range(self.choose.randint(2, 3)):
            array = self.choose.choice(holders)
            table = Table("s", (*array.dimensions, "value"))
            where = f" WHERE {self.predicate([table], 1)}" if self.chance(0.6) else ""
            sides.append(f"SELECT {{columns}} FROM {array.schema}.{array.name} s{where}")
        operation = self.choose.choice(
            (" UNION ALL ", " UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT ", " EXCEPT ALL ", " INTERSECT ALL "))
        if "UNION" not in operation:
            sides = sides[:2]
        columns = self.choose.choice(("s.x, s.value", "s.value", "s.x", "s.x, s.y, s.value"))
        text = operation.join(sides).format(columns=columns)
        kind = self.choose.random()
        if kind < 0.4:
            return text
        if kind < 0.7 or "value" not in columns or "x" not in columns:
            return f"SELECT count(*) AS n FROM ({text}) u"
        return f"SELECT u.x, count(*) AS n, max(u.value) AS top, sum(u.value) AS total FROM ({text}) u GROUP BY u.x"


def normal(value):
    """Returns a value as text, in a form that is equal for equal answers of both systems."""
    if value is None:
        return "NULL"
    value = float(value)
    if math.isnan(value) or math.isinf(value):
        return str(abs(value) if math.isnan(value) else value)
    # Round, since sums may be added in another order. Zeros of both signs are equal.
    return f"{round(value, 9) + 0.0:.9g}"


def multiset(rows):
    return collections.Counter(tuple(map(normal, row)) for row in rows)


def difference(expected, found):
    """Describes how two multisets of rows differ, or returns None if they are equal."""
    if expected == found:
        return None
    missing, extra = expected - found, found - expected
    return (f"{expected.total()} rows expected, {found.total()} found; missing {list(missing.items())[:4]},"
            f" not expected {list(extra.items())[:4]}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("binary")
    arguments.add_argument("--cases", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--per-file", type=int, default=250, help="queries over the same arrays")
    arguments = arguments.parse_args()
    passed, failed, refused = 0, 0, 0
    for round_number, start in enumerate(range(0, arguments.cases, arguments.per_file)):
        choose = random.Random(arguments.seed * 1_000_003 + round_number)
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as truth:
            paths, arrays = make_data(pathlib.Path(folder), choose, truth)
            queries = Queries(choose, arrays)
            with adbc.server(arguments.binary, files=paths) as address, adbc.cursor(address) as ask:
                for _ in range(min(arguments.per_file, arguments.cases - start)):
                    sql = queries.one()
                    try:
                        expected = multiset(truth.execute(sql).fetchall())
                    except duckdb.Error:
                        refused += 1
                        continue
                    try:
                        problem = difference(expected, multiset(adbc.rows(ask, sql)))
                    except adbc.adbc_driver_manager.Error as error:
                        problem = str(error)
                    if problem is None:
                        passed += 1
                        continue
                    failed += 1
                    if failed <= SHOWN_FAILURES:
                        print(f"seed {arguments.seed}, round {round_number}: {sql}\n    {problem}", file=sys.stderr)
    print(f"{refused} queries refused by DuckDB")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
