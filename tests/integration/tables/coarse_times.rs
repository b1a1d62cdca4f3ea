//! Times of seconds, milliseconds and microseconds beside constants with more digits. The expected answers are those of
//! the same times in nanoseconds.

use crate::support::sql::{rows, session};

const UNITS: [(&str, &str); 3] = [
    ("s", "Second"),
    ("ms", "Millisecond"),
    ("us", "Microsecond"),
];

const CONSTANTS: [&str; 12] = [
    "'1969-12-31T23:59:58.5'",
    "'2024-01-01T00:00:00.5'",
    "'2024-01-01T00:00:00'",
    "TIMESTAMP '2024-01-01T00:00:00.0005'",
    "TIMESTAMP '1969-12-20 04:59:59.999999999'",
    "CAST('2024-01-01T00:00:00.000000001' AS TIMESTAMP)",
    "CAST('2024-01-01T00:00:00.25' AS TIMESTAMP(3))",
    "TIMESTAMP '1970-01-01' - INTERVAL '1500 milliseconds'",
    "to_timestamp('2024-01-01T00:00:00.5')",
    "TRY_CAST('2024-01-01T00:00:00.5' AS TIMESTAMP)",
    "CASE WHEN true THEN TIMESTAMP '1969-12-31T23:59:58.000001' END",
    "NULL",
];

const PREDICATES: [&str; 18] = [
    "{t} = {c}",
    "{t} <> {c}",
    "{t} < {c}",
    "{c} < {t}",
    "{t} <= {c}",
    "{t} > {c}",
    "{c} <= {t}",
    "{t} IS DISTINCT FROM {c}",
    "{t} IS NOT DISTINCT FROM {c}",
    "{t} BETWEEN {c} AND '2024-01-01T00:00:00.7'",
    "{t} NOT BETWEEN '1969-12-20T05:00:00.1' AND {c}",
    "{t} IN ({c})",
    "{t} IN ({c}, '1969-12-31T23:59:58')",
    "{t} NOT IN ({c}, '1969-12-20T05:00:00')",
    "NOT ({t} >= {c} OR {t} IS NULL)",
    "CAST({t} AS TIMESTAMP(9)) >= {c}",
    "{c} BETWEEN {t} AND {t}",
    "{c} NOT BETWEEN '1970-01-01' AND {t}",
];

#[tokio::test]
async fn times_are_compared_with_all_digits() {
    let ctx = session();
    let casts =
        UNITS.map(|(name, unit)| format!("arrow_cast(n, 'Timestamp({unit}, None)') AS {name}"));
    let zone = "arrow_cast(arrow_cast(n, 'Timestamp(Second, None)'), 'Timestamp(Second, Some(\"UTC\"))') AS z";
    let sql = format!(
        "CREATE TABLE t AS SELECT n, {}, {zone}, arrow_cast(n, 'Timestamp(Nanosecond, Some(\"UTC\"))') AS zn
         FROM (VALUES (TIMESTAMP '1969-12-20T05:00:00'), (TIMESTAMP '1969-12-31T23:59:58'),
               (TIMESTAMP '1970-01-01'), (TIMESTAMP '2024-01-01'), (NULL)) AS v(n)",
        casts.join(", ")
    );
    rows(&ctx, &sql).await;
    for constant in CONSTANTS {
        for predicate in PREDICATES {
            let of = |column: &str| predicate.replace("{c}", constant).replace("{t}", column);
            let columns = ["s", "ms", "us"].map(|column| (column, "n"));
            for (column, exact) in columns.into_iter().chain([("z", "zn")]) {
                for filter in ["", " WHERE {}"] {
                    let filter = |column| filter.replace("{}", &of(column));
                    let sql = |column| {
                        format!(
                            "SELECT n, {} FROM t{} ORDER BY n",
                            of(column),
                            filter(column)
                        )
                    };
                    let found = rows(&ctx, &sql(column)).await;
                    assert_eq!(found, rows(&ctx, &sql(exact)).await, "{}", sql(column));
                }
            }
        }
    }
}
