//! Aggregates over the same cells in chunks of different shapes, of different types, raw and
//! compressed, compared with the limits set by memory bandwidth and zstd.

#[cfg(unix)]
use std::hint::black_box;
use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tet::Dtype;
use tet_sql::{Access, ArrayOptions, ArraySessionExt};

use crate::answers::Answer;
use crate::bars::{Target, Targets};
use crate::measure::{self, AlternatingFigures, Figures, Times};
use crate::options::Options;
use crate::report::Report;
use crate::{Result, data, session, set_access};
#[cfg(unix)]
use crate::{bare, probe};

/// The queries to run on each layout.
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

/// Returns the layouts: table name, chunk shape, type, and `true` if compressed.
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

/// Runs all queries on all layouts, alternating with a probe of the limit, and checks that the
/// answers agree.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let ctx = &session(options, &[]).await?;
    set_access(ctx, Access::Mmap).await?;
    let mut firsts: Vec<Option<Answer>> = QUERIES.iter().map(|_| None).collect();
    for (number, (name, shape, dtype, is_compressed)) in layouts(options).into_iter().enumerate() {
        if !options.wants(&name) {
            continue;
        }
        let path = data::layout(options, shape, dtype, is_compressed)?;
        let table = format!("layout{number}");
        ctx.register_array(table.as_str().into(), &path, ArrayOptions::new())
            .await?;
        // The packed type has 2685 where the others have 300 K: hundredths of a degree Celsius.
        let warm = if dtype == Dtype::I16 { "2685" } else { "300" };
        let queries = QUERIES.map(|(_, sql)| sql.replace("{t}", &table).replace("{w}", warm));
        let (bound, found) = bounded(ctx, &path, &queries, is_compressed, options).await?;
        ctx.deregister_table(table.as_str())?;
        if let Some(bound) = bound {
            let times = Times::all(found.iter().map(|turns| &turns.others));
            report.add(bound, &name, &Figures::only(times));
        }
        for ((query, _), turns) in QUERIES.iter().zip(&found) {
            report.add(query, &name, &turns.figures);
        }
        let is_bound = bound.is_some();
        add_ratios(
            &mut report.bars,
            &name,
            &found,
            is_bound,
            is_compressed,
            dtype,
        );
        if !is_compressed {
            loops(&path, &name, dtype, &found, options, report)?;
        }
        if dtype == Dtype::I16 {
            continue;
        }
        for ((first, (query, _)), turns) in firsts.iter_mut().zip(QUERIES).zip(found) {
            match first {
                None => *first = Some(turns.answer),
                Some(first) => turns
                    .answer
                    .check_against(first)
                    .map_err(|error| format!("{query}: {name} disagrees: {error}"))?,
            }
        }
    }
    Ok(())
}

/// Adds the ratios of the figures of a layout to one another and to the measured limit.
fn add_ratios(
    bars: &mut Targets,
    name: &str,
    found: &[AlternatingFigures],
    is_bound: bool,
    is_compressed: bool,
    dtype: Dtype,
) {
    let Some(average) = found.first().map(|turns| &turns.figures.total) else {
        return;
    };
    for ((query, _), turns) in QUERIES.iter().zip(found) {
        let times = &turns.figures.total;
        let title = format!("{query}: {name}");
        if is_bound {
            let ratio = turns.others.ratio(times);
            if is_compressed {
                bars.add(Target::Decompression, title.as_str(), ratio);
            } else if dtype == Dtype::F32 && ["avg", "sum", "min", "max"].contains(query) {
                bars.add(Target::Bandwidth, title.as_str(), ratio);
            }
        }
        if is_compressed {
            continue;
        }
        if query.contains("value > W") {
            let unbounded = if query.contains("by lat") {
                "avg by lat"
            } else {
                "avg"
            };
            let mut others = QUERIES.iter().zip(found);
            let without = others.find(|((query, _), _)| *query == unbounded);
            let without = without.map_or(average, |(_, turns)| &turns.figures.total);
            bars.add(Target::Bounded, title, times.ratio(without));
        } else if query.contains(" by ") {
            bars.add(Target::Grouped, title, times.ratio(average));
        }
    }
}

/// Runs the queries, alternating with a probe of memory bandwidth or with bare decompression.
#[cfg(unix)]
async fn bounded(
    ctx: &SessionContext,
    path: &Path,
    queries: &[String],
    is_compressed: bool,
    options: &Options,
) -> Result<(Option<&'static str>, Vec<AlternatingFigures>)> {
    let (threads, runs) = (options.threads, options.runs);
    if is_compressed {
        let chunks = bare::Chunks::open(path)?;
        let unzstd = || chunks.decompress(threads);
        let found = measure::in_turn(ctx, queries, runs, unzstd).await?;
        Ok((Some("bare: unzstd"), found))
    } else {
        let map = probe::map(path)?;
        let probe = || {
            black_box(probe::max_of_file(&map, threads));
            Ok(())
        };
        let found = measure::in_turn(ctx, queries, runs, probe).await?;
        Ok((Some("bare: probe"), found))
    }
}

#[cfg(not(unix))]
async fn bounded(
    ctx: &SessionContext,
    _: &Path,
    queries: &[String],
    _: bool,
    options: &Options,
) -> Result<(Option<&'static str>, Vec<AlternatingFigures>)> {
    let found = measure::in_turn(ctx, queries, options.runs, || Ok(())).await?;
    Ok((None, found))
}

/// Measures hand-written loops and checks that their answers equal those of the queries. Integers
/// are not checked, since the loops do not skip missing cells.
#[cfg(unix)]
fn loops(
    path: &Path,
    name: &str,
    dtype: Dtype,
    found: &[AlternatingFigures],
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    use bare::AverageKeys;

    let chunks = bare::Chunks::open(path)?;
    for ((query, _), turns) in QUERIES.iter().zip(found) {
        let by = match *query {
            "avg" => AverageKeys::Nothing,
            "avg by time" => AverageKeys::Time,
            "avg by lat, lon" => AverageKeys::LatLon,
            _ => continue,
        };
        let averages = || chunks.averages(by, options.threads);
        let of_loop = averages()?;
        if dtype != Dtype::I16 {
            turns
                .answer
                .check_values(&of_loop)
                .map_err(|error| format!("{query}: {name}, by hand, disagrees: {error}"))?;
        }
        let times = Times::of(options.runs, averages)?;
        report.add(&format!("loop: {query}"), name, &Figures::only(times));
    }
    Ok(())
}

#[cfg(not(unix))]
fn loops(
    _: &Path,
    _: &str,
    _: Dtype,
    _: &[AlternatingFigures],
    _: &Options,
    _: &mut Report,
) -> Result<()> {
    Ok(())
}
