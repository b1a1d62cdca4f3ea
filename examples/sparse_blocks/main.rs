//! A format of your own as a SQL table: points without axes, in blocks with bounding boxes.
//!
//! `cargo run --example sparse_blocks` prints which blocks a query reads.

mod points;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use tet_sql::{ArrayOptions, ArrayTable, enable_arrays};

use points::Points;

#[tokio::main]
async fn main() -> Result<()> {
    let west = vec![
        (-122.3, 47.6, Some("Seattle")),
        (-122.4, 37.8, Some("San Francisco")),
    ];
    let east = vec![(139.7, 35.7, Some("Tokyo")), (151.2, -33.9, None)];
    // The last block replaces the point without a name.
    let update = vec![(151.2, -33.9, Some("Sydney"))];
    let points = Points::new(&[west, east, update], None);

    let ctx = enable_arrays(SessionContext::new(), ArrayOptions::new());
    let table = ArrayTable::new(Arc::new(points), ArrayOptions::new());
    ctx.register_table("points", Arc::new(table))?;
    for sql in [
        "SELECT name, x, y FROM points WHERE x > 140 ORDER BY name",
        "EXPLAIN SELECT name, x, y FROM points WHERE x > 140",
        "SELECT count(*), count(name) FROM points",
    ] {
        ctx.sql(sql).await?.show().await?;
    }
    Ok(())
}
