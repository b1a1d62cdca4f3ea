//! Plans before and after the rules that evaluate in array space.

use std::fmt::Write;

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{rows, sample};

async fn plan(ctx: &SessionContext, sql: &str) -> String {
    let explained = rows(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let plan = explained
        .iter()
        .find_map(|row| row.strip_prefix("physical_plan "));
    plan.unwrap().trim_end().to_string()
}

async fn before_and_after(ctx: &SessionContext, queries: &[&str]) -> String {
    let mut text = String::new();
    for sql in queries {
        writeln!(text, "{sql}").unwrap();
        for (state, are_wanted) in [("before", false), ("after", true)] {
            for rule in ["zip_joins", "array_aggregates"] {
                rows(ctx, &format!("SET tet.{rule} = {are_wanted}")).await;
            }
            writeln!(text, "-- {state}\n{}", plan(ctx, sql).await).unwrap();
        }
        text.push('\n');
    }
    text
}

#[tokio::test]
async fn plans_before_and_after_the_rules() {
    let array = |name: &str, chunks: &[u64; 3]| {
        let spec = DatasetSpec::new(name, Dtype::F32, &[4, 5, 6], chunks)
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("lat", ["-20", "-10", "0", "10", "20"]);
        (spec, cells!((0..120).map(|n| n as f32)))
    };
    let datasets = [array("a", &[3, 2, 4]), array("b", &[2, 5, 3])];
    let (_folder, _, ctx) = sample(&datasets, ArrayOptions::new()).await;
    rows(&ctx, "SET datafusion.execution.target_partitions = 3").await;
    let aggregates = [
        "SELECT avg(value) FROM a",
        "SELECT lat, lon, max(value) FROM a WHERE time > 0 GROUP BY lat, lon",
        "SELECT lat, sum(value) FROM a WHERE value > 7 GROUP BY lat HAVING count(*) > 1 ORDER BY lat LIMIT 2",
        "SELECT lat, median(value) FILTER (WHERE value < 90) FROM a GROUP BY lat",
        "SELECT lat, count(*) FROM (SELECT * FROM a UNION ALL SELECT * FROM b) GROUP BY lat",
        "SELECT round(value), count(*) FROM a GROUP BY 1",
    ];
    insta::assert_snapshot!("aggregates", before_and_after(&ctx, &aggregates).await);
    let joins = [
        "SELECT a.value - b.value FROM a JOIN b USING (time, lat, lon)",
        "SELECT a.lat, avg(a.value - b.value) FROM a JOIN b USING (time, lat, lon) WHERE a.value > 5 GROUP BY a.lat",
        "SELECT * FROM a LEFT JOIN b USING (time, lat, lon) WHERE a.lat = 0",
        "SELECT a.value, b.value FROM a JOIN b USING (lat, lon)",
    ];
    insta::assert_snapshot!("joins", before_and_after(&ctx, &joins).await);
}
