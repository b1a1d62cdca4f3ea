//! Tables of several files and variables, coordinates, and the chunks that queries read.

use std::io::Write;
use std::path::Path;

use tet_sql::ArrayOptions;

use super::path;
use crate::support::sql::{error, open, rows, run, session};

#[tokio::test]
async fn files_whose_time_continues_are_one_table() {
    let ctx = session();
    let pattern = path("cf_*.nc");
    let create = format!(
        "CREATE EXTERNAL TABLE t2m STORED AS NETCDF LOCATION '{}' OPTIONS (dataset 't2m')",
        pattern.display()
    );
    ctx.sql(&create).await.unwrap();
    let sql = "SELECT count(*), count(value), min(time), max(time) FROM t2m";
    assert_eq!(
        rows(&ctx, sql).await,
        ["144 138 2000-01-01T00:00:00 2001-06-05T00:00:00"]
    );
    let sql = "SELECT year(time), count(value), round(min(value), 2), round(max(value), 2) FROM t2m \
               GROUP BY 1 ORDER BY 1";
    assert_eq!(
        rows(&ctx, sql).await,
        ["2000 69 268.15 278.14", "2001 69 268.16 278.15"]
    );
    // The shortest decimal of a coordinate of 32 bits is what the file's author wrote.
    let sql = "SELECT lon, round(value, 2) FROM t2m WHERE time = '2000-02-01' AND lat = 33.3 ORDER BY lon";
    assert_eq!(
        rows(&ctx, sql).await,
        ["0.0 NULL", "120.0 NULL", "240.0 NULL"]
    );
    let ran = run(&ctx, "SELECT value FROM t2m WHERE time >= '2001-01-01'").await;
    assert_eq!((ran.rows.len(), ran.reads()), (72, 1));
}

#[tokio::test]
async fn variables_on_the_same_dimensions_form_a_wide_table() {
    let ctx = open(&path("cf_2000.nc"), ArrayOptions::new()).await;
    let sql = "SELECT time, lat, lon, round(t2m, 2), round(rain, 2) FROM time_lat_lon WHERE lat > 60 AND lon = 0 LIMIT 2";
    let expected = [
        "2000-01-01T00:00:00 60.7 0.0 271.48 2732.33",
        "2000-02-01T00:00:00 60.7 0.0 275.92 2748.77",
    ];
    assert_eq!(rows(&ctx, sql).await, expected);
    let sql =
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'f' ORDER BY 1";
    assert_eq!(
        rows(&ctx, sql).await,
        [
            "lat",
            "lon",
            "mask",
            "rain",
            "t2m",
            "time",
            "time_bnds",
            "time_lat_lon"
        ]
    );
    let sql = "SELECT avg(t2m.value) FROM t2m JOIN mask USING (lat, lon) WHERE mask.value = 1 AND t2m.time = '2000-01-01'";
    assert_eq!(rows(&ctx, sql).await, ["270.37"]);
}

#[tokio::test]
async fn times_of_other_calendars() {
    let ctx = open(&path("calendars.nc"), ArrayOptions::new()).await;
    for (name, expected) in [
        ("hours", vec!["1999-12-31T12:00:00", "2000-01-02T00:00:00"]),
        (
            "noleap",
            vec![
                "2000-02-28T00:00:00",
                "2000-03-01T12:00:00",
                "2000-03-02T06:00:00",
            ],
        ),
    ] {
        let found = rows(&ctx, &format!("SELECT {name} FROM {name}")).await;
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_off_can_be_read_before_the_cut() {
    let ctx = open(&path("cut.nc"), ArrayOptions::new()).await;
    assert_eq!(rows(&ctx, "SELECT sum(value) FROM mask").await, ["6"]);
    let error = error(&ctx, "SELECT value FROM rain").await;
    let expected = "cut.nc, dataset \"rain\", chunk [0, 0, 0]: file length is 1180 bytes, expected at least 1380 bytes";
    assert!(error.contains(expected), "{error}");
}

/// Writes a file of two variables with records: `v(time, y, x)` of `records` x 1024 x 1024 numbers, which
/// are zero except for the first of each record, and `w(time)`.
fn write_records(path: &Path, records: u32) {
    let word = |number: u32| number.to_be_bytes();
    let slab = 4 << 20;
    let header = [
        *b"CDF\x01",
        word(records),
        // Dimensions.
        word(10),
        word(3),
        word(4),
        *b"time",
        word(0),
        word(1),
        *b"y\0\0\0",
        word(1024),
        word(1),
        *b"x\0\0\0",
        word(1024),
        // No attributes.
        word(0),
        word(0),
        // Variables: dimensions, no attributes, type int, size and offset.
        word(11),
        word(2),
        word(1),
        *b"v\0\0\0",
        word(3),
        word(0),
        word(1),
        word(2),
        word(0),
        word(0),
        word(4),
        word(slab),
        word(148),
        word(1),
        *b"w\0\0\0",
        word(1),
        word(0),
        word(0),
        word(0),
        word(4),
        word(4),
        word(148 + slab),
    ];
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&header.concat()).unwrap();
    for record in 0..records {
        let mut cells = vec![0; slab as usize];
        cells[..4].copy_from_slice(&word(record + 7));
        file.write_all(&cells).unwrap();
        file.write_all(&word(record * 10)).unwrap();
    }
}

#[tokio::test]
async fn a_slice_of_records_reads_only_their_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.nc");
    write_records(&path, 5);
    let ctx = open(&path, ArrayOptions::new()).await;
    let ran = run(
        &ctx,
        "SELECT sum(value), count(*) FROM v WHERE time IN (1, 3)",
    )
    .await;
    assert_eq!(ran.rows, ["18 2097152"]);
    assert_eq!((ran.metric("chunks_total"), ran.reads()), (5, 2));
    let ran = run(
        &ctx,
        "SELECT time, y, x, value FROM v WHERE value > 10 AND time >= 2",
    )
    .await;
    assert_eq!((ran.reads(), ran.rows), (3, vec!["4 0 0 11".to_string()]));
    let ran = run(&ctx, "SELECT * FROM w WHERE time > 2").await;
    assert_eq!(ran.rows, ["3 30", "4 40"]);
    let sql = "SELECT count(*) FROM v JOIN w USING (time) WHERE w.value = 20";
    assert_eq!(rows(&ctx, sql).await, ["1048576"]);
}
