//! Predicates over several dimensions skip the chunks in which they are true for no cell.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::Int32Array;
use datafusion::physical_plan::displayable;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{register_rows, rows, sample, write};

const AXES: [(&str, usize); 3] = [("t", 18), ("y", 10), ("x", 20)];

type Truth = fn(usize, usize) -> bool;

/// Predicates over `y` and `x` that rule out chunks.
const PREDICATES: [(&str, Truth); 7] = [
    ("x = 2 * y", |y, x| x == 2 * y),
    ("(y, x) IN ((0, 0), (9, 19), (4, 7))", |y, x| {
        [(0, 0), (9, 19), (4, 7)].contains(&(y, x))
    }),
    ("y + x > 25", |y, x| y + x > 25),
    ("x = y * y AND y > 1", |y, x| x == y * y && y > 1),
    ("y + x > 9 AND x < 2 * y - 12", |y, x| {
        y + x > 9 && x + 12 < 2 * y
    }),
    // Null is not true.
    ("nullif(x, 2) = y OR nullif(y, 9) = x - 10", |y, x| {
        (x != 2 && x == y) || (y != 9 && x == y + 10)
    }),
    ("x * y = 23", |_, _| false),
];

fn dataset() -> (DatasetSpec, Vec<u8>) {
    let spec = DatasetSpec::new("a", Dtype::I32, &[18, 10, 20], &[7, 4, 6]);
    (spec.with_dim_names(["t", "y", "x"]), cells!(values()))
}

fn values() -> Vec<i32> {
    (0..3600).map(|number| number * 7919 % 1009).collect()
}

/// Returns the number of chunks of 7 x 4 x 6 cells with a cell for which a predicate is true.
fn chunks_with(truth: Truth) -> usize {
    let cells = (0..10).flat_map(|y| (0..20).map(move |x| (y, x)));
    let cells = cells.filter(|(y, x)| truth(*y, *x));
    3 * cells
        .map(|(y, x)| (y / 4, x / 6))
        .collect::<BTreeSet<_>>()
        .len()
}

async fn plan(ctx: &datafusion::prelude::SessionContext, sql: &str) -> String {
    let plan = ctx.sql(sql).await.unwrap().create_physical_plan().await;
    displayable(plan.unwrap().as_ref())
        .indent(false)
        .to_string()
}

#[tokio::test]
async fn chunks_without_a_true_combination_are_skipped() {
    let (_folder, _, ctx) = sample(&[dataset()], ArrayOptions::new()).await;
    register_rows(&ctx, "m", &AXES, Arc::new(Int32Array::from(values())));
    for (predicate, truth) in PREDICATES {
        for query in [
            "SELECT * FROM {table} WHERE {predicate} ORDER BY t, y, x",
            "SELECT y, count(*), sum(value) FROM {table} WHERE {predicate} GROUP BY y ORDER BY y",
            "SELECT count(*), max(value) FROM {table} WHERE {predicate} AND value > 500 AND t > 3",
        ] {
            let sql = |table| {
                query
                    .replace("{table}", table)
                    .replace("{predicate}", predicate)
            };
            let (found, expected) = (rows(&ctx, &sql("a")).await, rows(&ctx, &sql("m")).await);
            assert_eq!(found, expected, "{}", sql("a"));
        }
        let text = plan(&ctx, &format!("SELECT * FROM a WHERE {predicate}")).await;
        let expected = format!("chunks={} of 36,", chunks_with(truth));
        assert!(text.contains(&expected), "{expected} {text}");
    }
    // The cells are only ten times as many as the combinations.
    let text = plan(&ctx, "SELECT * FROM a WHERE t = x").await;
    assert!(text.contains("chunks=36 of 36,"), "{text}");
}

#[tokio::test]
async fn predicates_that_fail_on_skipped_cells() {
    let (_folder, _, ctx) = sample(&[dataset()], ArrayOptions::new()).await;
    // The division fails where x = y, and no combination is skipped because of that.
    let text = plan(&ctx, "SELECT * FROM a WHERE 10 / (x - y) = 10").await;
    assert!(text.contains("chunks=36 of 36,"), "{text}");
    // The other predicate selects cells on which the division succeeds.
    let sql = "SELECT * FROM a WHERE y < 2 AND x > 3 AND 10 / (x - y) = 2";
    let text = plan(&ctx, sql).await;
    assert!(text.contains("chunks=6 of 36,"), "{text}");
    let sql = sql.replace('*', "DISTINCT y, x") + " ORDER BY y, x";
    assert_eq!(rows(&ctx, &sql).await, ["0 4", "0 5", "1 5", "1 6"]);
}

#[tokio::test]
async fn chunks_of_many_files_are_skipped() {
    let (folder, _, ctx) = sample(&[dataset()], ArrayOptions::new()).await;
    write(&folder.path().join("second.tet"), &[dataset()]);
    let location = folder.path().join("*.tet");
    let create = format!(
        "CREATE EXTERNAL TABLE many STORED AS TET LOCATION '{}' OPTIONS (file_column true)",
        location.display()
    );
    ctx.sql(&create).await.unwrap();
    for (predicate, truth) in PREDICATES {
        let text = plan(&ctx, &format!("SELECT * FROM many WHERE {predicate}")).await;
        let expected = format!("chunks={} of 72,", 2 * chunks_with(truth));
        assert!(text.contains(&expected), "{expected} {text}");
        let twice = format!("SELECT 2 * count(*), 2 * sum(value) FROM a WHERE {predicate}");
        let many = format!("SELECT count(*), sum(value) FROM many WHERE {predicate}");
        assert_eq!(
            rows(&ctx, &many).await,
            rows(&ctx, &twice).await,
            "{predicate}"
        );
    }
}
