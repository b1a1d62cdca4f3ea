//! Aggregates of the rows of lookup joins: which of them are grouped by number, and that the answers
//! equal DataFusion's.

use datafusion::prelude::SessionContext;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype};

use crate::cells;
use crate::support::sql::{assert_same_without, rows, rows_without, run, sample};

/// `a` over time, lat and lon; `flat` without time.
fn datasets() -> Vec<(DatasetSpec, Vec<u8>)> {
    let names = ["time", "lat", "lon"];
    vec![
        (
            DatasetSpec::new("a", Dtype::F32, &[6, 5, 7], &[4, 2, 3]).with_dim_names(names),
            cells!((0..210).map(|n| if n % 17 == 3 {
                f32::NAN
            } else {
                (n % 23) as f32
            })),
        ),
        (
            DatasetSpec::new("flat", Dtype::F32, &[5, 7], &[2, 4]).with_dim_names(["lat", "lon"]),
            cells!((0..35).map(|n| n as f32 / 2.0)),
        ),
    ]
}

/// Zones of latitudes: one latitude is in two zones, one in none, and two rows match nothing.
const ZONES: &str = "(VALUES (0, 'south', 2.0), (1, 'south', 0.5), (2, 'middle', 1.0), (2, NULL, 3.0), \
                     (4, 'north', NULL), (9, 'none', 1.0), (NULL, 'none', 1.0)) z(lat, zone, weight)";

/// Returns the rows of a query, sorted, by group numbers and by DataFusion.
async fn both(ctx: &SessionContext, sql: &str) -> [Vec<String>; 2] {
    let by_number = rows(ctx, sql).await;
    let mut answers = [
        by_number,
        rows_without(ctx, "tet.array_aggregates", sql).await,
    ];
    answers.iter_mut().for_each(|answer| answer.sort());
    answers
}

#[tokio::test]
async fn groups_are_numbered() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let zones = format!("a JOIN {ZONES} USING (lat)");
    let outer = format!("a LEFT JOIN {ZONES} ON a.lat = z.lat");
    let climatology =
        "a JOIN (SELECT lat, lon, avg(value) AS mean FROM a GROUP BY lat, lon) c USING (lat, lon)";
    for batch_size in [8192, 5] {
        rows(
            &ctx,
            &format!("SET datafusion.execution.batch_size = {batch_size}"),
        )
        .await;
        for (select, from, groups, is_taken) in [
            (
                "max(abs(value - mean)), avg(value - mean)",
                climatology,
                "time",
                true,
            ),
            ("count(*), sum(value), min(mean)", climatology, "", true),
            (
                "count(value), round(sum(value * weight), 3), max(lon)",
                &zones,
                "zone",
                true,
            ),
            (
                "count(*), avg(value)",
                &zones,
                "time % 2, zone, weight",
                true,
            ),
            ("count(*), min(zone)", &zones, "lon, lat", true),
            ("count(DISTINCT value), median(value)", &zones, "zone", true),
            (
                "sum(value) FILTER (WHERE value > weight), count(*)",
                &zones,
                "time, zone",
                true,
            ),
            ("count(*), sum(value)", &outer, "zone", true),
            (
                "count(*), sum(value)",
                &outer,
                "coalesce(zone, '?'), zone IS NULL",
                true,
            ),
            (
                "count(*), sum(value)",
                &zones,
                "10 / (9 - coalesce(z.lat, 0))",
                true,
            ),
            (
                "count(*), count(zone), sum(value)",
                &outer,
                "zone, a.lat",
                true,
            ),
            ("count(*), sum(weight)", &outer, "time + lon", true),
            (
                "count(*), max(value)",
                &format!("a LEFT SEMI JOIN {ZONES} ON a.lat = z.lat"),
                "lon",
                true,
            ),
            (
                "count(*), max(value)",
                &format!("a LEFT ANTI JOIN {ZONES} ON a.lat = z.lat"),
                "lon",
                true,
            ),
            (
                "count(*), max(a.value)",
                "a JOIN flat USING (lat, lon)",
                "flat.value > 8, time",
                true,
            ),
            (
                "count(*)",
                &format!("{zones} WHERE value > 4 * weight"),
                "zone, time",
                true,
            ),
            (
                "count(*), sum(value)",
                &format!("a JOIN {ZONES} ON a.lat = z.lat AND a.value > 50 * z.weight"),
                "",
                true,
            ),
            // Expressions over both sides or over attributes of the array, and rows of the build
            // side without a match.
            ("count(*)", &zones, "time + weight", false),
            ("count(*)", &zones, "value", false),
            (
                "count(*)",
                &format!("a FULL JOIN {ZONES} ON a.lat = z.lat"),
                "zone",
                false,
            ),
        ] {
            let by = if groups.is_empty() { "" } else { " GROUP BY " };
            let keys = if groups.is_empty() {
                String::new()
            } else {
                format!("{groups}, ")
            };
            let sql = format!("SELECT {keys}{select} FROM {from}{by}{groups}");
            let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}"))
                .await
                .concat();
            assert_eq!(
                plan.contains("ArrayJoinAggregateExec"),
                is_taken,
                "{sql}\n{plan}"
            );
            let [answer, expected] = both(&ctx, &sql).await;
            assert!(!expected.is_empty(), "{sql}");
            assert_eq!(answer, expected, "{sql}");
        }
    }
}

/// Cells with the same keys are aggregated before the join, unless an aggregate or a predicate needs each
/// cell with its match, or there are too few cells per group.
#[tokio::test]
async fn cells_are_aggregated_before_the_join() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let zones = format!("a JOIN {ZONES} USING (lat)");
    let outer = format!("a LEFT JOIN {ZONES} ON a.lat = z.lat");
    let boxes = "a JOIN (VALUES (0, 2, 1, 5, 'x'), (1, 4, 0, 3, 'y'), (9, 9, 0, 9, 'z')) \
                 b(south, north, west, east, name) \
                 ON a.lat BETWEEN south AND north AND a.lon BETWEEN west AND east";
    let all = "count(*), count(value), sum(value), avg(value), min(value), max(value), \
               round(stddev(value), 9)";
    for batch_size in [8192, 3] {
        let set = format!("SET datafusion.execution.batch_size = {batch_size}");
        rows(&ctx, &set).await;
        for (select, from, groups, is_eager) in [
            (all, zones.as_str(), "zone", true),
            (all, &outer, "zone", true),
            (all, boxes, "name", true),
            (all, &zones, "", true),
            (all, &zones, "time % 2, zone, weight > 1", true),
            (
                all,
                &format!("{zones} WHERE time > 0 AND lon < 6"),
                "zone",
                true,
            ),
            (all, &format!("{zones} WHERE value > 4"), "zone", true),
            (all, &format!("{zones} WHERE zone = 'nowhere'"), "", true),
            (
                "sum(a.value)",
                "a JOIN flat USING (lat, lon)",
                "flat.value > 8",
                true,
            ),
            (
                "count(*), max(value)",
                &format!("a LEFT SEMI JOIN {ZONES} ON a.lat = z.lat"),
                "",
                true,
            ),
            (
                "count(*), max(value)",
                &format!("a LEFT ANTI JOIN {ZONES} ON a.lat = z.lat"),
                "lat % 2",
                true,
            ),
            (
                "sum(value) FILTER (WHERE value > 7), count(*) FILTER (WHERE lon > 2)",
                &outer,
                "zone",
                true,
            ),
            (
                "max(lon), min(lat), count(DISTINCT time)",
                &zones,
                "zone",
                true,
            ),
            ("count(*)", &zones, "zone, time", true),
            ("count(*)", &zones, "zone, time, lon", false),
            // The expression fails on a coordinate without a match.
            (
                "max(10 / lat)",
                "a WHERE NOT EXISTS (SELECT 1 FROM (VALUES (0)) m(l) WHERE l = lat)",
                "",
                false,
            ),
            ("sum(value * weight)", &zones, "zone", false),
            ("sum(value), sum(weight)", &zones, "zone", false),
            ("median(value)", &zones, "zone", false),
            (
                "sum(value)",
                &format!("{zones} WHERE value > weight"),
                "zone",
                false,
            ),
            (
                "sum(value)",
                &format!("a JOIN {ZONES} ON a.lat = z.lat AND a.value > z.weight"),
                "zone",
                false,
            ),
            (
                "sum(value)",
                "a JOIN (VALUES (1, 'x'), (2, 'y')) b(k, name) ON a.lat + a.lon = b.k",
                "name",
                false,
            ),
        ] {
            let by = match groups {
                "" => String::new(),
                groups => format!(" GROUP BY {groups}"),
            };
            let keys = match groups {
                "" => String::new(),
                groups => format!("{groups}, "),
            };
            let sql = format!("SELECT {keys}{select} FROM {from}{by}");
            let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
            let plan = plan.concat();
            let is_before = plan.contains("ArrayJoinAggregateExec: mode=Final")
                && plan.contains("ArrayAggregateExec: mode=Partial, gby=[coordinate_term(");
            assert_eq!(is_before, is_eager, "{sql}\n{plan}");
            let [answer, expected] = both(&ctx, &sql).await;
            assert_eq!(answer, expected, "{sql}");
        }
    }
}

/// Consecutive cells that match the same row become one partial state, if the function has such a state and the runs
/// are not cut into single cells.
#[tokio::test]
async fn runs_of_cells_are_reduced_before_they_are_grouped() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let boxes = "a JOIN (VALUES (0, 2, 1, 5, 'x'), (1, 4, 0, 3, 'y'), (3, 9, 2, 2, NULL), (9, 9, 0, 9, 'z')) \
                 b(south, north, west, east, name) \
                 ON a.lat BETWEEN south AND north AND a.lon BETWEEN west AND east";
    let polygons = "a JOIN (SELECT id, ST_GeomFromText(wkt) AS g FROM (VALUES \
                    (1, 'POLYGON((-1 -1, 5 -1, 5 3.5, -1 3.5, -1 -1), (1.5 0.5, 3.5 0.5, 3.5 1.5, 1.5 1.5, 1.5 0.5))'), \
                    (2, 'POLYGON((2 1, 6 1, 6 4, 2 4, 2 1))')) v(id, wkt)) p \
                    ON ST_Intersects(g, ST_Point(lon, lat))";
    let periods = "a JOIN (VALUES (0, 2, 'x'), (2, 4, 'y'), (5, 5, 'y')) b(first, last, name) \
                   ON a.time BETWEEN first AND last";
    for (select, from, groups, is_reduced) in [
        (
            "count(value), avg(value), sum(value)",
            boxes,
            "name, time",
            true,
        ),
        (
            "min(value), max(value + lon), count(*)",
            boxes,
            "name, time, lat",
            true,
        ),
        ("avg(value * lat)", boxes, "", true),
        (
            "count(*), avg(value), min(lon), max(lat)",
            boxes,
            "name",
            true,
        ),
        ("avg(value), count(value)", polygons, "id, time", true),
        ("sum(value), max(value)", polygons, "time % 2, id > 1", true),
        ("count(value), sum(lon), avg(value)", polygons, "id", true),
        ("sum(value), count(*)", periods, "name", true),
        ("sum(value), count(*)", periods, "lat % 2, name", false),
        // This fails on a cell without a match.
        ("sum(10 / (lat + lon))", boxes, "name", false),
        ("median(value)", boxes, "name", false),
        ("count(DISTINCT value)", boxes, "name, time", false),
        ("sum(value * west)", boxes, "name", false),
        (
            "sum(value) FILTER (WHERE value > 4)",
            polygons,
            "id, time",
            false,
        ),
        ("sum(value)", boxes, "name, time, lon", false),
    ] {
        let by = match groups {
            "" => String::new(),
            groups => format!(" GROUP BY {groups}"),
        };
        let sql = format!("SELECT {select} FROM {from}{by}");
        let ran = run(&ctx, &sql).await;
        assert_eq!(ran.metric("joined_runs") > 0, is_reduced, "{sql}");
        let [answer, expected] = both(&ctx, &sql).await;
        assert_eq!(answer, expected, "{sql}");
        let mut rows = ran.rows;
        rows.sort();
        assert_eq!(rows, answer, "{sql}");
    }
}

#[tokio::test]
async fn too_little_memory_leaves_the_groups_to_datafusion() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let sql = "SELECT a.time, a.lat, a.lon, k, count(*), sum(value), max(value) \
               FROM a JOIN (SELECT lat, time * 10 + lon AS k FROM a) b ON a.lat = b.lat GROUP BY ALL";
    let all = run(&ctx, sql).await;
    assert_eq!(all.metric("left_to_engine"), 0);
    rows(&ctx, "SET datafusion.runtime.memory_limit = '1M'").await;
    let left = run(&ctx, sql).await;
    assert_eq!(left.metric("left_to_engine"), 1);
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(left.rows), sorted(all.rows));
}

#[tokio::test]
async fn cells_are_joined_if_partial_states_do_not_fit_into_memory() {
    let cells = cells!((0..4 * 100 * 100).map(|n| (n % 23) as f32));
    let spec = DatasetSpec::new("a", Dtype::F32, &[4, 100, 100], &[4, 10, 100]);
    let spec = spec.with_dim_names(["time", "lat", "lon"]);
    let (_folder, _, ctx) = sample(&[(spec, cells)], ArrayOptions::new()).await;
    let sql = "SELECT name, count(*), sum(value), max(value) FROM a \
               JOIN (VALUES (0, 60, 'x'), (40, 99, 'y')) b(south, north, name) \
               ON lat BETWEEN south AND north AND lon < north GROUP BY name";
    let of_states = run(&ctx, sql).await;
    assert_eq!(of_states.metric("left_to_engine"), 0);
    rows(&ctx, "SET datafusion.runtime.memory_limit = '1500K'").await;
    let of_cells = run(&ctx, sql).await;
    assert_eq!(of_cells.metric("left_to_engine"), 1);
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(of_cells.rows), sorted(of_states.rows));
}

/// An array joined with a climatology, a mask and weights: every join looks up its matches, and the
/// scan of the array computes all key indices.
#[tokio::test]
async fn joins_on_top_of_each_other() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    const CLIMATOLOGY: &str = "(SELECT lat, lon, avg(value) AS mean FROM a GROUP BY lat, lon) c";
    const WEIGHTS: &str = "(VALUES (0, 0.5), (1, 1.5), (2, 2.5), (2, 1.0)) w(lat, weight)";
    const HOURS: &str = "(VALUES (0, 'even'), (1, 'odd')) h(hour, name)";
    for (joins, count) in [
        (
            format!(
                "a JOIN {CLIMATOLOGY} ON a.lat = c.lat AND a.lon = c.lon JOIN {WEIGHTS} ON a.lat = w.lat"
            ),
            2,
        ),
        (
            format!("a JOIN {WEIGHTS} ON a.lat = w.lat JOIN {HOURS} ON a.time % 2 = h.hour"),
            2,
        ),
        (
            format!(
                "a LEFT JOIN {WEIGHTS} ON a.lat = w.lat LEFT JOIN {HOURS} ON a.time % 3 = h.hour"
            ),
            2,
        ),
        (
            format!("a JOIN {WEIGHTS} ON a.lat = w.lat LEFT SEMI JOIN {HOURS} ON a.time = h.hour"),
            2,
        ),
        (
            format!(
                "(SELECT * FROM a JOIN {WEIGHTS} ON a.lat = w.lat WHERE value > 3 * weight) x JOIN {HOURS} ON x.time % 2 = h.hour"
            ),
            2,
        ),
        (
            format!(
                "a JOIN {CLIMATOLOGY} ON a.lat = c.lat AND a.lon = c.lon JOIN {WEIGHTS} ON a.lat = w.lat JOIN {HOURS} ON a.time % 2 = h.hour"
            ),
            3,
        ),
        // The key of the upper join is not a dimension.
        (
            format!("a JOIN {WEIGHTS} ON a.lat = w.lat JOIN {HOURS} ON w.weight = h.hour"),
            1,
        ),
    ] {
        for select in ["*", "count(*), sum(value)"] {
            let sql = format!("SELECT {select} FROM {joins}");
            let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}"))
                .await
                .concat();
            assert_eq!(
                plan.matches("ArrayLookupJoinExec").count(),
                count,
                "{sql}\n{plan}"
            );
            assert_same_without(&ctx, "tet.lookup_joins", &sql).await;
        }
    }
    // The rows of every build side prune chunks: one of two along time, one of three along lat.
    let sql = "SELECT count(*) FROM a JOIN (VALUES (4, 0.5), (4, 1.5)) w(lat, weight) USING (lat) \
               JOIN (VALUES (1, 'one')) h(time, name) USING (time) WHERE value >= 0";
    let ran = run(&ctx, sql).await;
    assert_eq!(ran.reads(), 3);
}

/// The cells of a build side that is an array are kept by key index.
#[tokio::test]
async fn cells_by_key_index() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for (kind, condition) in [
        ("", ""),
        ("LEFT ", ""),
        ("", " AND e.value < 9"),
        ("FULL ", ""),
    ] {
        for select in [
            "count(*), count(e.value), sum(a.value - e.value)",
            "a.time, count(*), sum(e.value)",
        ] {
            let groups = if select.starts_with('a') {
                " GROUP BY a.time"
            } else {
                ""
            };
            let sql = format!(
                "SELECT {select} FROM a {kind}JOIN (SELECT * FROM a WHERE lon < 5) e \
                 ON a.time + 2 = e.time AND a.lat = e.lat AND a.lon = e.lon{condition}{groups}"
            );
            let mut answer = rows(&ctx, &sql).await;
            let mut expected = rows_without(&ctx, "tet.lookup_joins", &sql).await;
            answer.sort();
            expected.sort();
            assert_eq!(answer, expected, "{sql}");
        }
    }
}
