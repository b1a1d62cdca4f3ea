//! Functions that replace DataFusion's, at the limits of their types and for many groups.

use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{error, rows, sample, session};
use crate::windows::generated::is_same;

#[tokio::test]
async fn min_and_max_of_infinities_and_nan() {
    let values = "(VALUES (1, 'inf'::DOUBLE), (1, 'inf'), (2, '-inf'), (3, 'nan'), (3, 1.0), (4, 1.0), (4, 'nan'), (5, 'nan'), (6, NULL)) \
                  AS t(g, x)";
    for data_type in ["DOUBLE", "REAL"] {
        let sql = format!(
            "SELECT g, min(x::{data_type}), max(x::{data_type}) FROM {values} GROUP BY g ORDER BY g"
        );
        let expected = [
            "1 inf inf",
            "2 -inf -inf",
            "3 1.0 NaN",
            "4 1.0 NaN",
            "5 NaN NaN",
            "6 NULL NULL",
        ];
        assert_eq!(rows(&session(), &sql).await, expected);
    }
}

#[tokio::test]
async fn times_outside_the_nanosecond_range_can_be_binned() {
    let times = "(SELECT arrow_cast(n * 86400000000 + 32514048000000000, 'Timestamp(Microsecond, None)') AS t \
                 FROM generate_series(0, 1) AS g(n))";
    let sql = format!(
        "SELECT date_trunc('year', t), date_trunc('day', t), date_bin(INTERVAL '1 day', t), date_bin(INTERVAL '3 months', t) \
         FROM {times} ORDER BY t"
    );
    let expected = [
        "3000-01-01T00:00:00 3000-05-01T00:00:00 3000-05-01T00:00:00 3000-04-01T00:00:00",
        "3000-01-01T00:00:00 3000-05-02T00:00:00 3000-05-02T00:00:00 3000-04-01T00:00:00",
    ];
    assert_eq!(rows(&session(), &sql).await, expected);
    let sql =
        "SELECT date_trunc('month', arrow_cast(32514048000000000, 'Timestamp(Microsecond, None)'))";
    assert_eq!(rows(&session(), sql).await, ["3000-05-01T00:00:00"]);
}

#[tokio::test]
async fn quantiles_use_the_fraction_as_given() {
    let sql = "SELECT quantile(x, 0.1234567), quantile(x, 0.999999999), quantile(x, 0), quantile(x, 1) FROM \
               (VALUES (4.0), (1.0), (2.0), (3.0), (NULL)) AS t(x)";
    // numpy.quantile([4, 1, 2, 3], ...)
    assert_eq!(
        rows(&session(), sql).await,
        ["1.3703701000000001 3.999999997 1.0 4.0"]
    );
    let sql = "SELECT g, quantile(x, 0.9999999), percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) FROM \
               (VALUES (1, 0.0), (1, 1.0), (2, 5.0), (3, NULL)) AS t(g, x) GROUP BY g ORDER BY g";
    assert_eq!(
        rows(&session(), sql).await,
        ["1 0.9999999 0.75", "2 5.0 5.0", "3 NULL NULL"]
    );
}

/// A part of a duration is its whole length, without a limit of 32 bits.
#[tokio::test]
async fn parts_of_durations() {
    let ctx = session();
    let sql = "SELECT date_part('epoch', TIMESTAMP '2024-01-01' - TIMESTAMP '1950-01-01'),
                 date_part('epoch', TIMESTAMP '2024-01-01 00:00:02.5' - TIMESTAMP '2024-01-01'),
                 extract(MILLISECOND FROM TIMESTAMP '2024-03-01 00:00:01.5' - TIMESTAMP '2024-01-01'),
                 date_part('microsecond', TIMESTAMP '2024-03-01 00:00:01.5' - TIMESTAMP '2024-01-01'),
                 second(TIMESTAMP '2100-01-01' - TIMESTAMP '1950-01-01')";
    let expected = "2335219200.0 2.5 5184001500 5184001500000 4733596800";
    assert_eq!(rows(&ctx, sql).await, [expected]);
    for (unit, ticks) in [
        ("Second", -90),
        ("Millisecond", -90_000),
        ("Microsecond", -90_000_000),
        ("Nanosecond", -90_000_000_000i64),
    ] {
        let sql = format!(
            "SELECT date_part('epoch', d), date_part('hour', d), date_part('minute', d), date_part('second', d),
               date_part('millisecond', d), date_part('microsecond', d), date_part('nanosecond', d)
             FROM (SELECT arrow_cast({ticks}, 'Duration({unit})') AS d)"
        );
        let expected = "-90.0 0 -1 -90 -90000 -90000000 -90000000000";
        assert_eq!(rows(&ctx, &sql).await, [expected], "{unit}");
    }
    let sql = "SELECT date_part('second', d), minute(d), date_part('epoch', d) FROM
               (SELECT arrow_cast(x, 'Duration(Second)') AS d FROM (VALUES (3000000000), (NULL)) t(x))";
    let expected = ["3000000000 50000000 3000000000.0", "NULL NULL NULL"];
    assert_eq!(rows(&ctx, sql).await, expected);
    // A column without nulls.
    let sql = "SELECT date_part('epoch', arrow_cast(value * 8640000000, 'Duration(Second)')) / 86400 FROM range(1, 3)";
    assert_eq!(rows(&ctx, sql).await, ["100000.0", "200000.0"]);
    let sql = "SELECT arrow_typeof(date_part('day', d)), arrow_typeof(extract(SECOND FROM d)), arrow_typeof(date_part('epoch', d)),
                 arrow_typeof(extract(SECOND FROM TIMESTAMP '2024-01-01'))
               FROM (SELECT TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01' AS d)";
    assert_eq!(rows(&ctx, sql).await, ["Int32 Int64 Float64 Int32"]);
    let sql = "SELECT date_part('nanosecond', arrow_cast(9223372036854775807, 'Duration(Second)'))";
    let message = error(&ctx, sql).await;
    assert!(message.contains("does not fit in Int64"), "{message}");
    error(
        &ctx,
        "SELECT date_part('year', arrow_cast(1, 'Duration(Second)'))",
    )
    .await;
}

/// Functions of pairs, in the order of [`defined`].
const OF_PAIRS: [&str; 11] = [
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
];

/// Returns the functions of pairs with these arguments, each followed by a clause.
fn of_pairs(arguments: &str, clause: &str) -> String {
    let functions = OF_PAIRS.map(|name| format!("{name}({arguments}) {clause}"));
    functions.join(", ")
}

/// Returns the results for pairs of `y` and `x`, by their definitions.
fn defined(pairs: &[(f64, f64)]) -> String {
    let count = pairs.len() as f64;
    let mean_y = pairs.iter().map(|(y, _)| y).sum::<f64>() / count;
    let mean_x = pairs.iter().map(|(_, x)| x).sum::<f64>() / count;
    let sum = |term: fn(f64, f64) -> f64| -> f64 {
        let terms = pairs.iter().map(|(y, x)| term(y - mean_y, x - mean_x));
        terms.sum()
    };
    let (sxx, syy, sxy) = (sum(|_, x| x * x), sum(|y, _| y * y), sum(|y, x| y * x));
    let any = |value: f64| (count > 0.0).then_some(value);
    let regression = |value: f64| (count > 1.0 && sxx > 0.0).then_some(value);
    let results = [
        any(sxy / count),
        (count > 1.0).then_some(sxy / (count - 1.0)),
        regression(sxy / sxx),
        regression(mean_y - sxy / sxx * mean_x),
        Some(count),
        regression(sxy * sxy / (sxx * syy)).filter(|_| syy > 0.0),
        any(mean_x),
        any(mean_y),
        any(sxx),
        any(syy),
        any(sxy),
    ];
    let texts = results.map(|result| result.map_or("NULL".to_string(), |value| value.to_string()));
    texts.join(" ")
}

fn assert_all_same(found: &[String], expected: &[String], sql: &str) {
    assert_eq!(found.len(), expected.len(), "{sql}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(is_same(found, expected), "{found}\n{expected}\n{sql}");
    }
}

#[tokio::test]
async fn pairs_of_many_groups() {
    // Group 0 has no pair, group 1 a single one, and those of groups 2 and 3 have a constant.
    let pairs = "(SELECT value AS n, value % 40 AS g,
        CASE WHEN value % 40 = 0 OR value % 7 = 0 THEN NULL WHEN value % 40 = 3 THEN 2.5
             ELSE (value * 37 % 101) / 4.0 END AS y,
        CASE WHEN value % 11 = 3 OR value % 40 = 1 AND value > 1 THEN NULL WHEN value % 40 = 2 THEN 5
             ELSE value * 53 % 89 + 1000 END AS x FROM range(3000))";
    let pair = |n: i64| {
        let group = n % 40;
        let has_y = group != 0 && n % 7 != 0;
        let has_x = n % 11 != 3 && (group != 1 || n == 1);
        let y = if group == 3 {
            2.5
        } else {
            (n * 37 % 101) as f64 / 4.0
        };
        let x = if group == 2 {
            5.0
        } else {
            (n * 53 % 89 + 1000) as f64
        };
        (has_y && has_x).then_some((y, x))
    };
    let expected = |is_kept: fn(i64) -> bool| -> Vec<String> {
        let groups = (0..40).map(|group| {
            let rows = (0..3000).filter(|n| n % 40 == group && is_kept(*n));
            let pairs: Vec<_> = rows.filter_map(pair).collect();
            format!("{group} {}", defined(&pairs))
        });
        groups.collect()
    };
    let all = of_pairs("y, x", "");
    let some = of_pairs("y, x", "FILTER (WHERE n % 3 <> 0 AND g <> 5)");
    let ctx = session();
    for (partitions, batch_size, is_partial_skipped) in
        [(1, 8192, false), (4, 100, false), (4, 64, true)]
    {
        for (setting, value) in [
            ("target_partitions", partitions.to_string()),
            ("batch_size", batch_size.to_string()),
            (
                "skip_partial_aggregation_probe_rows_threshold",
                if is_partial_skipped { "1" } else { "100000" }.to_string(),
            ),
            (
                "skip_partial_aggregation_probe_ratio_threshold",
                if is_partial_skipped { "0.0" } else { "0.8" }.to_string(),
            ),
        ] {
            rows(
                &ctx,
                &format!("SET datafusion.execution.{setting} = {value}"),
            )
            .await;
        }
        let sql = format!("SELECT g, {all} FROM {pairs} GROUP BY g ORDER BY g");
        assert_all_same(&rows(&ctx, &sql).await, &expected(|_| true), &sql);
        let sql = format!("SELECT g, {some} FROM {pairs} GROUP BY g ORDER BY g");
        let is_kept = |n: i64| n % 3 != 0 && n % 40 != 5;
        assert_all_same(&rows(&ctx, &sql).await, &expected(is_kept), &sql);
    }
    // One group at a time, in DataFusion's accumulators.
    for (group, expected) in expected(|_| true).iter().enumerate() {
        let sql = format!("SELECT {group}, {all} FROM {pairs} WHERE g = {group}");
        assert_all_same(
            &rows(&ctx, &sql).await,
            std::slice::from_ref(expected),
            &sql,
        );
    }
    let sql = "SELECT g, covar(y, x), regr_count(y, x) FROM (VALUES (1, 1.0, 2.0), (1, 3.0, 5.0), (2, NULL, 1.0)) t(g, y, x) \
               GROUP BY g ORDER BY g";
    assert_eq!(rows(&ctx, sql).await, ["1 3.0 2", "2 NULL 0"]);
    // NaN is a number.
    let sql = "SELECT g, regr_slope(y, x), regr_count(y, x), regr_avgx(y, x), covar_pop(y, x), regr_r2(y, x) FROM \
               (VALUES (1, 'nan'::DOUBLE, 2.0), (1, 3.0, 5.0), (1, 4.0, NULL)) t(g, y, x)";
    let grouped = format!("{sql} GROUP BY g");
    assert_eq!(rows(&ctx, &grouped).await, ["1 NaN 2 3.5 NaN NaN"]);
}

#[tokio::test]
async fn pairs_of_cells() {
    let spec = DatasetSpec::new("a", Dtype::F32, &[12, 5, 6], &[5, 2, 4])
        .with_dim_names(["time", "lat", "lon"]);
    let value = |n: i64| (n % 13 != 0).then_some((n * 7 % 31) as f32);
    let cells = cells!((0..360).map(|n| value(n).unwrap_or(f32::NAN)));
    let (_folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    let pairs = |is_in: &dyn Fn(i64) -> bool| {
        let cells = (0..360).filter(|n| is_in(*n));
        let pairs = cells.filter_map(|n| Some((f64::from(value(n)?), (n / 30) as f64)));
        defined(&pairs.collect::<Vec<_>>())
    };
    let functions = of_pairs("value, time", "");
    for partitions in [1, 3] {
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        rows(&ctx, &set).await;
        let sql =
            format!("SELECT lat, lon, {functions} FROM a GROUP BY lat, lon ORDER BY lat, lon");
        let series = (0..30).map(|series| {
            let found = pairs(&|n| n % 30 == series);
            format!("{} {} {found}", series / 6, series % 6)
        });
        let series: Vec<_> = series.collect();
        assert_all_same(&rows(&ctx, &sql).await, &series, &sql);
        // Groups by values.
        let sql = format!(
            "SELECT CAST(value AS BIGINT) % 4 AS k, {functions} FROM a GROUP BY k ORDER BY k NULLS LAST"
        );
        let groups = (0..4).map(|group| {
            let found = pairs(&|n| value(n).is_some_and(|value| value as i64 % 4 == group));
            format!("{group} {found}")
        });
        let groups: Vec<_> = groups.chain([format!("NULL {}", defined(&[]))]).collect();
        assert_all_same(&rows(&ctx, &sql).await, &groups, &sql);
    }
}

/// Rows that leave a sliding frame are subtracted.
#[tokio::test]
async fn pairs_of_sliding_frames() {
    let sql = "SELECT n, covar_samp(y, x) OVER w, regr_slope(y, x) OVER w, regr_count(y, x) OVER w FROM \
               (SELECT value AS n, value * 37 % 101 AS y, value * 53 % 89 AS x FROM range(50)) \
               WINDOW w AS (ORDER BY n ROWS 3 PRECEDING) ORDER BY n";
    let expected = (0..50i64).map(|n| {
        let frame = (n - 3).max(0)..=n;
        let pairs = frame.map(|n| ((n * 37 % 101) as f64, (n * 53 % 89) as f64));
        let all = defined(&pairs.collect::<Vec<_>>());
        let all: Vec<&str> = all.split(' ').collect();
        format!("{n} {} {} {}", all[1], all[2], all[4])
    });
    let expected: Vec<_> = expected.collect();
    assert_all_same(&rows(&session(), sql).await, &expected, sql);
}
