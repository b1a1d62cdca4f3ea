//! Wide tables over datasets with different chunks: every chunk is decoded once, or as few times as
//! memory allows.

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{Access, ArrayOptions};

use crate::cells;
use crate::support::sql::{rows, run, sample};

const EXTENTS: [u64; 3] = [64, 256, 320];

/// Three datasets on the same axes. `a` and `c` have 64 chunks of one map each, `b` has 80 chunks
/// of series. A block of `a` and `b` together would take 63 MB. Cells count from zero, in `c`
/// downwards.
async fn wide(
    compression: Compression,
    access: Access,
    extents: [u64; 3],
) -> (tempfile::TempDir, SessionContext) {
    let count = extents.iter().product::<u64>() as i32;
    let spec = |name: &str, chunk: [u64; 3]| {
        DatasetSpec::new(name, Dtype::I32, &extents, &chunk)
            .with_dim_names(["time", "lat", "lon"])
            .with_compression(compression)
    };
    let map = [1, extents[1], extents[2]];
    let datasets = [
        (spec("a", map), cells!(0..count)),
        (spec("b", [extents[0], 32, 32]), cells!(0..count)),
        (spec("c", map), cells!((0..count).map(|n| -n))),
    ];
    let (folder, _, ctx) = sample(&datasets, ArrayOptions::new().with_access(access)).await;
    (folder, ctx)
}

#[tokio::test]
async fn chunks_are_decoded_once() {
    let (_folder, ctx) = wide(Compression::Zstd { level: 1 }, Access::Mmap, EXTENTS).await;
    let count = EXTENTS.iter().product::<u64>() as i64;
    let sum = count * (count - 1) / 2;
    for (sql, expected, reads) in [
        // There are 64 chunks of `a`, 64 of `c`, and 8 x 10 of `b`.
        ("SELECT sum(a) FROM time_lat_lon", format!("{sum}"), 64),
        ("SELECT sum(b) FROM time_lat_lon", format!("{sum}"), 80),
        (
            "SELECT sum(a), sum(b), sum(c) FROM time_lat_lon",
            format!("{sum} {sum} -{sum}"),
            64 + 80 + 64,
        ),
        (
            "SELECT sum(a), sum(b) FROM time_lat_lon WHERE time < 8 AND lat < 32",
            "26192640 26192640".to_string(),
            8 + 10,
        ),
        (
            "SELECT sum(s), sum(m) FROM (SELECT time, sum(a) s, sum(b) m FROM time_lat_lon GROUP BY time)",
            format!("{sum} {sum}"),
            64 + 80,
        ),
        (
            "SELECT sum(s), sum(m) FROM (SELECT lat, lon, sum(a) s, sum(b) m FROM time_lat_lon GROUP BY lat, lon)",
            format!("{sum} {sum}"),
            64 + 80,
        ),
        // Equal chunks are decoded once, also where an expression uses both datasets.
        (
            "SELECT sum(a + c) FROM time_lat_lon",
            "0".to_string(),
            64 + 64,
        ),
        (
            "SELECT count(*) FROM (SELECT a FROM time_lat_lon)",
            format!("{count}"),
            0,
        ),
        (
            "SELECT count(*), min(c) FROM time_lat_lon WHERE a >= 5000000 AND c > -5000100",
            "100 -5000099".to_string(),
            64 + 64,
        ),
    ] {
        let ran = run(&ctx, sql).await;
        if sql.contains("lat < 32") {
            // 8 times, 32 latitudes and 320 longitudes.
            let cells = (0..8i64).map(|time| time * 81_920).map(|first| {
                let row = 32 * 320i64;
                first * row + row * (row - 1) / 2
            });
            let sum: i64 = cells.sum();
            assert_eq!(ran.rows, [format!("{sum} {sum}")], "{sql}");
        } else {
            assert_eq!(ran.rows, [expected], "{sql}");
        }
        assert_eq!(ran.reads(), reads, "{sql}");
    }
    // Row scans choose their blocks by the columns they read.
    for (columns, reads) in [("a", 64), ("b", 80), ("lat, c", 64), ("a, c", 128)] {
        let sql = format!("SELECT {columns} FROM time_lat_lon WHERE lon = 7");
        let ran = run(&ctx, &sql).await;
        assert_eq!(ran.rows.len() as u64, EXTENTS[0] * EXTENTS[1]);
        let expected = if columns == "b" { 8 } else { reads };
        assert_eq!(ran.reads(), expected, "{sql}");
    }
}

/// If an expression combines datasets whose chunks differ along all axes, the blocks are chosen
/// to decode the fewest chunks.
#[tokio::test]
async fn combined_datasets_decode_the_fewest_chunks() {
    let (_folder, ctx) = wide(Compression::Zstd { level: 1 }, Access::Mmap, EXTENTS).await;
    let ran = run(
        &ctx,
        "SELECT sum(a - b), count(*) FROM time_lat_lon WHERE a = b",
    )
    .await;
    assert_eq!(ran.rows, [format!("0 {}", EXTENTS.iter().product::<u64>())]);
    // A block of all cells would take 42 MB. Two blocks are read instead, so the chunks of `b` are
    // decoded twice.
    assert_eq!(ran.reads(), 64 + 2 * 80);
}

/// The cells are the same however blocks are assembled from chunks.
#[tokio::test]
async fn assembled_blocks_have_the_right_cells() {
    for compression in [Compression::Raw, Compression::Zstd { level: 1 }] {
        for access in [Access::Mmap, Access::Pread] {
            let (_folder, ctx) = wide(compression, access, [6, 33, 70]).await;
            for sql in [
                "SELECT count(*) FROM time_lat_lon WHERE a <> b OR a + c <> 0 OR a <> (time * 33 + lat) * 70 + lon",
                "SELECT count(*) FROM (SELECT time, lat, lon, a, b FROM time_lat_lon WHERE lat % 5 = 2) WHERE a <> b OR b <> (time * 33 + lat) * 70 + lon",
            ] {
                assert_eq!(rows(&ctx, sql).await, ["0"], "{sql}");
            }
        }
    }
}
