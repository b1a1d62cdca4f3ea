//! Row scans: every row of the table is streamed, counted and dropped.

use datafusion::prelude::SessionContext;
use tet_sql::Access;

use crate::options::Options;
use crate::report::Report;
use crate::{Result, TABLES, measure, set_access};

/// The queries, with `{table}` in place of the table.
const QUERIES: [(&str, &str); 4] = [
    ("rows: *", "SELECT * FROM {table}"),
    ("rows: value", "SELECT value FROM {table}"),
    (
        "rows: * where lat > 99",
        "SELECT * FROM {table} WHERE lat > 99",
    ),
    (
        "rows: * where value > W",
        "SELECT * FROM {table} WHERE value > 300",
    ),
];

/// Streams the rows of each table and checks that all tables return the same number.
pub async fn measure(ctx: &SessionContext, options: &Options, report: &mut Report) -> Result<()> {
    for (name, sql) in QUERIES {
        let mut first = None;
        for (data, table, access) in TABLES {
            if !options.wants(&format!("{name}, {data}")) {
                continue;
            }
            if let Some(access) = access {
                set_access(ctx, access).await?;
            }
            let sql = sql.replace("{table}", table);
            let (figures, rows) = measure::stream(ctx, &sql, options.runs).await?;
            report.add(name, data, &figures);
            if *first.get_or_insert(rows) != rows {
                return Err(format!("{name}: {data} has {rows} rows, others {first:?}").into());
            }
        }
    }
    zip(ctx, options, report).await
}

/// Measures zip joins of the raw and the compressed array.
async fn zip(ctx: &SessionContext, options: &Options, report: &mut Report) -> Result<()> {
    const JOIN: &str = "FROM raw r JOIN zstd z USING (time, lat, lon)";
    set_access(ctx, Access::Mmap).await?;
    for (name, sql) in [
        (
            "join: rows of both",
            format!("SELECT r.value - z.value {JOIN}"),
        ),
        (
            "join: avg of both",
            format!("SELECT avg(r.value), avg(z.value) {JOIN}"),
        ),
        (
            "join: rmse by lat",
            format!("SELECT lat, sqrt(avg(power(r.value - z.value, 2))) {JOIN} GROUP BY lat"),
        ),
    ] {
        if options.wants(name) {
            let (figures, _) = measure::stream(ctx, &sql, options.runs).await?;
            report.add(name, "raw, zstd", &figures);
        }
    }
    Ok(())
}
