//! Generated windows over generated arrays, compared with the same query over the same rows in memory
//! in a session of DataFusion without rules of this crate.
//!
//! `TET_SQL_WINDOWS` sets the number of arrays, `TET_SQL_SEED` the first seed. A failure names its seed.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::FutureExt;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use crate::support::sql::{rows, texts, write};
use crate::tables::exploded::Random;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const QUERIES: usize = 10;

/// A generated array.
struct Generated {
    dimensions: usize,
    /// The dimension whose coordinates are times.
    times: Option<usize>,
}

/// Returns the coordinates of an axis: indices, ascending, descending or irregular numbers, or times.
fn labels(random: &mut Random, length: usize) -> (Option<Vec<String>>, bool) {
    let mut number = random.below(5) as i64 - 20;
    let mut steps: Vec<i64> = (0..length)
        .map(|_| {
            number += 1 + random.below(4) as i64;
            number
        })
        .collect();
    match random.below(5) {
        0 => return (None, false),
        1 => {}
        2 => steps.reverse(),
        3 => {
            let text = |step: &i64| {
                let hours = step + 100;
                format!("2024-01-{:02}T{:02}:00:00", 1 + hours / 24, hours % 24)
            };
            return (Some(steps.iter().map(text).collect()), true);
        }
        _ => {
            // Not monotonic.
            let (one, other) = (random.below(length), random.below(length));
            steps.swap(one, other);
        }
    }
    (Some(steps.iter().map(ToString::to_string).collect()), false)
}

fn write_array(path: &Path, random: &mut Random) -> Generated {
    let dimensions = 1 + random.below(4);
    let extents: Vec<usize> = (0..dimensions)
        .map(|_| match dimensions {
            1 => 1 + random.below(60),
            2 => 1 + random.below(20),
            _ => 1 + random.below(7),
        })
        .collect();
    let shape: Vec<u64> = extents.iter().map(|extent| *extent as u64).collect();
    let chunks: Vec<u64> = shape
        .iter()
        .map(|extent| 1 + random.below(*extent as usize) as u64)
        .collect();
    let dtype = *random.pick(&[
        Dtype::F32,
        Dtype::F64,
        Dtype::I16,
        Dtype::I64,
        Dtype::U8,
        Dtype::U32,
    ]);
    let names: Vec<_> = NAMES[..dimensions].to_vec();
    let mut spec = DatasetSpec::new("t", dtype, &shape, &chunks).with_dim_names(names);
    let mut times = None;
    for (number, extent) in extents.iter().enumerate() {
        let (labels, are_times) = labels(random, *extent);
        if let Some(labels) = labels {
            spec = spec.with_labels(NAMES[number], labels);
        }
        if are_times {
            times = Some(number);
        }
    }
    let count: usize = extents.iter().product();
    let nulls = *random.pick(&[0, 0, 20, 90]);
    let numbers: Vec<f64> = (0..count)
        .map(|_| match random.chance(nulls) {
            true => f64::NAN,
            false => random.below(40) as f64,
        })
        .collect();
    let signed = |number: f64| if number.is_nan() { 0.0 } else { number - 17.0 };
    let cells = match dtype {
        Dtype::F32 => cells!(numbers.iter().map(|n| (n / 4.0 - 3.0) as f32)),
        Dtype::F64 => cells!(numbers.iter().map(|n| n / 4.0 - 3.0)),
        Dtype::I16 => cells!(numbers.iter().map(|n| signed(*n) as i16)),
        Dtype::I64 => cells!(numbers.iter().map(|n| signed(*n) as i64)),
        Dtype::U8 => cells!(numbers.iter().map(|n| *n as u8)),
        _ => cells!(numbers.iter().map(|n| *n as u32)),
    };
    write(path, &[(spec, cells)]);
    Generated { dimensions, times }
}

impl Generated {
    fn bound(&self, random: &mut Random, is_interval: bool, is_start: bool) -> (i64, String) {
        let distance = random.below(6) as i64;
        let written = match is_interval {
            true => format!("INTERVAL '{distance} hours'"),
            false => distance.to_string(),
        };
        match random.below(4) {
            0 if is_start => (-1000, "UNBOUNDED PRECEDING".into()),
            0 => (1000, "UNBOUNDED FOLLOWING".into()),
            1 => (0, "CURRENT ROW".into()),
            2 => (-distance, format!("{written} PRECEDING")),
            _ => (distance, format!("{written} FOLLOWING")),
        }
    }

    fn frame(&self, random: &mut Random, order: Option<usize>, has_ties: bool) -> String {
        let unit = match has_ties {
            true => "RANGE",
            false => *random.pick(&["ROWS", "ROWS", "RANGE", "GROUPS"]),
        };
        let Some(order) = order else {
            return String::new();
        };
        if random.chance(20) {
            return String::new();
        }
        let is_interval = unit == "RANGE" && self.times == Some(order);
        let (mut start, mut end) = (
            self.bound(random, is_interval, true),
            self.bound(random, is_interval, false),
        );
        if start.0 > end.0 {
            std::mem::swap(&mut start, &mut end);
        }
        format!("{unit} BETWEEN {} AND {}", start.1, end.1)
    }

    fn function(&self, random: &mut Random, order: Option<usize>) -> String {
        let dimension = NAMES[random.below(self.dimensions)];
        let number = 1 + random.below(4);
        let argument = match (random.below(8), self.times) {
            (0, _) => "value * 2".to_string(),
            (1, None) => "abs(value)".to_string(),
            (1, Some(times)) => format!("CASE WHEN value > 3 THEN {} END", NAMES[times]),
            (2, _) if order.is_some() => dimension.to_string(),
            _ => "value".to_string(),
        };
        // Without an order, the rows of a partition have none that both sessions share.
        let kinds = if order.is_some() { 22 } else { 8 };
        match random.below(kinds) {
            0 => "sum(value)".into(),
            1 | 2 => "avg(value)".into(),
            3 => format!("count({argument})"),
            4 => format!("min({argument})"),
            5 => format!("max({argument})"),
            6 => "count(*)".into(),
            7 => random
                .pick(&[
                    "stddev(value)",
                    "stddev_pop(value)",
                    "var_pop(value)",
                    "var_samp(value)",
                ])
                .to_string(),
            8 | 9 => format!("first_value({argument})"),
            10 => format!("last_value({argument})"),
            11 => format!("nth_value({argument}, {number})"),
            12 => format!("lag({argument})"),
            13 => format!("lag(value, {number}, 7)"),
            14 => format!("lead({argument}, {number})"),
            15 => format!("first_value({argument}) IGNORE NULLS"),
            16 => "row_number()".into(),
            17 => "rank()".into(),
            18 => "dense_rank()".into(),
            19 => random.pick(&["percent_rank()", "cume_dist()"]).to_string(),
            20 => format!("ntile({number})"),
            _ => format!("sum(value) FILTER (WHERE value > {number})"),
        }
    }

    fn window(&self, random: &mut Random) -> String {
        let order = random.below(self.dimensions);
        let mut keys: Vec<String> = (0..self.dimensions)
            .filter(|dimension| *dimension != order)
            .map(|dimension| NAMES[dimension].to_string())
            .collect();
        if random.chance(10) && !keys.is_empty() {
            keys.remove(random.below(keys.len()));
        }
        if random.chance(10) {
            keys.push("1 + 1".into());
        }
        if random.chance(10) && self.times != Some(order) {
            keys.push(
                random
                    .pick(&[
                        format!("{} / 3", NAMES[order]),
                        format!("{} % 2", NAMES[order]),
                    ])
                    .clone(),
            );
        }
        if random.chance(30) {
            keys.reverse();
        }
        let partition = match keys.is_empty() {
            true => String::new(),
            false => format!("PARTITION BY {} ", keys.join(", ")),
        };
        if random.chance(20) {
            return Self::ranks(random, &partition, NAMES[order]);
        }
        let is_ordered = random.chance(92);
        // The rows of a partition are peers if the order does not contain the axis.
        let has_ties = random.chance(10);
        let order = match has_ties {
            true => random.below(self.dimensions),
            false => order,
        };
        let direction = random.pick(&["", "", " DESC", " ASC NULLS FIRST"]);
        let sort = match is_ordered {
            true => format!("ORDER BY {}{direction} ", NAMES[order]),
            false => String::new(),
        };
        let functions = 1 + random.below(3);
        let functions: Vec<String> = (0..functions)
            .map(|_| {
                let order = is_ordered.then_some(order);
                let function = self.function(random, order.filter(|_| !has_ties));
                let frame = match function.starts_with("l") && !function.starts_with("last") {
                    true => String::new(),
                    false => self.frame(random, order, has_ties),
                };
                format!("{function} OVER ({partition}{sort}{frame})")
            })
            .collect();
        functions.join(", ")
    }

    /// Returns ranks of cells by their values. `axis` decides between equal cells.
    fn ranks(random: &mut Random, partition: &str, axis: &str) -> String {
        let value = random.pick(&["value", "value", "-value", "value * 2"]);
        let mut direction = || random.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let by_value = format!("{partition}ORDER BY {value}{}", direction());
        let unique = format!("{by_value}, {axis}{}", direction());
        let number = 1 + random.below(4);
        let functions = (0..1 + random.below(3)).map(|_| match random.below(8) {
            0 | 1 => format!("rank() OVER ({by_value})"),
            2 => format!("dense_rank() OVER ({by_value})"),
            3 => format!("percent_rank() OVER ({by_value})"),
            4 => format!("cume_dist() OVER ({by_value})"),
            5 => format!("ntile({number}) OVER ({unique})"),
            6 => format!("rank() OVER ({unique})"),
            _ => format!("row_number() OVER ({unique})"),
        });
        functions.collect::<Vec<_>>().join(", ")
    }

    fn query(&self, random: &mut Random) -> String {
        let all = NAMES[..self.dimensions].join(", ");
        let mut filter = String::new();
        if random.chance(40) {
            let dimension = random.below(self.dimensions);
            filter = match (random.below(8), self.times == Some(dimension)) {
                (0, _) => " WHERE value > 3".into(),
                (_, true) => format!(" WHERE {} > '2024-01-04T12:00:00'", NAMES[dimension]),
                (1..=3, _) => format!(" WHERE {} % 2 = 0", NAMES[dimension]),
                _ => format!(" WHERE {} BETWEEN -15 AND 3", NAMES[dimension]),
            };
        }
        let mut windows = self.window(random);
        if random.chance(25) {
            windows = format!("{windows}, {}", self.window(random));
        }
        let outer = *random.pick(&NAMES[..self.dimensions]);
        match random.below(6) {
            // The rows in no order of the window's.
            0 | 1 => format!("SELECT {all}, value, {windows} FROM t{filter} ORDER BY {all}"),
            2 => format!("SELECT {windows}, {all} FROM t{filter} ORDER BY {all} LIMIT 9"),
            3 => {
                let window = self.window(random);
                let window = first_window(&window);
                format!(
                    "SELECT {outer}, count(w), max(w) FROM (SELECT {outer}, {window} AS w FROM t{filter}) GROUP BY {outer} ORDER BY {outer}"
                )
            }
            4 => {
                let window = self.window(random);
                let window = first_window(&window);
                let kept = match window.starts_with("rank") || window.starts_with("row_number") {
                    true => format!("w <= {}", 1 + random.below(4)),
                    false => "w IS NOT NULL".into(),
                };
                format!(
                    "SELECT {all}, w, row_number() OVER (ORDER BY {all}) FROM (SELECT {all}, {window} AS w FROM t{filter}) WHERE {kept} ORDER BY {all}"
                )
            }
            _ => format!("SELECT {all}, {windows}, value FROM t{filter} ORDER BY {all}"),
        }
    }
}

/// Returns the first of several windows.
fn first_window(windows: &str) -> &str {
    let over = windows.find("OVER (").unwrap() + "OVER (".len();
    let mut depth = 1;
    for (place, letter) in windows[over..].char_indices() {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &windows[..over + place + 1];
        }
    }
    windows
}

async fn session_under_test(path: &Path, setting: usize) -> SessionContext {
    let is = |bit: usize| setting & bit != 0;
    let config = SessionConfig::new()
        .with_target_partitions(if is(1) { 3 } else { 1 })
        .with_batch_size(if is(2) { 7 } else { 8192 })
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    ctx.register_array_file_as("f", path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "SET datafusion.catalog.default_schema = 'f'").await;
    if is(4) {
        rows(&ctx, "SET tet.declare_ordering = true").await;
    }
    let is_along_axis = !is(8);
    rows(&ctx, &format!("SET tet.axis_windows = {is_along_axis}")).await;
    #[cfg(feature = "proto")]
    if is(16) {
        Encoded::add_to(&ctx, &[]);
    }
    ctx
}

/// Returns `true` if both rows are equal, numbers up to rounding.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let (one, other): (Vec<_>, Vec<_>) = (one.split(' ').collect(), other.split(' ').collect());
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            one == other
                || match (one.parse::<f64>(), other.parse::<f64>()) {
                    // In sliding frames, DataFusion 55.2 removes cells from deviations, which leaves NaN
                    // once a frame was empty.
                    (Ok(one), Ok(other)) => {
                        (one - other).abs() <= 1e-6 * (1.0 + one.abs()) || other.is_nan()
                    }
                    _ => false,
                }
        })
}

async fn answer(ctx: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let text = |error: datafusion::error::DataFusionError| error.strip_backtrace();
    let frame = ctx.sql(sql).await.map_err(text)?;
    Ok(texts(&frame.collect().await.map_err(text)?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_windows_answer_as_over_rows() {
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let first = number("TET_SQL_SEED", 0);
    let (mut queries, mut taken, mut refused) = (0, 0, 0);
    let mut failures = Vec::new();
    for seed in first..first + number("TET_SQL_WINDOWS", 60) {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays.tet");
        let array = write_array(&path, &mut random);
        let scanned = session_under_test(&path, 8).await;
        let table = scanned.sql("SELECT * FROM t").await.unwrap();
        let batches = table.clone().collect().await.unwrap();
        let schema = Arc::new(table.schema().as_arrow().clone());
        let batches = batches.iter();
        let batches = batches.map(|batch| batch.columns().to_vec());
        let batches: Vec<_> = batches
            .map(|columns| RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
            .collect();
        let all = concat_batches(&schema, &batches).unwrap();
        let last_first = UInt64Array::from_iter_values((0..all.num_rows() as u64).rev());
        let reversed = take_record_batch(&all, &last_first).unwrap();
        let truths = [all, reversed].map(|rows| {
            let config = SessionConfig::new().with_target_partitions(1);
            let truth = SessionContext::new_with_config(config);
            let table = MemTable::try_new(Arc::clone(&schema), vec![vec![rows]]).unwrap();
            truth.register_table("t", Arc::new(table)).unwrap();
            truth
        });
        let mut sessions = Vec::new();
        for setting in [0, 1, 2, 3, 7, 9, 19] {
            sessions.push((setting, session_under_test(&path, setting).await));
        }
        for _ in 0..QUERIES {
            let sql = array.query(&mut random);
            // A debug assertion of DataFusion 55.2 fails for some windows of one query.
            let expected = AssertUnwindSafe(answer(&truths[0], &sql))
                .catch_unwind()
                .await;
            let Ok(Ok(expected)) = expected else {
                refused += 1;
                continue;
            };
            // With equal values in the order, the answer depends on the order of the input.
            let other = answer(&truths[1], &sql).await.unwrap_or_default();
            let mut pairs = expected.iter().zip(&other);
            if expected.len() != other.len() || !pairs.all(|(one, other)| is_same(one, other)) {
                continue;
            }
            queries += 1;
            let plan = rows(&sessions[0].1, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
            // Without the operator, DataFusion breaks ties of the order in any way, and its encoding of
            // plans drops FILTER and IGNORE NULLS.
            let has = |name: &str| plan.iter().any(|row| row.contains(name));
            let all = NAMES[..array.dimensions].join(", ");
            let of_all = format!("row_number() OVER (ORDER BY {all})");
            let has_others = has("WindowAggExec") && !sql.contains(&of_all);
            if !has("ArrayWindowExec") || has_others {
                continue;
            }
            taken += 1;
            for (setting, ctx) in [random.pick(&sessions), random.pick(&sessions)] {
                if setting & 16 != 0 && (sql.contains("FILTER") || sql.contains("IGNORE NULLS")) {
                    continue;
                }
                match answer(ctx, &sql).await {
                    Ok(answer)
                        if answer.len() == expected.len()
                            && answer
                                .iter()
                                .zip(&expected)
                                .all(|(one, other)| is_same(one, other)) => {}
                    Ok(answer) => {
                        let mut pairs = answer.iter().zip(&expected);
                        let first = pairs.find(|(one, other)| !is_same(one, other));
                        failures.push(format!(
                            "seed {seed}, setting {setting}: {} rows, expected {}, first {first:?}\n{sql}\n{}",
                            answer.len(),
                            expected.len(),
                            plan.concat()
                        ));
                    }
                    Err(error) => {
                        failures.push(format!("seed {seed}, setting {setting}: {error}\n{sql}"));
                    }
                }
            }
        }
        if failures.len() > 5 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        taken * 3 > queries && refused * 4 < queries,
        "{queries} queries, {taken} along an axis, {refused} refused"
    );
}
