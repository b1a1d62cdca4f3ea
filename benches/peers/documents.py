#!/usr/bin/env python3
"""Measures DuckDB over the Parquet file of documents that `cargo bench` wrote.

    python3 benches/peers/documents.py FOLDER [NUMBER OF DOCUMENTS]

FOLDER is the directory of the benchmark's files (TET_SQL_BENCH_DATA), and the number is that of `cargo bench --
--documents N`, by default a million. Queries run in one process with the settings of DuckDB, as those of `cargo bench` do
with the settings of DataFusion. Rows are fetched as NumPy arrays. Bodies are not fetched, since Python would take most of
the time: the sum of their lengths reads all of them. DuckDB's search extension is not measured, because it has no index
over Parquet; `both words` tests every body.

Each figure is the min of five runs after a warm-up run, or of as many runs as fit into a minute.
"""

import pathlib
import sys

import duckdb
from peers import best

RECIPE = 1
# The words of ranks 200 and 2000, as the benchmark writes them.
COMMON, RARE = "lorin", "basokin"


def queries(count):
    lookup = count * 2 // 3
    return {
        "two columns": "SELECT ts, len FROM {t}",
        "two texts": "SELECT sum(strlen(url)), sum(strlen(lang)) FROM {t}",
        "bodies": "SELECT sum(id), sum(strlen(body)) FROM {t}",
        "by host": "SELECT host, count(*), sum(len) FROM {t} WHERE lang = 'en' GROUP BY host",
        "by id": f"SELECT url, len, body FROM {{t}} WHERE id = {lookup}",
        "by url": f"SELECT id, len, body FROM {{t}} WHERE url = (SELECT url FROM {{t}} WHERE id = {lookup})",
        "both words": rf"SELECT count(*), sum(len) FROM {{t}} WHERE body LIKE '% {COMMON}%' AND body LIKE '% {RARE}%' "
        rf"AND regexp_matches(body, '\b{COMMON}\b') AND regexp_matches(body, '\b{RARE}\b')",
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    parquet = folder / f"documents-{RECIPE}-{count}.parquet"
    connection = duckdb.connect()
    print(f"DuckDB {duckdb.__version__}, {count} documents\n\n| query | ms | rows | first row |\n| --- | --: | --: | --- |")
    for name, sql in queries(count).items():
        sql = sql.format(t=f"'{parquet}'")
        answer, seconds = best(lambda: connection.sql(sql).fetchnumpy())
        columns = list(answer.values())
        rows = len(columns[0])
        first = [str(column[0])[:40] for column in columns] if rows == 1 else ""
        print(f"| {name} | {seconds * 1e3:.2f} | {rows} | {first} |", flush=True)


if __name__ == "__main__":
    main()
