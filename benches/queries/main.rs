//! Times and memory of queries over the same cells as raw and as zstd-compressed `.tet` and as
//! Parquet, and over the same documents as `.tatami` and as Parquet, in one process.
//!
//! `cargo bench` runs everything and at first writes about 13 GB of files. `cargo bench -- --quick`
//! is a smoke test over small arrays. `TET_SQL_BENCH_DATA` names the directory of the files, which
//! are kept. `--documents N` measures only documents, `N` of them instead of a million.
//! `TET_SQL_BENCH_THREADS`, `TET_SQL_BENCH_RUNS` and `TET_SQL_BENCH_QUICK` set the
//! options of the same names. Other arguments select what to run by substrings of "QUERY, DATA" as
//! shown in the table, such as `'avg, raw mmap'`.
//!
//! Fails if the formats disagree on an answer.

mod answers;
#[cfg(unix)]
mod bare;
mod bars;
mod data;
mod documents;
mod files;
mod layouts;
mod machine;
mod many_chunks;
mod measure;
mod memory;
mod options;
#[cfg(unix)]
mod probe;
mod report;
mod scans;

use std::path::Path;
use std::process::Command;

use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use tet_sql::{Access, ArrayOptions, ArraySessionExt, enable_arrays};

use crate::data::Files;
use crate::measure::{Figures, Times};
use crate::options::{Options, Size};
use crate::report::Report;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The tables with the same rows, each with the access mode under which it is queried.
const TABLES: [(&str, &str, Option<Access>); 5] = [
    ("raw mmap", "raw", Some(Access::Mmap)),
    ("raw pread", "raw", Some(Access::Pread)),
    ("zstd mmap", "zstd", Some(Access::Mmap)),
    ("zstd pread", "zstd", Some(Access::Pread)),
    ("Parquet", "parquet", None),
];

#[global_allocator]
static ALLOCATOR: tet_sql::HugePages = tet_sql::HugePages;

fn main() -> Result<()> {
    #[cfg(unix)]
    if let Some(path) = probe::asked_for() {
        return probe::in_a_process_of_its_own(&path);
    }
    let options = Options::from_environment()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads)
        .enable_all()
        .build()?;
    // Run on one of the runtime's threads, as a server does. Together with the main thread there
    // would be one thread more than processors, and two workers would at times share one for some
    // milliseconds.
    runtime.block_on(runtime.spawn(run(options)))?
}

async fn run(options: Options) -> Result<()> {
    let options = &options;
    if options.only_documents {
        let documents = documents::generate(options).await?;
        println!("{}\n", machine::describe(options));
        let report = &mut Report::start();
        documents::measure(&documents, options, report).await?;
        report.bars.print();
        return Ok(());
    }
    let files = data::generate(options).await?;
    let documents = documents::generate(options).await?;
    println!("{}\n", machine::describe(options));
    print_sizes(&files)?;
    let report = &mut Report::start();
    // Start with what needs the most memory, since the allocator keeps some of what earlier
    // measurements freed.
    files::measure(options, report).await?;
    formats(&files, options, report).await?;
    layouts::measure(options, report).await?;
    many_chunks::measure(&files, options, report).await?;
    documents::measure(&documents, options, report).await?;
    #[cfg(unix)]
    probe::fresh(&files.raw, options, report)?;
    whole_process(options, report)?;
    let side = options.size.many_chunks_side;
    let mut bars = std::mem::take(&mut report.bars);
    bars.add_lines(report, side * side);
    bars.print();
    println!("\nload averages at the end: {}", machine::load());
    println!(
        "memory: anonymous memory during one run of its own, and on top of what there was before it;"
    );
    println!("        * too short to be sure: fewer than five looks, one per millisecond");
    Ok(())
}

/// Opens a session. Each section of the report has its own, so that nothing is cached from one
/// section to the next.
async fn session(options: &Options, tables: &[(&str, &Path)]) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(options.threads);
    let ctx = enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new());
    for (table, path) in tables {
        ctx.register_array((*table).into(), path, ArrayOptions::new())
            .await?;
    }
    Ok(ctx)
}

/// Measures queries over the same rows in all formats.
async fn formats(files: &Files, options: &Options, report: &mut Report) -> Result<()> {
    let ctx = session(options, &[("raw", &files.raw), ("zstd", &files.zstd)]).await?;
    let parquet = files.parquet.to_string_lossy();
    ctx.register_parquet("parquet", parquet, ParquetReadOptions::new())
        .await?;
    for (name, sql) in queries(&options.size) {
        compare(&ctx, name, &sql, options, report).await?;
    }
    scans::measure(&ctx, options, report).await
}

fn print_sizes(files: &Files) -> Result<()> {
    for (what, path) in [
        ("raw", &files.raw),
        ("zstd", &files.zstd),
        ("Parquet", &files.parquet),
        ("many chunks", &files.many_chunks),
        ("many zones", &files.many_zones),
    ] {
        let megabytes = path.metadata()?.len() as f64 / 1e6;
        println!("{what:<12}{megabytes:>9.1} MB");
    }
    println!(
        "zstd level {}; Parquet with DataFusion's default writer settings (zstd(3), dictionaries, row groups of 1 Mi \
         rows), ordered by time, lat, lon\n",
        data::ZSTD_LEVEL
    );
    Ok(())
}

/// Returns the queries, with `{table}` in place of the table.
fn queries(size: &Size) -> Vec<(&'static str, String)> {
    let [time, lat, lon] = size.shape;
    let side = size.slice_side;
    // Slices within one chunk, and around a corner where four chunks meet.
    let inside = size.chunk_shape[1] / 4;
    let corner = size.chunk_shape[1] - side / 2;
    assert!(inside + side <= size.chunk_shape[1] && corner + side <= lat.min(lon));
    let slice = |first: u64| {
        let last = first + side - 1;
        format!(
            "SELECT * FROM {{table}} WHERE time = {} AND lat BETWEEN {first} AND {last} AND lon BETWEEN {first} AND {last}",
            time / 2
        )
    };
    vec![
        ("avg", "SELECT avg(value) FROM {table}".into()),
        (
            "avg by time",
            "SELECT time, avg(value) FROM {table} GROUP BY time".into(),
        ),
        (
            "avg by lat, lon",
            "SELECT lat, lon, avg(value) FROM {table} GROUP BY lat, lon".into(),
        ),
        (
            "sum where value > 285",
            "SELECT sum(value) FROM {table} WHERE value > 285".into(),
        ),
        ("count(*)", "SELECT count(*) FROM {table}".into()),
        ("slice in one chunk", slice(inside)),
        ("slice over four chunks", slice(corner)),
    ]
}

/// Runs a query on every table and checks that the answers agree.
async fn compare(
    ctx: &SessionContext,
    name: &str,
    sql: &str,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let mut first = None;
    for (data, table, access) in TABLES {
        if !options.wants(&format!("{name}, {data}")) {
            continue;
        }
        if let Some(access) = access {
            set_access(ctx, access).await?;
        }
        let sql = sql.replace("{table}", table);
        let (figures, answer) = measure::query(ctx, &sql, options.runs).await?;
        report.add(name, data, &figures);
        match &first {
            None => first = Some(answer),
            Some(first) => answer
                .check_against(first)
                .map_err(|error| format!("{name}: {data} disagrees: {error}"))?,
        }
    }
    Ok(())
}

async fn set_access(ctx: &SessionContext, access: Access) -> Result<()> {
    let set = ctx.sql(&format!("SET tet.access = '{access}'")).await?;
    set.collect().await?;
    Ok(())
}

/// Measures the command from start to exit.
fn whole_process(options: &Options, report: &mut Report) -> Result<()> {
    const NAME: &str = "tet-sql -c 'SELECT 1'";
    if !options.wants(NAME) {
        return Ok(());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    command.args(["-c", "SELECT 1"]);
    let output = command.output()?;
    if !output.status.success() || !String::from_utf8_lossy(&output.stdout).contains('1') {
        println!("{NAME}: not measured, the command did not answer");
        return Ok(());
    }
    let times = Times::of(options.runs.max(20), || Ok(command.output()?))?;
    report.add(NAME, "process", &Figures::only(times));
    Ok(())
}
