//! Arrays that several operators of one plan read: each chunk is decoded once, as long as there is
//! memory for it.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

use crate::cells;
use crate::support::sql::{rows, run, write};

/// The cells of `t`, which is compressed, and of `raw`, which is not.
fn write_arrays(path: &Path) {
    let spec = |name: &str, compression| {
        DatasetSpec::new(name, Dtype::F32, &[48, 20, 30], &[8, 20, 30])
            .with_dim_names(["time", "lat", "lon"])
            .with_compression(compression)
    };
    let numbers = || (0..48 * 600).map(|n| (n * 7 % 1013) as f32 / 8.0);
    write(
        path,
        &[
            (spec("t", Compression::ZSTD), cells!(numbers())),
            (spec("raw", Compression::Raw), cells!(numbers())),
        ],
    );
}

async fn session(path: &Path, pool: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(pool)))
        .build_arc()
        .unwrap();
    let config = SessionConfig::new().with_target_partitions(2);
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    let ctx = enable_arrays(ctx, ArrayOptions::new());
    ctx.register_array_file_as("f", path, ArrayOptions::new())
        .await
        .unwrap();
    rows(&ctx, "SET datafusion.catalog.default_schema = 'f'").await;
    // Several partitions for small arrays.
    rows(
        &ctx,
        "SET datafusion.optimizer.repartition_file_min_size = 1",
    )
    .await;
    ctx
}

#[tokio::test]
async fn chunks_are_decoded_once_for_all_operators() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    write_arrays(&path);
    let ctx = session(&path, 1 << 30).await;
    let once = run(&ctx, "SELECT sum(value) FROM t").await;
    let once = once.metric("bytes_read");
    const DAILY: &str =
        "(SELECT lat, lon, time % 24 AS hour, avg(value) AS mean FROM t GROUP BY 1, 2, 3)";
    let on = "v.lat = c.lat AND v.lon = c.lon AND v.time % 24 = c.hour";
    for (sql, most) in [
        // An anomaly: an aggregate and a scan.
        (
            format!("SELECT max(v.value - c.mean), count(*) FROM t v JOIN {DAILY} c ON {on}"),
            1,
        ),
        (
            format!("SELECT v.time, v.lon, v.value - c.mean FROM t v JOIN {DAILY} c ON {on} WHERE v.lat = 3 ORDER BY 1, 2"),
            1,
        ),
        // The partitions of a sorted scan read the chunks in turn.
        (
            format!("SELECT v.lon, v.value - c.mean FROM t v JOIN {DAILY} c ON {on} ORDER BY v.time, v.lat, v.lon"),
            1,
        ),
        // Three operators at a time, which may decode the same chunk at the same time.
        (
            "SELECT sum(value) FROM t UNION ALL SELECT avg(value) FROM t WHERE lat = 3 UNION ALL \
             SELECT max(m) FROM (SELECT avg(value) OVER (PARTITION BY lat, lon ORDER BY time ROWS 3 PRECEDING) AS m FROM t)"
                .to_string(),
            3,
        ),
        ("SELECT count(*) FROM t WHERE value > (SELECT avg(value) FROM t)".to_string(), 1),
        // Chunks that one operator needs.
        ("SELECT sum(value) FROM t WHERE time < 8 UNION ALL SELECT sum(value) FROM t WHERE time >= 8".to_string(), 1),
    ] {
        let ran = run(&ctx, &sql).await;
        let bytes = ran.metric("bytes_read");
        assert!(bytes >= once && bytes <= most * once, "{bytes} of {once}: {sql}");
        // Raw chunks are not decoded, and so never shared.
        let raw = rows(&ctx, &sql.replace("FROM t", "FROM raw")).await;
        assert_eq!(ran.rows, raw, "{sql}");
    }
}

#[tokio::test]
async fn chunks_without_memory_are_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    write_arrays(&path);
    // A quarter of the pool holds two of the six chunks.
    let ctx = session(&path, 200_000).await;
    let once = run(&ctx, "SELECT sum(value) FROM t").await;
    let once = once.metric("bytes_read");
    let ran = run(
        &ctx,
        "SELECT sum(value) FROM t UNION ALL SELECT max(value) FROM t",
    )
    .await;
    let bytes = ran.metric("bytes_read");
    assert!(bytes > once && bytes <= 2 * once, "{bytes} of {once}");
    let raw = "SELECT sum(value) FROM raw UNION ALL SELECT max(value) FROM raw";
    assert_eq!(ran.rows, rows(&ctx, raw).await);
}

#[tokio::test]
async fn chunks_are_decoded_once_for_all_windows_of_a_join() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays.tet");
    let spec = |name: &str, dims: &[&str], shape: &[u64], chunk: &[u64], compression| {
        DatasetSpec::new(name, Dtype::F32, shape, chunk)
            .with_dim_names(dims.iter().copied())
            .with_compression(compression)
    };
    let series = |name, chunk: [u64; 2], compression| {
        spec(name, &["time", "lat"], &[48, 600], &chunk, compression)
    };
    let forecast = |name, compression| {
        let dims = ["init", "lead", "lat"];
        spec(name, &dims, &[6, 18, 600], &[1, 18, 600], compression)
    };
    let numbers = |count: u32| (0..count * 600).map(|n| (n * 7 % 1013) as f32 / 8.0);
    write(
        &path,
        &[
            (
                series("t", [8, 600], Compression::ZSTD),
                cells!(numbers(48)),
            ),
            (
                series("u", [12, 150], Compression::ZSTD),
                cells!(numbers(48)),
            ),
            (forecast("f", Compression::ZSTD), cells!(numbers(108))),
            (
                series("raw_t", [8, 600], Compression::Raw),
                cells!(numbers(48)),
            ),
            (
                series("raw_u", [12, 150], Compression::Raw),
                cells!(numbers(48)),
            ),
            (forecast("raw_f", Compression::Raw), cells!(numbers(108))),
        ],
    );
    let ctx = session(&path, 1 << 30).await;
    // Two tasks might decode the same chunk at the same time.
    rows(&ctx, "SET datafusion.execution.target_partitions = 1").await;
    for (sql, arrays, plan) in [
        // A window of 12 x 600 cells needs two chunks of `t`, and every second chunk is needed twice.
        (
            "SELECT sum(t.value * u.value), count(*) FROM t JOIN u ON t.time = u.time AND t.lat = u.lat",
            ["t", "u"],
            "zip(t, u)",
        ),
        (
            "SELECT max(m) FROM (SELECT avg(t.value - u.value) OVER (PARTITION BY t.lat ORDER BY t.time ROWS 3 PRECEDING) AS m \
             FROM t JOIN u ON t.time = u.time AND t.lat = u.lat)",
            ["t", "u"],
            "ArrayWindowExec",
        ),
        // Windows of 18 leads, of which each overlaps the next in 12.
        (
            "SELECT sum(f.value * t.value), count(*) FROM f JOIN t ON f.init * 6 + f.lead = t.time AND f.lat = t.lat",
            ["f", "t"],
            "zip(f, reindexed(t))",
        ),
    ] {
        let mut once = 0;
        for array in arrays {
            let ran = run(&ctx, &format!("SELECT sum(value) FROM {array}")).await;
            once += ran.metric("bytes_read");
        }
        let explained = rows(&ctx, &format!("EXPLAIN {sql}")).await;
        assert!(explained.join("\n").contains(plan), "{explained:#?}");
        let ran = run(&ctx, sql).await;
        assert_eq!(ran.metric("bytes_read"), once, "{sql}");
        let raw = arrays.iter().fold(sql.to_string(), |sql, name| {
            sql.replace(
                &format!("FROM {name} "),
                &format!("FROM raw_{name} AS {name} "),
            )
            .replace(
                &format!("JOIN {name} "),
                &format!("JOIN raw_{name} AS {name} "),
            )
        });
        assert_eq!(ran.rows, rows(&ctx, &raw).await, "{raw}");
    }
}
