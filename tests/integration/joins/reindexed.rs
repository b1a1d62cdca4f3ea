//! Joins of an array with another on expressions over its dimensions that become one scan of both: which
//! they are, and that the answers equal DataFusion's.

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use crate::support::sql::{plan, rows, run, sample};
use crate::tables::exploded::Random;

/// DataFusion's own answer, sorted.
async fn datafusion_answer(ctx: &SessionContext, sql: &str) -> Vec<String> {
    rows(ctx, "SET tet.zip_joins = false").await;
    rows(ctx, "SET tet.lookup_joins = false").await;
    let mut answer = rows(ctx, sql).await;
    rows(ctx, "SET tet.lookup_joins = true").await;
    rows(ctx, "SET tet.zip_joins = true").await;
    answer.sort();
    answer
}

async fn assert_same(ctx: &SessionContext, sql: &str) -> usize {
    let expected = datafusion_answer(ctx, sql).await;
    let mut found = rows(ctx, sql).await;
    found.sort();
    assert_eq!(found, expected, "{sql}");
    found.len()
}

/// `f` over init, lead and lat, `t` over time and lat. Some cells of both are missing. The times of `short` end before the last lead of
/// the last init, `repeated` has a latitude twice, `gap` lacks one of the times, and `coarse` has one chunk.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    const LATITUDES: [&str; 5] = ["-20", "-10", "0", "10", "20"];
    let numbers = |count: usize| (0..count).map(|n| if n % 11 == 5 { f32::NAN } else { n as f32 });
    let truth = |name: &str, times: u64, chunks: &[u64; 2]| {
        DatasetSpec::new(name, Dtype::F32, &[times, 5], chunks).with_dim_names(["time", "lat"])
    };
    vec![
        (
            DatasetSpec::new("f", Dtype::F32, &[4, 6, 5], &[1, 6, 5])
                .with_dim_names(["init", "lead", "lat"])
                .with_labels("init", ["0", "4", "8", "12"])
                .with_labels("lat", LATITUDES),
            cells!(numbers(120)),
        ),
        (
            truth("t", 24, &[4, 5]).with_labels("lat", LATITUDES),
            cells!(numbers(120)),
        ),
        (
            truth("short", 15, &[4, 3]).with_labels("lat", LATITUDES),
            cells!(numbers(75)),
        ),
        (
            truth("turned", 24, &[5, 2]).with_labels("lat", ["20", "0", "-20", "10", "-10"]),
            cells!(numbers(120)),
        ),
        (
            truth("repeated", 24, &[4, 5]).with_labels("lat", ["-20", "-10", "0", "10", "10"]),
            cells!(numbers(120)),
        ),
        (
            truth("gap", 17, &[4, 5])
                .with_labels(
                    "time",
                    (0..18).filter(|n| *n != 9).map(|n: i32| n.to_string()),
                )
                .with_labels("lat", LATITUDES),
            cells!(numbers(85)),
        ),
        (
            truth("small", 6, &[6, 5]).with_labels("lat", LATITUDES),
            cells!(numbers(30)),
        ),
    ]
}

#[tokio::test]
async fn joins_on_expressions_over_dimensions_become_one_scan() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const ON: &str = "ON f.init + f.lead = t.time AND f.lat = t.lat";
    for (sql, is_taken) in [
        (format!("SELECT f.*, t.value FROM f JOIN t {ON}"), true),
        (format!("SELECT t.*, f.value FROM t JOIN f {ON}"), true),
        (format!("SELECT f.*, t.value FROM f LEFT JOIN t {ON}"), true),
        (format!("SELECT * FROM t RIGHT JOIN f {ON} WHERE f.value > 7"), true),
        (format!("SELECT f.lead, count(*), sum(f.value - t.value) FROM f JOIN t {ON} GROUP BY f.lead"), true),
        (format!("SELECT f.lat, max(t.time), sum(t.value) FROM f JOIN t {ON} AND f.value > t.value GROUP BY f.lat"), true),
        (format!("SELECT f.lead, t.time, t.value FROM f JOIN t {ON} WHERE t.time > 6 AND f.lat >= 0 AND t.value > 3"), true),
        (format!("SELECT f.init, t.value FROM f JOIN (SELECT * FROM t WHERE time % 3 = 1) t {ON}"), true),
        (format!("SELECT f.*, t.time, t.value FROM f JOIN short t {ON}"), true),
        (format!("SELECT f.lead, avg(t.value) FROM f JOIN short t {ON} WHERE f.lead > 1 GROUP BY f.lead"), true),
        (format!("SELECT f.*, t.value FROM f JOIN turned t {ON}"), true),
        (format!("SELECT f.lat, sum(t.value) FROM f JOIN turned t {ON} GROUP BY f.lat"), true),
        ("SELECT f.init, t.lat, t.value FROM f JOIN t ON f.init = t.time AND -f.lat = t.lat".into(), true),
        ("SELECT x.time, x.value - y.value FROM t x JOIN t y ON x.time = y.time + 1 AND x.lat = y.lat".into(), true),
        ("SELECT x.value - y.value FROM t x JOIN t y ON x.time - 1 = y.time AND x.lat = y.lat".into(), true),
        ("SELECT x.time, x.lat, y.value FROM t x JOIN turned y USING (time, lat)".into(), true),
        ("SELECT x.*, y.value FROM t x JOIN short y USING (time, lat)".into(), true),
        // The key may be null as far as the types say, but not a dimension.
        ("SELECT f.lead, t.value FROM f JOIN t ON abs(f.init) = t.time AND f.lat = t.lat".into(), true),
        ("SELECT f.lead, t.* FROM f JOIN t ON abs(f.init) = t.time AND f.lat = t.lat".into(), true),
        ("SELECT t.time, f.value - t.value FROM f JOIN t ON abs(f.init) = t.time AND f.lat = t.lat".into(), true),
        // Cells without a match, and conditions beside the dimensions.
        (format!("SELECT f.*, t.* FROM f LEFT JOIN short t {ON}"), true),
        (format!("SELECT f.*, t.* FROM f LEFT JOIN (SELECT * FROM t WHERE lat >= 0 AND time > 5) t {ON}"), true),
        (format!("SELECT t.*, f.* FROM short t RIGHT JOIN f {ON} AND t.value > f.value AND t.lat > -20"), true),
        (format!("SELECT f.lead, count(t.time), sum(t.value) FROM f LEFT JOIN short t {ON} WHERE f.lat > -20 GROUP BY f.lead"), true),
        (format!("SELECT f.init, f.lead FROM f JOIN t {ON} AND t.value = f.value"), true),
        ("SELECT f.* FROM f WHERE EXISTS (SELECT 1 FROM short t WHERE f.init + f.lead = t.time AND f.lat = t.lat)".into(), true),
        ("SELECT f.* FROM f WHERE NOT EXISTS (SELECT 1 FROM short t WHERE f.init + f.lead = t.time AND f.lat = t.lat AND t.value > 20)"
            .into(), true),
        ("SELECT f.* FROM f WHERE f.value > 50 OR EXISTS (SELECT 1 FROM short t WHERE f.init + f.lead = t.time AND f.lat = t.lat)"
            .into(), true),
        ("SELECT time, lat, value FROM t EXCEPT SELECT time, lat, value FROM short WHERE lat <> 0".into(), true),
        // Cells without a match between those that have one.
        (format!("SELECT f.*, t.value FROM f JOIN gap t {ON}"), false),
        (format!("SELECT f.*, t.value FROM f RIGHT JOIN t {ON}"), false),
        (format!("SELECT f.*, t.value FROM f FULL JOIN t {ON}"), false),
        // Several matches, keys that share a dimension, dimensions without a key, keys that use values, and other joins.
        (format!("SELECT f.*, t.value FROM f JOIN repeated t {ON}"), false),
        ("SELECT f.*, t.value FROM f JOIN t ON f.init + f.lead = t.time AND f.init - 4 = t.lat".into(), false),
        ("SELECT f.*, t.value FROM f JOIN t ON f.init + f.lead = t.time".into(), false),
        ("SELECT f.*, t.value FROM f JOIN t ON f.value = t.time AND f.lat = t.lat".into(), false),
        (format!("SELECT f.* FROM f LEFT SEMI JOIN t {ON}"), true),
        (format!("SELECT t.* FROM t LEFT SEMI JOIN f {ON}"), false),
        (format!("SELECT t.* FROM t LEFT ANTI JOIN f {ON}"), false),
        (format!("SELECT f.*, t.value FROM (SELECT * FROM f ORDER BY lead LIMIT 3) f JOIN t {ON}"), false),
        // An array that is repeated.
        ("SELECT f.*, t.value FROM f JOIN (SELECT * FROM small WHERE time < 5) t ON f.lead = t.time AND f.lat = t.lat".into(), false),
    ] {
        let plan = plan(&ctx, &sql).await;
        assert_eq!(plan.contains("reindexed("), is_taken, "{sql}\n{plan}");
        let count = assert_same(&ctx, &sql).await;
        assert!(count > 0, "{sql}");
    }
}

#[tokio::test]
async fn each_window_reads_the_chunks_of_its_matches() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let run = run(
        &ctx,
        "SELECT sum(f.value * t.value) FROM f JOIN t ON f.init + f.lead = t.time AND f.lat = t.lat WHERE f.init = 8",
    )
    .await;
    // One chunk of the forecast, and the times 8 to 11 and 12 to 15.
    assert_eq!(run.metric("chunks_read"), 3);
}

/// An array whose axes have integers as coordinates, in any order and with gaps.
fn array(random: &mut Random, name: &str, dimensions: &[&str]) -> (DatasetSpec, Vec<u8>) {
    let shape: Vec<u64> = dimensions
        .iter()
        .map(|_| 1 + random.below(7) as u64)
        .collect();
    let chunks = shape
        .iter()
        .map(|length| 1 + random.below(*length as usize) as u64);
    let chunks: Vec<u64> = chunks.collect();
    let mut spec =
        DatasetSpec::new(name, Dtype::F32, &shape, &chunks).with_dim_names(dimensions.to_vec());
    for (name, length) in dimensions.iter().zip(&shape) {
        let (start, step) = (
            random.below(5) as i64 - 2,
            *random.pick(&[1i64, 1, 1, -1, 2]),
        );
        let mut labels: Vec<i64> = (0..*length as i64).map(|n| start + n * step).collect();
        if random.chance(20) {
            let other = random.below(labels.len());
            labels.swap(0, other);
        }
        spec = spec.with_labels(name, labels.iter().map(i64::to_string));
    }
    let count = shape.iter().product::<u64>();
    let value = |n: u64| {
        if n % 7 == 3 {
            f32::NAN
        } else {
            (n % 13) as f32
        }
    };
    (spec, cells!((0..count).map(value)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_joins_answer_as_datafusion() {
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let first = number("TET_SQL_SEED", 0);
    let (mut taken, mut found) = (0, 0);
    for seed in first..first + number("TET_SQL_REINDEXED", 40) {
        let mut random = Random(seed);
        let arrays = [
            array(&mut random, "f", &["i", "j", "k"]),
            array(&mut random, "t", &["x", "y"]),
            array(&mut random, "u", &["x", "y", "z"]),
        ];
        let (_folder, _, ctx) = sample(&arrays, ArrayOptions::new()).await;
        rows(
            &ctx,
            &format!(
                "SET datafusion.execution.batch_size = {}",
                random.pick(&[3, 8192])
            ),
        )
        .await;
        #[cfg(feature = "proto")]
        if random.chance(30) {
            Encoded::add_to(&ctx, &[]);
        }
        for _ in 0..4 {
            let other = *random.pick(&["t", "u"]);
            let keys = match other {
                "t" => random.pick(&[
                    "f.i + f.j = t.x AND f.k = t.y",
                    "f.i = t.y AND f.k + f.j = t.x",
                    "f.i - f.k = t.x AND f.j = t.y",
                    "f.i = t.x AND -f.j = t.y",
                    "f.j = t.x AND f.k * 2 - f.i = t.y",
                ]),
                _ => random.pick(&[
                    "f.i = u.x AND f.j = u.y AND f.k = u.z",
                    "f.k = u.x AND f.j = u.y AND f.i = u.z",
                    "f.i + 1 = u.x AND -f.j = u.y AND f.k = u.z",
                ]),
            };
            let kind = *random.pick(&["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"]);
            let (left, right) = *random.pick(&[("f", other), (other, "f")]);
            let filters = [
                "f.i > 0".to_string(),
                format!("{other}.x >= 1"),
                format!("{other}.y <> 1"),
                format!("{other}.value > 4"),
                "f.value < 9".into(),
                format!("f.value <> {other}.value"),
                format!("{other}.x + f.i < 5"),
            ];
            let filter = match random.chance(30) {
                true => String::new(),
                false => format!(" WHERE {}", random.some(&filters, 20).join(" AND ")),
            };
            let (select, rest) = *random.pick(&[
                ("f.*, o.*", ""),
                ("f.k, o.x, o.value", ""),
                (
                    "f.i, f.j, count(*), count(o.value), sum(o.value - f.value)",
                    " GROUP BY f.i, f.j",
                ),
                (
                    "o.y, min(f.value), max(o.value), sum(o.value)",
                    " GROUP BY o.y",
                ),
                ("count(*), sum(o.value), count(f.value)", ""),
            ]);
            let select = select.replace("o.", &format!("{other}."));
            let rest = rest.replace("o.", &format!("{other}."));
            let sql = format!("SELECT {select} FROM {left} {kind} {right} ON {keys}{filter}{rest}");
            taken += usize::from(plan(&ctx, &sql).await.contains("reindexed("));
            found += assert_same(&ctx, &sql).await;
        }
    }
    assert!(taken > 10 && found > 0, "{taken} {found}");
}
