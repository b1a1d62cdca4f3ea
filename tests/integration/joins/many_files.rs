//! Lookup joins of an array that is split into files along time, compared with the same array in one
//! file and with DataFusion's joins.

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use crate::support::sql::{rows, rows_without, run, write};

const LATS: usize = 5;
const LONS: usize = 6;

/// Writes the cells of some times to a file.
fn write_times(path: &Path, times: std::ops::Range<usize>) {
    let shape = [times.len(), LATS, LONS].map(|extent| extent as u64);
    let labels = |numbers: Vec<usize>| numbers.into_iter().map(|n| n.to_string());
    let spec = DatasetSpec::new("v", Dtype::F32, &shape, &[4, 3, 6])
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("time", labels(times.clone().collect()))
        .with_labels("lat", labels((0..LATS).map(|lat| lat * 10).collect()));
    let cell = |time: usize, place: usize| match (time + place) % 29 {
        0 => f32::NAN,
        _ => (time * 31 + place * 7) as f32 % 101.0,
    };
    let numbers = times.flat_map(|time| (0..LATS * LONS).map(move |place| cell(time, place)));
    write(path, &[(spec, cells!(numbers))]);
}

/// A session with the table `t` over the files of a folder, and `one` over a single file.
async fn session(folder: &Path, partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS TET LOCATION '{}/part*.tet'",
        folder.display()
    );
    rows(&ctx, &create).await;
    ctx.register_array_file_as("f", &folder.join("one.tet"), ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "CREATE VIEW one AS SELECT * FROM f.v").await;
    ctx
}

fn write_files(folder: &Path) {
    for (number, times) in [0..10, 10..13, 13..30].into_iter().enumerate() {
        write_times(&folder.join(format!("part{number}.tet")), times);
    }
    write_times(&folder.join("one.tet"), 0..30);
}

#[tokio::test]
async fn files_are_joined_by_position() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    const MEANS: &str =
        "(SELECT lat, lon, time % 8 AS phase, avg(value) AS mean FROM t GROUP BY 1, 2, 3)";
    const ON: &str = "t.lat = c.lat AND t.lon = c.lon AND t.time % 8 = c.phase";
    const MASK: &str = "(VALUES (0, 1), (10, 2), (10, 3), (40, NULL), (70, 9)) k(y, n)";
    let plans = [1, 3].map(|partitions| session(folder.path(), partitions));
    for ctx in futures::future::join_all(plans).await {
        for (sql, is_aggregated) in [
            (format!("SELECT t.time, t.lat, t.lon, t.value - c.mean FROM t JOIN {MEANS} c ON {ON}"), false),
            (format!("SELECT t.time, max(t.value - c.mean), avg(t.value - c.mean) FROM t JOIN {MEANS} c ON {ON} GROUP BY t.time"), true),
            (format!("SELECT n, t.time % 4, count(value), sum(value) FROM t JOIN {MASK} ON t.lat = k.y GROUP BY 1, 2"), true),
            (format!("SELECT t.time, t.lat, value, n FROM t LEFT JOIN {MASK} ON t.lat = k.y WHERE t.lon = 2"), false),
            (format!("SELECT t.time, t.lat, value, n, y FROM t FULL JOIN {MASK} ON t.lat = k.y"), false),
            (format!("SELECT k.y, n FROM {MASK} WHERE EXISTS (SELECT * FROM t WHERE t.lat = k.y AND value > 3)"), false),
            (format!("SELECT count(*), sum(value) FROM t WHERE lat NOT IN (SELECT y FROM {MASK})"), false),
            (format!("SELECT t.time, n, c.mean, value FROM t JOIN {MEANS} c ON {ON} JOIN {MASK} ON t.lat = k.y"), false),
            (format!("SELECT n, sum(value * c.mean) FROM t JOIN {MEANS} c ON {ON} JOIN {MASK} ON t.lat = k.y GROUP BY n"), true),
            // Only cells of the last file have a match.
            ("SELECT b.value > 50, count(*), sum(a.value) FROM t a JOIN (SELECT time, value FROM f.v WHERE lat = 0 AND lon = 0) b ON a.time = b.time + 13 GROUP BY 1".into(), true),
            ("SELECT a.time, a.value - b.value FROM t a JOIN t b ON a.time = b.time + 5 AND a.lat = b.lat AND a.lon = b.lon".into(), false),
            ("SELECT a.time, a.value - b.value FROM t a JOIN f.v b ON a.time = b.time + 5 AND a.lat = b.lat AND a.lon = b.lon WHERE a.time BETWEEN 8 AND 14".into(), false),
        ] {
            let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await.concat();
            let expected = if is_aggregated { "ArrayJoinAggregateExec" } else { "ArrayLookupJoinExec" };
            assert!(plan.contains(expected), "{sql}\n{plan}");
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            let same = |one: &[String], other: &[String]| {
                let mut pairs = one.iter().zip(other);
                one.len() == other.len()
                    && pairs.all(|(one, other)| crate::windows::generated::is_same(one, other))
            };
            let answer = sorted(rows(&ctx, &sql).await);
            assert!(!answer.is_empty(), "{sql}");
            let hashed = sorted(rows_without(&ctx, "tet.lookup_joins", &sql).await);
            assert!(same(&answer, &hashed), "{sql}\n{answer:?}\n{hashed:?}");
            let of_one = match sql.contains("FROM t a") {
                true => sql.replace("FROM t a JOIN t b", "FROM one a JOIN one b").replace("FROM t a", "FROM one a"),
                false => sql.replace("FROM t ", "FROM one t "),
            };
            let of_one = sorted(rows(&ctx, &of_one).await);
            assert!(same(&answer, &of_one), "{sql}\n{answer:?}\n{of_one:?}");
            #[cfg(feature = "proto")]
            {
                let encoded = session(folder.path(), 2).await;
                Encoded::add_to(&encoded, &[]);
                let decoded = sorted(rows(&encoded, &sql).await);
                assert!(same(&answer, &decoded), "{sql}\n{answer:?}\n{decoded:?}");
            }
        }
    }
}

#[tokio::test]
async fn files_without_a_match_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let ctx = session(folder.path(), 1).await;
    let few = "(VALUES (3, 1), (7, 2)) k(moment, n)";
    let sql = format!("SELECT n, sum(value) FROM t JOIN {few} ON t.time = k.moment GROUP BY n");
    let ran = run(&ctx, &sql).await;
    // Two chunks along time, two along lat, of the first file.
    assert_eq!(ran.reads(), 4);
    let sql = "SELECT count(*) FROM t JOIN (VALUES (0, 1)) k(y, n) ON t.lat = k.y AND t.time > 12 WHERE value > 0";
    let ran = run(&ctx, sql).await;
    // Five chunks along time of the last file.
    assert_eq!(ran.reads(), 5);
}
