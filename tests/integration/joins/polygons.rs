//! Joins of arrays with polygons: which joins look up their matches by position, what they read, and their
//! answers, compared with those of the same joins by DataFusion.

use tet_sql::ArrayOptions;

use crate::joins::conditions::datasets;
use crate::support::sql::{assert_same_without, plan, run, sample};

/// A triangle, a square with a hole whose edges are on coordinates, two squares, and a polygon outside of
/// the array.
const SHAPES: &str = "(SELECT id, ST_GeomFromText(wkt) AS g FROM (VALUES
    (1, 'POLYGON((-3 -25, 9.5 -25, 5 20, -3 -25))'),
    (2, 'POLYGON((-3 -15, 13 -15, 13 25, -3 25, -3 -15), (0 -5, 9 -5, 9 15, 0 15, 0 -5))'),
    (3, 'MULTIPOLYGON(((0 0, 5 0, 5 6, 0 6, 0 0)), ((8 10, 14 10, 14 30, 8 30, 8 10)))'),
    (4, 'POLYGON((100 100, 110 100, 110 110, 100 100))'),
    (5, NULL)) v(id, wkt)) s";

#[tokio::test]
async fn joins_with_polygons_look_up_their_matches() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for condition in [
        "ST_Contains(s.g, ST_Point(a.lon, a.lat))",
        "ST_Within(ST_Point(a.lon, a.lat), s.g)",
        "ST_Covers(s.g, ST_Point(a.lon, a.lat))",
        "ST_CoveredBy(ST_Point(a.lon, a.lat), s.g)",
        "ST_Intersects(s.g, ST_Point(a.lon + 1, -a.lat))",
        "ST_Intersects(ST_Point(a.lon, a.lat), s.g) AND a.time > 3 AND s.id < 3",
        "ST_Disjoint(ST_Point(a.lon, a.lat), s.g) AND s.id < 5",
        "ST_Intersects(s.g, ST_Point(a.lon, 0))",
        "ST_Contains(s.g, ST_Point(s.id, a.lat))",
        "ST_Touches(s.g, ST_Point(a.lon, a.lat))",
    ] {
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN"] {
            let from = format!("a {join} {SHAPES} ON {condition}");
            let queries = [
                format!(
                    "SELECT a.time, a.lat, a.lon, a.value, s.id FROM {from} ORDER BY 1, 2, 3, 5"
                ),
                format!(
                    "SELECT s.id, count(a.value), avg(a.value) FROM {from} GROUP BY s.id ORDER BY 1"
                ),
            ];
            for query in queries {
                assert_same_without(&ctx, "tet.lookup_joins", &query).await;
                let plan = plan(&ctx, &query).await;
                assert!(plan.contains("ArrayLookupJoinExec"), "{query}\n{plan}");
            }
        }
    }
}

#[tokio::test]
async fn values_and_keys_beside_polygons() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    for condition in [
        "ST_Contains(s.g, ST_Point(a.lon, a.lat)) WHERE a.value > 30",
        "a.time = s.id AND ST_Contains(s.g, ST_Point(a.lon, a.lat)) WHERE a.value > 30",
    ] {
        let query = format!(
            "SELECT a.time, a.lat, a.lon, s.id FROM a JOIN {SHAPES} ON {condition} ORDER BY 1, 2, 3, 4"
        );
        assert_same_without(&ctx, "tet.lookup_joins", &query).await;
        let plan = plan(&ctx, &query).await;
        assert!(plan.contains("ArrayLookupJoinExec"), "{query}\n{plan}");
    }
}

/// Chunks outside of the bounds of all polygons are not read.
#[tokio::test]
async fn bounds_of_polygons_prune_chunks() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let polygon = "ST_GeomFromText('POLYGON((8 12, 14 12, 14 30, 8 30, 8 12))')";
    let query = format!(
        "SELECT sum(a.value) FROM a JOIN (SELECT {polygon} AS g) s \
         ON ST_Contains(s.g, ST_Point(a.lon, a.lat))"
    );
    assert_eq!(run(&ctx, &query).await.reads(), 6);
}

/// Rows without a match have NULL in place of a struct with a geometry.
#[tokio::test]
async fn structs_of_geometries_are_null_without_a_match() {
    let (_folder, _, ctx) = sample(&datasets(), ArrayOptions::new()).await;
    let one = format!("SELECT id, named_struct('g', g) AS t FROM {SHAPES}");
    let two = format!("{one} UNION ALL {one}");
    for (shapes, copies) in [(one, 1), (two, 2)] {
        let query = format!(
            "SELECT count(*) - count(t), count(t) FROM ({shapes}) s RIGHT JOIN a ON s.id = a.time"
        );
        let expected = format!(
            "SELECT count(*) FILTER (WHERE time NOT BETWEEN 1 AND 5), \
             {copies} * count(*) FILTER (WHERE time BETWEEN 1 AND 5) FROM a"
        );
        let expected = run(&ctx, &expected).await.rows;
        assert_eq!(run(&ctx, &query).await.rows, expected);
    }
}
