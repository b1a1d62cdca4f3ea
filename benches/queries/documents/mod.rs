//! Documents as `.tatami` and as Parquet: scans, groups, lookups of single documents, and search.

mod rows;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::streaming::StreamingTable;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{ParquetReadOptions, SessionContext, col};
use tet_sql::{ArrayOptions, ArraySessionExt, ArrayTable};

use crate::bars::Target;
use crate::documents::rows::{Generated, word};
use crate::measure::{self, Figures, Times};
use crate::options::Options;
use crate::report::Report;
use crate::{Result, data, session};

/// Must be incremented when the rows or the layout change, so that old files are not reused.
const RECIPE: u32 = 1;

/// The layout of the `.tatami` file. Pages and blob runs are small, because a lookup of one document
/// decompresses one page per column and one run.
const LAYOUT: &str = "sort_key 'id', bloom 'url', blob 'body', search 'body', page_rows '2048', blob_run_bytes '65536'";

/// The runs of a query that takes about a millisecond.
const SMALL_RUNS: usize = 50;

const TATAMI: &str = "tatami";
const PARQUET: &str = "Parquet";

/// The files of the generated documents, one for each format. Both have the same rows.
#[derive(Debug)]
pub struct Documents {
    tatami: PathBuf,
    parquet: PathBuf,
}

/// Writes the files that do not exist yet.
pub async fn generate(options: &Options) -> Result<Documents> {
    let count = options.size.documents;
    let file = |extension: &str| {
        let name = format!("documents-{RECIPE}-{count}.{extension}");
        options.folder.join(name)
    };
    let documents = Documents {
        tatami: file("tatami"),
        parquet: file("parquet"),
    };
    std::fs::create_dir_all(&options.folder)?;
    let ctx = session(options, &[]).await?;
    let rows = Generated::new(count);
    let schema = Arc::clone(rows.schema());
    let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
    let table = table.with_sort_order(vec![col("id").sort(true, true)]);
    ctx.register_table("generated", Arc::new(table))?;
    if data::is_missing(&documents.tatami) {
        // COPY writes under a temporary name.
        let path = documents.tatami.display();
        let copy = format!("COPY generated TO '{path}' STORED AS TATAMI OPTIONS ({LAYOUT})");
        ctx.sql(&copy).await?.collect().await?;
    }
    if data::is_missing(&documents.parquet) {
        let unfinished = documents.parquet.with_extension("unfinished.parquet");
        let target = unfinished.to_string_lossy();
        let write = DataFrameWriteOptions::new().with_single_file_output(true);
        let generated = ctx.table("generated").await?;
        generated.write_parquet(&target, write, None).await?;
        std::fs::rename(&unfinished, &documents.parquet)?;
    }
    Ok(documents)
}

/// Measures queries of the documents in both formats, then search and opening, which only `.tatami` has.
pub async fn measure(documents: &Documents, options: &Options, report: &mut Report) -> Result<()> {
    for (what, path) in [(TATAMI, &documents.tatami), (PARQUET, &documents.parquet)] {
        let megabytes = path.metadata()?.len() as f64 / 1e6;
        println!(
            "{} documents, {what}: {megabytes:.1} MB",
            options.size.documents
        );
    }
    let ctx = &session(options, &[]).await?;
    let strict = ArrayOptions::new().with_format_option("blobs", "strict");
    ctx.register_array("documents".into(), &documents.tatami, strict.clone())
        .await?;
    let parquet = documents.parquet.to_string_lossy();
    ctx.register_parquet("parquet", parquet, ParquetReadOptions::new())
        .await?;
    scans(ctx, options, report).await?;
    compare(ctx, options, report).await?;
    search(ctx, options, report).await?;
    let name = "documents: open";
    if options.wants(&format!("{name}, {TATAMI}")) {
        let times = Times::of(options.runs.max(SMALL_RUNS), || {
            Ok(ArrayTable::open(&documents.tatami, &strict)?)
        })?;
        let opening = times.summary()[0].as_secs_f64() * 1e3;
        report.bars.add(Target::OpenDocuments, name, opening);
        report.add(name, TATAMI, &Figures::only(times));
    }
    Ok(())
}

/// Streams the rows of two columns, and then of all bodies.
async fn scans(ctx: &SessionContext, options: &Options, report: &mut Report) -> Result<()> {
    for (name, columns) in [
        ("documents: two columns", "ts, len"),
        ("documents: two texts", "url, lang"),
        ("documents: bodies", "id, body"),
    ] {
        let mut counts = Vec::new();
        for (data, table) in [(TATAMI, "documents"), (PARQUET, "parquet")] {
            if !options.wants(&format!("{name}, {data}")) {
                continue;
            }
            let sql = format!("SELECT {columns} FROM {table}");
            let (figures, rows) = measure::stream(ctx, &sql, options.runs).await?;
            if columns.contains("body")
                && data == TATAMI
                && let Some(peak) = figures.peak
            {
                let growth = peak.growth() as f64 / f64::from(1 << 20);
                report.bars.add(Target::Bodies, name, growth);
            }
            report.add(name, data, &figures);
            counts.push(rows);
        }
        if counts.iter().any(|rows| *rows != options.size.documents) {
            return Err(format!("{name}: found {counts:?} rows").into());
        }
        add_ratio(report, name);
    }
    Ok(())
}

/// Runs queries with few result rows on both formats, and checks that the answers agree. Texts are
/// compared only by the numbers beside them.
async fn compare(ctx: &SessionContext, options: &Options, report: &mut Report) -> Result<()> {
    let id = options.size.documents * 2 / 3;
    let url = Generated::new(options.size.documents).url(id);
    let [common, rare] = searched();
    for (name, sql, runs) in [
        (
            "documents: by host",
            "SELECT host, count(*), sum(len) FROM {table} WHERE lang = 'en' GROUP BY host"
                .to_string(),
            options.runs,
        ),
        (
            "documents: by id",
            format!("SELECT url, len, body FROM {{table}} WHERE id = {id}"),
            options.runs.max(SMALL_RUNS),
        ),
        (
            "documents: by url",
            format!("SELECT id, len, body FROM {{table}} WHERE url = '{url}'"),
            options.runs,
        ),
        (
            "documents: both words",
            format!(
                "SELECT count(*), sum(len) FROM {{table}} WHERE matches(body, '{common} {rare}')"
            ),
            options.runs,
        ),
    ] {
        let mut first = None;
        for (data, table) in [(TATAMI, "documents"), (PARQUET, "parquet")] {
            if !options.wants(&format!("{name}, {data}")) {
                continue;
            }
            let sql = sql.replace("{table}", table);
            let (figures, answer) = measure::query(ctx, &sql, runs).await?;
            if name.ends_with("by id") && data == TATAMI {
                let lookup = figures.total.summary()[0].as_secs_f64() * 1e3;
                report.bars.add(Target::Lookup, name, lookup);
            }
            report.add(name, data, &figures);
            match &first {
                None => first = Some(answer),
                Some(first) => answer
                    .check_against(first)
                    .map_err(|error| format!("{name}: {data} disagrees: {error}"))?,
            }
        }
        if name.ends_with("by host") {
            add_ratio(report, name);
        }
    }
    Ok(())
}

/// Searches for the ten best documents for two words.
async fn search(ctx: &SessionContext, options: &Options, report: &mut Report) -> Result<()> {
    let [common, rare] = searched();
    for (name, sql) in [
        (
            "documents: top 10",
            format!(
                "SELECT doc, score FROM tatami_search('documents', '{common} {rare}') LIMIT 10"
            ),
        ),
        (
            "documents: top 10 bodies",
            format!(
                "SELECT score, url, body FROM tatami_search('documents', '{common} {rare}') LIMIT 10"
            ),
        ),
    ] {
        if !options.wants(&format!("{name}, {TATAMI}")) {
            continue;
        }
        let runs = options.runs.max(SMALL_RUNS);
        let (figures, answer) = measure::query(ctx, &sql, runs).await?;
        if answer.rows() != 10 {
            return Err(format!("{name}: {} rows, expected 10", answer.rows()).into());
        }
        if name.ends_with("top 10") {
            let time = figures.total.summary()[0].as_secs_f64() * 1e3;
            report.bars.add(Target::Search, name, time);
        }
        report.add(name, TATAMI, &figures);
    }
    Ok(())
}

/// Returns the two words of the searches: of a million documents, about one in eight has the first word,
/// and one in seventy the second.
fn searched() -> [String; 2] {
    [200, 2000].map(word)
}

fn add_ratio(report: &mut Report, name: &str) {
    let lines = report.line(name, TATAMI).zip(report.line(name, PARQUET));
    if let Some((line, parquet)) = lines {
        let ratio = line.time.as_secs_f64() / parquet.time.as_secs_f64();
        report.bars.add(Target::Documents, name, ratio);
    }
}
