//! Aggregates over the same cells in chunks of different shapes, of different types, raw and compressed, beside what the
//! memory and zstd allow.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::Dtype;
use tet_sql::{Access, TetOptions, TetSessionExt};

use crate::answers::Answer;
use crate::measure::{self, Figures, Times};
use crate::options::Options;
use crate::{Result, data, set_access};
#[cfg(unix)]
use crate::{bare, probe};

/// What is asked of each layout.
const QUERIES: [(&str, &str); 14] = [
    ("avg", "SELECT avg(value) FROM {t}"),
    ("sum", "SELECT sum(value) FROM {t}"),
    ("min", "SELECT min(value) FROM {t}"),
    ("max", "SELECT max(value) FROM {t}"),
    ("stddev", "SELECT stddev(value) FROM {t}"),
    (
        "avg where value > W",
        "SELECT avg(value) FROM {t} WHERE value > {w}",
    ),
    (
        "avg by time",
        "SELECT time, avg(value) FROM {t} GROUP BY time",
    ),
    ("avg by lat", "SELECT lat, avg(value) FROM {t} GROUP BY lat"),
    ("avg by lon", "SELECT lon, avg(value) FROM {t} GROUP BY lon"),
    (
        "avg by time, lat",
        "SELECT time, lat, avg(value) FROM {t} GROUP BY time, lat",
    ),
    (
        "avg by time, lon",
        "SELECT time, lon, avg(value) FROM {t} GROUP BY time, lon",
    ),
    (
        "avg by lat, lon",
        "SELECT lat, lon, avg(value) FROM {t} GROUP BY lat, lon",
    ),
    (
        "max by lat, lon",
        "SELECT lat, lon, max(value) FROM {t} GROUP BY lat, lon",
    ),
    (
        "by lat, value > W",
        "SELECT lat, avg(value) FROM {t} WHERE value > {w} GROUP BY lat",
    ),
];

/// The layouts, each with the name of its table and whether it is compressed.
fn layouts(options: &Options) -> Vec<(String, [u64; 3], Dtype, bool)> {
    let [time, lat, lon] = options.size.shape;
    let shapes = [
        options.size.chunk_shape,
        [10, lat, lon],
        [1, lat, lon],
        [time, 32, 32],
    ];
    let mut layouts = Vec::new();
    for is_compressed in [false, true] {
        for shape in shapes {
            let [a, b, c] = shape;
            let codec = if is_compressed { "zstd" } else { "raw" };
            let name = format!("{codec} f32 {a}x{b}x{c}");
            layouts.push((name, shape, Dtype::F32, is_compressed));
        }
    }
    for dtype in [Dtype::F64, Dtype::I16] {
        layouts.push((format!("raw {dtype}"), shapes[0], dtype, false));
    }
    layouts
}

/// Runs all queries on all layouts and checks that the answers agree.
pub async fn measure(ctx: &SessionContext, options: &Options) -> Result<()> {
    set_access(ctx, Access::Mmap).await?;
    let mut answers: Vec<Option<Answer>> = QUERIES.iter().map(|_| None).collect();
    for (number, (name, shape, dtype, is_compressed)) in layouts(options).into_iter().enumerate() {
        if !options.wants(&name) {
            continue;
        }
        let path = data::layout(options, shape, dtype, is_compressed)?;
        let table = format!("layout{number}");
        ctx.register_tet(table.as_str().into(), &path, TetOptions::new())
            .await?;
        bounds(&path, &name, is_compressed, options)?;
        for ((query, sql), first) in QUERIES.iter().zip(&mut answers) {
            // In the packed type, 300 K and 26.85 degrees are the same.
            let warm = if dtype == Dtype::I16 { "2685" } else { "300" };
            let sql = sql.replace("{t}", &table).replace("{w}", warm);
            let (figures, answer) = measure::query(ctx, &sql, options.runs).await?;
            measure::print_figures(query, &name, &figures);
            if dtype == Dtype::I16 {
                continue;
            }
            match first {
                None => *first = Some(answer),
                Some(first) => answer
                    .check_against(first)
                    .map_err(|error| format!("{query}: {name} disagrees: {error}"))?,
            }
        }
        ctx.deregister_table(table.as_str())?;
    }
    Ok(())
}

/// What the memory, or zstd, allows.
#[cfg(unix)]
fn bounds(path: &Path, name: &str, is_compressed: bool, options: &Options) -> Result<()> {
    let threads = options.threads;
    let (what, times) = if is_compressed {
        let times = Times::of(options.runs, || bare::decompress(path, threads))?;
        ("no engine: unzstd", times)
    } else {
        let map = probe::map(path)?;
        probe::greatest(&map, threads);
        let times = Times::of(options.runs, || Ok(probe::greatest(&map, threads)))?;
        ("no engine: probe", times)
    };
    measure::print_figures(what, name, &Figures::only(times));
    Ok(())
}

#[cfg(not(unix))]
fn bounds(_: &Path, _: &str, _: bool, _: &Options) -> Result<()> {
    Ok(())
}
