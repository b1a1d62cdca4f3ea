//! Generated joins on conditions over dimensions, compared with DataFusion's over rows in memory.
//!
//! `TET_SQL_JOINS` sets the number of generated queries, `TET_SQL_SEED` the first seed.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

#[cfg(all(feature = "cluster", feature = "serve"))]
use crate::cluster::Workers;
use crate::joins::conditions::datasets;
use crate::joins::generated::difference;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use crate::support::sql::{plan, rows, write};
use crate::tables::exploded::Random;

/// A table of boxes with nulls, empty boxes and duplicates.
fn boxes(random: &mut Random, count: usize) -> RecordBatch {
    let mut numbers = |from: i64, to: i64| -> Int64Array {
        let value = |random: &mut Random| {
            let number = from + random.below((to - from) as usize) as i64;
            (!random.chance(10)).then_some(number)
        };
        (0..count).map(|_| value(random)).collect()
    };
    let (t, x, k) = (
        [numbers(-1, 9), numbers(-1, 9)],
        [numbers(-4, 15), numbers(-4, 15)],
        numbers(0, 6),
    );
    let y = [numbers(-30, 30), numbers(-30, 30)];
    let y = y.map(|y| {
        y.iter()
            .map(|y| y.map(|y| y as f64 + 0.5))
            .collect::<Float64Array>()
    });
    let name = (0..count).map(|n| Some(["x", "y", "z"][n % 3]));
    let column = |name: &str, array: ArrayRef| (name.to_string(), array, true);
    let [t0, t1] = t;
    let [x0, x1] = x;
    let [y0, y1] = y;
    RecordBatch::try_from_iter_with_nullable([
        column("t0", Arc::new(t0)),
        column("t1", Arc::new(t1)),
        column("y0", Arc::new(y0)),
        column("y1", Arc::new(y1)),
        column("x0", Arc::new(x0)),
        column("x1", Arc::new(x1)),
        column("k", Arc::new(k)),
        column("name", Arc::new(StringArray::from_iter(name))),
    ])
    .unwrap()
}

fn query(random: &mut Random, table: &str) -> String {
    const CONDITIONS: [&str; 24] = [
        "a.time BETWEEN r.t0 AND r.t1",
        "a.time BETWEEN r.t0 AND r.t1",
        "a.lat BETWEEN r.y0 AND r.y1",
        "a.lat BETWEEN r.y0 AND r.y1",
        "a.lon BETWEEN r.x0 AND r.x1",
        "a.lon BETWEEN r.x0 AND r.x1",
        "a.time >= r.t0",
        "a.lat < r.y0",
        "r.x1 > a.lon",
        "abs(a.lat) <= r.y1",
        "a.lat + a.lon > r.x0",
        "(a.lat * a.lon <= r.x1 * 10 OR a.time = r.t0)",
        "a.time = r.t0",
        "a.lon = r.x0",
        "a.time % 3 = r.k",
        "a.lon <> r.x0",
        "r.k > 1",
        "a.lat > 0",
        "a.value > r.k * 13",
        "(a.lat > r.y0) IS NOT TRUE",
        "coalesce(r.x1, 5) >= a.lon",
        "a.lon IN (r.x0, r.x1)",
        "a.time = r.t0 + r.k",
        "a.time * 2 + 1 < r.t1 + r.x1",
    ];
    const KINDS: [&str; 8] = [
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
        "RIGHT SEMI JOIN",
        "RIGHT ANTI JOIN",
    ];
    let table = match (random.below(5), table) {
        (0, _) => format!("(SELECT * FROM {table} WHERE lat > -10)"),
        (1, _) => format!("(SELECT * FROM {table} WHERE value > 30 AND lon < 9)"),
        (2, "a" | "b") => format!("(SELECT * FROM {table} WHERE time IN (1, 3, 4))"),
        _ => table.to_string(),
    };
    let has_time = table.contains(" a") || table.contains('b') || table == "a";
    let conditions: Vec<_> = (0..1 + random.below(4))
        .map(|_| *random.pick(&CONDITIONS))
        .filter(|condition| has_time || !condition.contains("a.time"))
        .collect();
    let on = match conditions.as_slice() {
        [] => "a.lat >= r.y0".to_string(),
        all => all.join(" AND "),
    };
    if random.chance(15) {
        let not = ["", "NOT "][random.below(2)];
        return format!("SELECT a.* FROM {table} a WHERE {not}EXISTS (SELECT 1 FROM r WHERE {on})");
    }
    let kind = *random.pick(&KINDS);
    let (sides, is_array_first) = match random.chance(50) {
        true => (format!("{table} a {kind} r"), true),
        false => (format!("r {kind} {table} a"), false),
    };
    let is_one_sided = kind.contains("SEMI") || kind.contains("ANTI");
    let outputs_array = !is_one_sided || kind.starts_with("LEFT") == is_array_first;
    let columns = match (is_one_sided, outputs_array) {
        (false, _) => [
            "*",
            "a.lat, r.k, a.value",
            "count(*)",
            "r.name, count(*), sum(a.value)",
            "r.name, a.lat, count(a.value), avg(a.value + a.lon)",
            "r.k, a.lon % 4, min(a.value), max(a.lat), sum(a.lon)",
        ][random.below(6)],
        (true, true) => ["a.*", "a.lon, a.value", "count(*)"][random.below(3)],
        (true, false) => ["r.*", "count(*)"][random.below(2)],
    };
    let groups = match columns {
        "r.name, count(*), sum(a.value)" => " GROUP BY r.name",
        grouped if grouped.starts_with("r.") && grouped != "r.*" => " GROUP BY 1, 2",
        _ => "",
    };
    format!("SELECT {columns} FROM {sides} ON {on}{groups}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_conditions_answer_as_over_rows_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    write(&path, &datasets());
    let truth = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let mut sessions = Vec::new();
    #[cfg(all(feature = "cluster", feature = "serve"))]
    let workers = Workers::start(2, &[folder.path()]).await;
    for setting in [0, 1, 2, 3, 5, 8, 11, 16, 19] {
        let is = |bit: usize| setting & bit != 0;
        let config = SessionConfig::new()
            .with_target_partitions(if is(1) { 3 } else { 1 })
            .with_batch_size(if is(2) { 7 } else { 8192 })
            .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
            .set_bool(
                "datafusion.optimizer.enable_dynamic_filter_pushdown",
                !is(4),
            );
        let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
        ctx.register_array_file_as("f", &path, ArrayOptions::new())
            .await
            .unwrap();
        rows(&ctx, "SET datafusion.catalog.default_schema = 'f'").await;
        #[cfg(feature = "proto")]
        if is(8) {
            Encoded::add_to(&ctx, &[]);
        }
        #[cfg(all(feature = "cluster", feature = "serve"))]
        if is(16) {
            workers.join(&ctx).await;
        }
        sessions.push((setting, ctx));
    }
    for table in ["a", "b", "flat"] {
        let frame = sessions[0]
            .1
            .sql(&format!("SELECT * FROM {table}"))
            .await
            .unwrap();
        let batches = frame.collect().await.unwrap();
        let schema = batches[0].schema();
        let rows = MemTable::try_new(schema, vec![batches]).unwrap();
        truth.register_table(table, Arc::new(rows)).unwrap();
    }
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let (first, count) = (number("TET_SQL_SEED", 0), number("TET_SQL_JOINS", 300));
    let (mut found, mut looked_up) = (0, 0);
    let mut failures = Vec::new();
    for seed in first..first + count {
        let mut random = Random(seed);
        let rows_in_boxes = [0, 1, 3, 12, 40][random.below(5)];
        let batch = boxes(&mut random, rows_in_boxes);
        let table = *random.pick(&["a", "a", "b", "flat"]);
        let sql = query(&mut random, table);
        let register = |ctx: &SessionContext, name: &str| {
            let _ = ctx.deregister_table(name).unwrap();
            let rows = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
            ctx.register_table(name, Arc::new(rows)).unwrap();
        };
        register(&truth, "r");
        let mut expected = rows(&truth, &sql).await;
        expected.sort_unstable();
        found += usize::from(expected.len() > 1);
        for (setting, ctx) in [random.pick(&sessions), random.pick(&sessions)] {
            register(ctx, "datafusion.public.r");
            let sql = sql
                .replace(" r ON", " datafusion.public.r r ON")
                .replace("FROM r ", "FROM datafusion.public.r r ");
            looked_up += usize::from(plan(ctx, &sql).await.contains("ArrayLookupJoinExec"));
            let difference = difference(ctx, &sql, &expected).await;
            failures
                .extend(difference.map(|text| format!("seed {seed}, setting {setting}: {text}")));
        }
        if failures.len() > 5 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(found as u64 > count / 3, "{found} queries have rows");
    assert!(looked_up as u64 > count, "{looked_up} lookup joins");
}
