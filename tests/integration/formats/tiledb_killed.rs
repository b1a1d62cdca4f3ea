//! Writers that are killed: readers see the old rows or the new ones.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::sql::{rows, session};

/// Rows of each `INSERT`.
const ROWS: u64 = 100;

/// Starts the command with a script.
fn start(script: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    command
        .env("XDG_CONFIG_HOME", "/nowhere")
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Runs a script to its end, and returns the time that this took.
fn run(script: &str) -> Duration {
    let start_time = Instant::now();
    assert!(start(script).wait().unwrap().success(), "{script}");
    start_time.elapsed()
}

fn kill_after(script: &str, delay: Duration) {
    let mut process = start(script);
    std::thread::sleep(delay);
    // The process may have ended.
    let _ = process.kill();
    process.wait().unwrap();
}

/// Returns fractions that are spread evenly, in random order.
fn fractions(count: u32) -> impl Iterator<Item = f64> {
    (1..=count).map(|number| (f64::from(number) * 0.618_033_988_75).fract())
}

/// Returns the number of rows of each value of the column `k`.
async fn counts(path: &Path) -> BTreeMap<u64, u64> {
    let sql = format!("SELECT k, count(*) FROM '{}' GROUP BY k", path.display());
    let rows = rows(&session(), &sql).await;
    let pairs = rows.iter().map(|row| {
        let (key, count) = row.split_once(' ').unwrap();
        (key.parse().unwrap(), count.parse().unwrap())
    });
    pairs.collect()
}

#[tokio::test]
async fn killed_inserts_are_visible_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["dense", "sparse"] {
        let path = folder.path().join(kind);
        let range = |first: u64| format!("generate_series({first}, {}) AS g(n)", first + ROWS - 1);
        // The first rows span the domain of the array.
        run(&format!(
            "COPY (SELECT n AS x, CAST(0 AS BIGINT) AS k FROM generate_series(0, 9999) AS g(n)) TO '{}' STORED AS \
             TILEDB OPTIONS (dims 'x', sparse '{}', tile '64')",
            path.display(),
            kind == "sparse"
        ));
        let script = |numbers: RangeInclusive<u64>| {
            let mut script = format!(
                "CREATE EXTERNAL TABLE t STORED AS TILEDB LOCATION '{}';",
                path.display()
            );
            for number in numbers {
                let rows = range(number * ROWS);
                script += &format!("INSERT INTO t SELECT n, {number} FROM {rows};");
            }
            script
        };
        let one = run(&script(1..=1));
        let mut inserted = 1;
        for fraction in fractions(8) {
            let delay = one.mul_f64(0.3 + 2.5 * fraction);
            kill_after(&script(inserted + 1..=inserted + 12), delay);
            let found = counts(&path).await;
            let (last, count) = found.last_key_value().unwrap();
            assert!(*last >= inserted && *last <= inserted + 12, "{found:?}");
            assert_eq!(*count, ROWS, "{found:?}");
            // Every earlier statement is complete.
            assert_eq!(found.len() as u64, last + 1, "{found:?}");
            assert!(
                found.iter().all(|(key, count)| *key == 0 || *count == ROWS),
                "{found:?}"
            );
            assert_eq!(found.values().sum::<u64>(), 10_000);
            inserted = *last;
        }
    }
}

#[tokio::test]
async fn a_killed_copy_writes_the_whole_array_or_none() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["dense", "sparse"] {
        let script = |path: &Path| {
            format!(
                "COPY (SELECT n AS x, CAST(n % 7 AS BIGINT) AS k FROM generate_series(0, 39999) AS g(n)) TO '{}' \
                 STORED AS TILEDB OPTIONS (dims 'x', sparse '{}')",
                path.display(),
                kind == "sparse"
            )
        };
        let whole = run(&script(&folder.path().join(kind)));
        let (mut complete, mut missing) = (0, 0);
        for (number, fraction) in fractions(16).enumerate() {
            let path = folder.path().join(format!("{kind}_{number}"));
            // The second half of the time has the writing of the fragment and the commit. The first kills come
            // before it even if the machine was busy when the time was taken.
            kill_after(&script(&path), whole.mul_f64(0.1 + fraction));
            match path.exists() {
                true => {
                    let found = counts(&path).await;
                    assert_eq!(found.values().sum::<u64>(), 40_000, "{found:?}");
                    complete += 1;
                }
                false => missing += 1,
            }
        }
        assert!(missing > 0, "{complete} arrays are complete");
    }
}
