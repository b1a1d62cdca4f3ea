//! Measures opening a file and planning over very many chunks, neither of which depends on the
//! cells.

use tet_sql::{Access, ArrayOptions, ArrayTable};

use crate::data::Files;
use crate::measure::{self, Figures, Times};
use crate::options::Options;
use crate::report::Report;
use crate::{Result, session, set_access};

/// Opens the file of many chunks, and queries one chunk, some chunks, and all chunks.
pub async fn measure(files: &Files, options: &Options, report: &mut Report) -> Result<()> {
    let path = &files.many_chunks;
    let tables = [
        ("many_chunks", path.as_path()),
        ("many_zones", &files.many_zones),
    ];
    let ctx = &session(options, &tables).await?;
    let side = options.size.many_chunks_side;
    let chunks = side * side;
    let open = format!("open {chunks} chunks");
    // 80,000 of a million chunks.
    let some = side * 2 / 25;
    let middle = side / 2;
    let from = "FROM many_chunks WHERE";
    let zones = "FROM many_zones WHERE";
    // Bounds that select half of all chunks, and half of the chunks that the slice selects.
    let (half, quarter) = (chunks / 2, some * side / 2);
    let queries = [
        (
            format!("one of {chunks} chunks"),
            format!("SELECT * {from} a = {middle} AND b = {middle}"),
            10,
        ),
        (
            format!("sum of {} chunks", some * side),
            format!("SELECT sum(value) {from} a < {some}"),
            1,
        ),
        (
            format!("sum of {chunks} chunks"),
            "SELECT sum(value) FROM many_chunks".to_string(),
            1,
        ),
        (
            format!("{} chunks, by value", some * side),
            format!("SELECT sum(value) {zones} a < {some} AND value >= {quarter}"),
            1,
        ),
        (
            format!("{chunks} chunks, by value"),
            format!("SELECT sum(value) {zones} value >= {half}"),
            1,
        ),
    ];
    for access in [Access::Mmap, Access::Pread] {
        if options.wants(&open) {
            let table = ArrayOptions::new().with_access(access);
            let times = Times::of(options.runs, || Ok(ArrayTable::open(path, &table)?))?;
            report.add(&open, &access.to_string(), &Figures::only(times));
        }
        set_access(ctx, access).await?;
        for (name, sql, rows) in &queries {
            if !options.wants(name) {
                continue;
            }
            let (figures, answer) = measure::query(ctx, sql, options.runs).await?;
            if answer.rows() != *rows {
                return Err(format!("{name}: {} rows, expected {rows}", answer.rows()).into());
            }
            report.add(name, &access.to_string(), &figures);
        }
    }
    Ok(())
}
