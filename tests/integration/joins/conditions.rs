//! Joins of arrays on conditions over their dimensions, such as boxes: which joins look up their
//! matches by position, and what they read.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{assert_same_without, error, plan, rows, rows_without, run, sample};

/// `a` over time, descending latitudes and ascending longitudes; `b` over the same dimensions with
/// coordinates that repeat and are not sorted; `flat` without time.
pub(super) fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let lat = ["25", "15", "5", "-5", "-15", "-25"];
    let lon = ["-3", "0", "4", "5", "9", "12", "13"];
    let value = |n: i32| {
        if n % 17 == 3 {
            f32::NAN
        } else {
            (n * 37 % 101) as f32
        }
    };
    vec![
        (
            DatasetSpec::new("a", Dtype::F32, &[8, 6, 7], &[3, 2, 3])
                .with_dim_names(["time", "lat", "lon"])
                .with_labels("lat", lat)
                .with_labels("lon", lon),
            cells!((0..8 * 6 * 7).map(value)),
        ),
        (
            DatasetSpec::new("b", Dtype::F32, &[5, 6, 4], &[2, 6, 3])
                .with_dim_names(["time", "lat", "lon"])
                .with_labels("lat", ["5", "-5", "25", "5", "0", "-25"])
                .with_labels("lon", ["4", "3", "0", "9"]),
            cells!((0..5 * 6 * 4).map(value)),
        ),
        (
            DatasetSpec::new("flat", Dtype::F32, &[6, 7], &[4, 7])
                .with_dim_names(["lat", "lon"])
                .with_labels("lat", lat)
                .with_labels("lon", lon),
            cells!((0..6 * 7).map(value)),
        ),
    ]
}

/// Five boxes over lat and lon: two that overlap, one outside of the array, one empty, and one with
/// a NULL bound.
const BOXES: &str = "(VALUES (1, -20, 10, 0, 6), (2, 0, 30, 4, 9), (3, 50, 60, 0, 9), (4, 10, -10, 0, 9), \
                     (5, -90, 90, NULL, 9)) r(id, south, north, west, east)";
const INSIDE: &str = "a.lat BETWEEN r.south AND r.north AND a.lon BETWEEN r.west AND r.east";

#[tokio::test]
async fn joins_on_conditions_look_up_their_matches() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for (from, is_taken) in [
        (format!("a JOIN {BOXES} ON {INSIDE}"), true),
        (format!("{BOXES} JOIN a ON {INSIDE}"), true),
        (format!("a, {BOXES} WHERE {INSIDE} AND a.time > 2"), true),
        (format!("a LEFT JOIN {BOXES} ON {INSIDE}"), true),
        (format!("a RIGHT JOIN {BOXES} ON {INSIDE}"), true),
        (format!("a FULL JOIN {BOXES} ON {INSIDE}"), true),
        (format!("a LEFT SEMI JOIN {BOXES} ON {INSIDE}"), true),
        (format!("a LEFT ANTI JOIN {BOXES} ON {INSIDE}"), true),
        (
            format!("{BOXES} LEFT SEMI JOIN a ON {INSIDE} AND r.id < 5"),
            true,
        ),
        (format!("{BOXES} LEFT ANTI JOIN a ON {INSIDE}"), true),
        (
            format!("a WHERE EXISTS (SELECT 1 FROM {BOXES} WHERE {INSIDE})"),
            true,
        ),
        (
            format!("a WHERE NOT EXISTS (SELECT 1 FROM {BOXES} WHERE {INSIDE})"),
            true,
        ),
        (format!("a JOIN {BOXES} ON a.lat >= r.south"), true),
        (
            format!("a JOIN {BOXES} ON abs(a.lat) <= r.north AND a.lon % 3 = r.id"),
            true,
        ),
        (
            format!("a JOIN {BOXES} ON a.lat + a.lon < r.north AND a.lat > r.south"),
            true,
        ),
        (
            format!("a JOIN {BOXES} ON (a.lat > r.south OR a.time = r.id) AND a.lon > r.west"),
            true,
        ),
        (
            format!("a JOIN {BOXES} ON a.time = r.id AND {INSIDE}"),
            true,
        ),
        (
            format!("a LEFT JOIN {BOXES} ON a.time = r.id AND {INSIDE}"),
            true,
        ),
        (
            format!("a FULL JOIN {BOXES} ON a.time = r.id AND a.time < r.east AND a.lat > 0"),
            true,
        ),
        (
            format!("a JOIN {BOXES} ON {INSIDE} AND a.value > 10 * r.id"),
            true,
        ),
        (
            format!("a JOIN {BOXES} ON a.lon > r.west AND 10 / (a.lat - 100) < r.id"),
            true,
        ),
        (
            format!(
                "(SELECT lat * 2 AS y, lon AS x FROM a WHERE value > 20) a JOIN {BOXES} \
                  ON a.y > r.south AND a.x BETWEEN r.west AND r.east"
            ),
            true,
        ),
        (
            "a JOIN (SELECT * FROM flat WHERE value > 60) f ON a.lat > f.lat AND a.lon <= f.lon"
                .into(),
            true,
        ),
        // Conditions over values of the array decide which rows an outer join fills with NULL.
        (
            format!("a LEFT JOIN {BOXES} ON {INSIDE} AND a.value > 10 * r.id"),
            false,
        ),
        (
            format!("a LEFT JOIN {BOXES} ON a.lon > r.west AND 10 / (a.lat - r.id - 100) < r.id"),
            false,
        ),
        (format!("a JOIN {BOXES} ON a.value > r.north"), false),
        (
            format!("a JOIN {BOXES} ON a.lat > r.south + random()"),
            false,
        ),
    ] {
        let sql = format!("SELECT * FROM {from}");
        let plan = plan(&ctx, &sql).await;
        assert_eq!(
            plan.contains("ArrayLookupJoinExec"),
            is_taken,
            "{sql}\n{plan}"
        );
        if from.contains("random") {
            continue;
        }
        for sql in [sql, format!("SELECT count(*) FROM {from}")] {
            assert_same_without(&ctx, "tet.lookup_joins", &sql).await;
        }
    }
}

#[tokio::test]
async fn boxes_prune_chunks() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    // The chunks along each axis are three of three times, of two latitudes, and of three longitudes.
    // Each of the boxes is in one chunk along lat and lon, at opposite corners.
    let corners = "(VALUES (16, 26, -9, 1), (-26, -14, 13, 99)) r(south, north, west, east)";
    let sql = format!("SELECT count(a.value), sum(a.value) FROM a JOIN {corners} ON {INSIDE}");
    let ran = run(&ctx, &sql).await;
    assert_eq!(ran.reads(), 6);
    assert_eq!(ran.metric("build_rows"), 2);
    assert_eq!(ran.metric("chunks_pruned_by_dynamic_filter"), 21);
    rows(&ctx, "SET tet.lookup_joins = false").await;
    assert_eq!(ran.rows, rows(&ctx, &sql).await);
    rows(&ctx, "SET tet.lookup_joins = true").await;
    // Boxes that are empty or outside of the array read nothing.
    let none =
        "(VALUES (26, 99, -9, 99), (9, 1, -9, 99), (NULL, 1, -9, 99)) r(south, north, west, east)";
    let ran = run(
        &ctx,
        &format!("SELECT a.value FROM a JOIN {none} ON {INSIDE}"),
    )
    .await;
    assert_eq!((ran.reads(), ran.rows.len()), (0, 0));
    // A box per cell along lat and lon, and an interval in time.
    let sql = "SELECT count(a.value) FROM a JOIN (SELECT lat, lon FROM flat) f \
               ON a.lat BETWEEN f.lat - 1 AND f.lat + 1 AND a.lon BETWEEN f.lon AND f.lon AND a.time < f.lon - 10";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.reads(), 3 * 2);
    // Cells without a match are part of the answer.
    let sql = format!("SELECT count(a.value) FROM a LEFT JOIN {corners} ON {INSIDE}");
    assert_eq!(run(&ctx, &sql).await.reads(), 27);
}

/// Returns the largest coordinate of a point, compared with the radius that a text holds.
fn within_radius(columns: &[ColumnarValue]) -> datafusion::common::Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(columns)?;
    let numbers = |place: usize| arrays[place].as_primitive::<Int64Type>().clone();
    let (y, x) = (numbers(1), numbers(2));
    let shapes = arrays[0].as_string::<i32>();
    let inside = (0..shapes.len()).map(|row| {
        let shape = shapes.is_valid(row).then(|| shapes.value(row))?;
        let radius: i64 = shape.strip_prefix("circle ")?.parse().ok()?;
        Some(y.value(row).pow(2) + x.value(row).pow(2) <= radius * radius)
    });
    Ok(ColumnarValue::Array(Arc::new(BooleanArray::from_iter(
        inside,
    ))))
}

#[tokio::test]
async fn functions_of_two_dimensions_and_a_column() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    ctx.register_udf(create_udf(
        "within_shape",
        vec![DataType::Utf8, DataType::Int64, DataType::Int64],
        DataType::Boolean,
        Volatility::Immutable,
        Arc::new(within_radius),
    ));
    let shapes = "(VALUES (1, 'circle 10', 10), (2, 'circle 26', 26), (3, NULL, 9), (4, 'circle 5', 4), (5, 'square', 99)) \
                  s(id, shape, bound)";
    for (kind, bounds) in [
        (
            "JOIN",
            "a.lat BETWEEN -bound AND bound AND a.lon BETWEEN -bound AND bound AND",
        ),
        ("JOIN", ""),
        ("LEFT JOIN", "a.lat >= -bound AND"),
        ("FULL JOIN", ""),
        ("LEFT ANTI JOIN", "a.lon <= bound AND"),
    ] {
        let on = format!("{bounds} within_shape(shape, a.lat, a.lon)");
        let sql = format!("SELECT * FROM a {kind} {shapes} ON {on}");
        assert!(
            plan(&ctx, &sql).await.contains("ArrayLookupJoinExec"),
            "{sql}"
        );
        let mut answer = rows(&ctx, &sql).await;
        let mut expected = rows_without(&ctx, "tet.lookup_joins", &sql).await;
        answer.sort();
        expected.sort();
        assert!(!answer.is_empty());
        assert_eq!(answer, expected, "{sql}");
    }
}

/// An hour of each day of a year on a small globe, and stations between its cells.
async fn stations() -> (TempDir, SessionContext) {
    let (times, lats, lons) = (730, 18, 36);
    let labels = |count: i32, from: i32| (0..count).map(move |n| (from + 10 * n).to_string());
    let lat: Vec<_> = labels(18, -85).collect();
    let lon: Vec<_> = labels(36, 0).collect();
    let spec = DatasetSpec::new("t2m", Dtype::F32, &[times, lats, lons], &[100, 9, 12])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("lat", lat.iter().map(String::as_str))
        .with_labels("lon", lon.iter().map(String::as_str));
    let count = (times * lats * lons) as i32;
    let data = vec![(spec, cells!((0..count).map(|n| (n % 977) as f32)))];
    let (folder, _, ctx) = sample(&data, ArrayOptions::new()).await;
    rows(
        &ctx,
        "CREATE TABLE datafusion.public.stations AS SELECT s AS id, (s * 37 % 1790) / 10.0 - 89.5 AS lat, \
         (s * 53 % 3540) / 10.0 AS lon FROM generate_series(1, 10000) g(s)",
    )
    .await;
    (folder, ctx)
}

#[tokio::test]
async fn nearest_cells_of_stations_decode_each_chunk_once() {
    let (_folder, ctx) = stations().await;
    let sql = "SELECT count(*), count(DISTINCT s.id), sum(t.value) FROM datafusion.public.stations s \
               JOIN t2m t ON nearest(t.lat, s.lat) AND nearest(t.lon, s.lon)";
    assert!(plan(&ctx, sql).await.contains("ArrayLookupJoinExec"));
    let ran = run(&ctx, sql).await;
    // Eight chunks in time, two in latitude and three in longitude.
    assert_eq!(ran.reads(), 8 * 2 * 3);
    let mut sum = 0f64;
    for station in 1..=10000i64 {
        let lat = (station * 37 % 1790) as f64 / 10.0 - 89.5;
        let lon = (station * 53 % 3540) as f64 / 10.0;
        let nearest = |from: f64, count: i64, target: f64| {
            let distance = |n: i64| (from + 10.0 * n as f64 - target).abs();
            // If two are equally far, the greater one is the nearest.
            (0..count)
                .rev()
                .min_by(|one, other| distance(*one).total_cmp(&distance(*other)))
        };
        let y = nearest(-85.0, 18, lat).unwrap();
        let x = nearest(0.0, 36, lon).unwrap();
        let cell = |time: i64| (time * 18 * 36 + y * 36 + x) % 977;
        sum += (0..730).map(|time| cell(time) as f64).sum::<f64>();
    }
    assert_eq!(ran.rows, [format!("{} 10000 {sum:?}", 10000 * 730)]);
    // The cells around each station.
    let sql = "SELECT count(*) FROM datafusion.public.stations s JOIN t2m t \
               ON t.lat BETWEEN s.lat - 5 AND s.lat + 5 AND t.lon BETWEEN s.lon - 5 AND s.lon + 5 \
               WHERE t.value >= 0";
    assert!(plan(&ctx, sql).await.contains("ArrayLookupJoinExec"));
    assert_eq!(run(&ctx, sql).await.reads(), 8 * 2 * 3);
}

#[tokio::test]
async fn intervals_and_boxes_over_long_axes() {
    let axes = [("time", 720u64), ("lat", 90), ("lon", 60)];
    let shape = axes.map(|(_, length)| length);
    let spec = DatasetSpec::new("wide", Dtype::U8, &shape, &[90, 45, 30])
        .with_dim_names(["time", "lat", "lon"]);
    let count = shape.iter().product::<u64>() as usize;
    let (_folder, _, ctx) = sample(&[(spec, vec![1; count])], ArrayOptions::new()).await;
    // More key indices than a table may have, and boxes of which most overlap.
    let boxes = "(SELECT s AS id, s * 7 % 700 AS t, s * 13 % 80 AS y, s * 29 % 55 AS x FROM generate_series(1, 1000) g(s)) r";
    let on = "w.time BETWEEN r.t AND r.t + r.id % 15 AND w.lat BETWEEN r.y AND r.y + r.id % 10 \
              AND w.lon BETWEEN r.x AND r.x + r.id % 6";
    let sql = format!(
        "SELECT count(*), sum(w.value), count(DISTINCT r.id) FROM wide w JOIN {boxes} ON {on}"
    );
    assert!(plan(&ctx, &sql).await.contains("key_indices=3888000"));
    let cells: u64 = (1..=1000u64)
        .map(|id| (id % 15 + 1) * (id % 10 + 1) * (id % 6 + 1))
        .sum();
    assert_eq!(rows(&ctx, &sql).await, [format!("{cells} {cells} 1000")]);
    let sql = format!("SELECT count(*) FROM wide w LEFT SEMI JOIN {boxes} ON {on}");
    let mut covered = vec![false; count];
    for id in 1..=1000usize {
        for t in id * 7 % 700..=id * 7 % 700 + id % 15 {
            for y in id * 13 % 80..=id * 13 % 80 + id % 10 {
                for x in id * 29 % 55..=id * 29 % 55 + id % 6 {
                    covered[(t * 90 + y) * 60 + x] = true;
                }
            }
        }
    }
    let covered = covered.iter().filter(|covered| **covered).count();
    assert_eq!(rows(&ctx, &sql).await, [covered.to_string()]);
    // Intervals of time.
    let sql = "SELECT count(*), count(DISTINCT r.id), max(w.time) FROM wide w \
               JOIN (SELECT s AS id, s % 600 AS start, s % 600 + s % 97 AS stop FROM generate_series(1, 10000) g(s)) r \
               ON w.time >= r.start AND w.time < r.stop WHERE w.lat = 3 AND w.lon = 5";
    let pairs: u64 = (1..=10000u64).map(|id| id % 97).sum();
    let ids = (1..=10000u64).filter(|id| id % 97 > 0).count();
    let last = (1..=10000u64).map(|id| id % 600 + id % 97).max().unwrap() - 1;
    assert_eq!(rows(&ctx, sql).await, [format!("{pairs} {ids} {last}")]);
}

#[tokio::test]
async fn the_matches_are_accounted_for() {
    let (_folder, path, _) = sample(&datasets(), ArrayOptions::new()).await;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(4 << 20)))
        .build_arc()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    ctx.register_array_file_as("f", &path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "SET datafusion.optimizer.join_reordering = false").await;
    let sql = "SELECT count(k) FROM (SELECT value AS k FROM generate_series(1, 300000) g(value)) t \
               JOIN f.a ON a.lat > k % 50 AND a.lon < k % 9";
    assert!(plan(&ctx, sql).await.contains("ArrayLookupJoinExec"));
    let message = error(&ctx, sql).await;
    assert!(message.contains("ArrayLookupJoin"), "{message}");
}
