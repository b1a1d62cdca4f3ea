//! Tables that are blocks of rows, without axes: the points of the example `sparse_blocks`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use tet_sql::provider::catalog::description::TableDescription;
use tet_sql::provider::catalog::settings::options::ReadOptions;
use tet_sql::provider::source::{BlockSource, ColumnKind, DIMENSION, SelectedBlocks};
use tet_sql::{ArrayOptions, ArrayTable};

use crate::pushdown::sparse::points::Points;
use crate::support::sql::{rows, session};

/// Points whose coordinates are marked as dimensions and have a unit.
#[derive(Debug)]
struct Marked {
    points: Points,
    schema: SchemaRef,
}

impl Marked {
    fn new(points: Points) -> Self {
        let fields = points.schema().fields().iter().map(|field| {
            let field = field.as_ref().clone();
            let metadata = match field.name().as_str() {
                "name" => vec![("long_name".to_string(), "name of the place".to_string())],
                _ => vec![
                    (DIMENSION.to_string(), String::new()),
                    ("units".to_string(), "degrees".to_string()),
                ],
            };
            field.with_metadata(metadata.into_iter().collect())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { points, schema }
    }
}

impl BlockSource for Marked {
    fn format(&self) -> &'static str {
        self.points.format()
    }

    fn name(&self) -> &str {
        "marked points"
    }

    fn location(&self) -> Option<&str> {
        Some("memory:points")
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        self.points.column_kind(column)
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        self.points.select(filters, columns, options)
    }

    fn describe(&self) -> Result<TableDescription> {
        self.points.describe()
    }
}

/// A session with the tables `marked` and `plain`. The last block replaces a point of the first.
fn points() -> SessionContext {
    let blocks = [
        vec![
            (0.0, 5.0, Some("a")),
            (4.0, 2.0, None),
            (1.0, 1.0, Some("b")),
        ],
        vec![(9.0, -1.0, Some("c"))],
        vec![(4.0, 2.0, Some("d")), (3.0, 7.0, None)],
    ];
    let points = Points::new(&blocks, None);
    let ctx = session();
    let marked = ArrayTable::new(Arc::new(Marked::new(points.clone())), ArrayOptions::new());
    ctx.register_table("marked", Arc::new(marked)).unwrap();
    let plain = ArrayTable::new(Arc::new(points), ArrayOptions::new());
    ctx.register_table("plain", Arc::new(plain)).unwrap();
    ctx
}

#[tokio::test]
async fn blocks_have_no_shape() {
    let ctx = points();
    let columns = "table_name, value_columns, path, format, dimensions, shape, chunk_shape, chunks, cells, codecs, \
                   stored_bytes, raw_bytes, problems";
    assert_eq!(
        rows(&ctx, &format!("SELECT {columns} FROM tet_datasets()")).await,
        [
            "marked [name] memory:points points [x, y] NULL NULL 3 NULL NULL NULL NULL []",
            "plain [x, y, name] NULL points NULL NULL NULL 3 NULL NULL NULL NULL []",
        ]
    );
    assert_eq!(
        rows(&ctx, "SELECT * FROM tet_dimensions()").await,
        [
            "datafusion public marked 0 x NULL Float64 NULL NULL NULL NULL NULL degrees NULL NULL",
            "datafusion public marked 1 y NULL Float64 NULL NULL NULL NULL NULL degrees NULL NULL",
        ]
    );
    assert_eq!(
        rows(
            &ctx,
            "SELECT table_name, column_name, key, value FROM tet_attributes()"
        )
        .await,
        [
            "marked x units degrees",
            "marked y units degrees",
            "marked name long_name name of the place",
        ]
    );
    assert!(rows(&ctx, "SELECT * FROM tet_files()").await.is_empty());
}

#[tokio::test]
async fn chunks_are_blocks() {
    let ctx = points();
    let columns = "path, dataset, chunk, start, x_min, x_max, y_min, y_max, cells, is_exact, codec, stored_bytes, \
                   nulls, problem";
    assert_eq!(
        rows(&ctx, &format!("SELECT {columns} FROM tet_chunks('marked')")).await,
        [
            "memory:points marked points [0] NULL 0.0 4.0 1.0 5.0 3 false NULL 72 NULL NULL",
            "memory:points marked points [1] NULL 9.0 9.0 -1.0 -1.0 1 false NULL 24 NULL NULL",
            "memory:points marked points [2] NULL 3.0 4.0 2.0 7.0 2 false NULL 48 NULL NULL",
        ]
    );
    let sql = "SELECT chunk, name_min, name_max FROM tet_chunks('plain') WHERE x_max > 4 LIMIT 1";
    assert_eq!(rows(&ctx, sql).await, ["[1] NULL NULL"]);
    assert_eq!(
        rows(&ctx, "SELECT count(*) FROM tet_chunks('plain')").await,
        ["3"]
    );
    assert_eq!(
        rows(&ctx, "SELECT chunk FROM tet_chunks('plain') LIMIT 2").await,
        ["[0]", "[1]"]
    );
    // The columns of both kinds of tables that mean the same have the same types.
    let types = "SELECT arrow_typeof(chunk), arrow_typeof(start), arrow_typeof(cells), arrow_typeof(raw_bytes), \
                 arrow_typeof(codec), arrow_typeof(minimum) FROM tet_chunks('plain') LIMIT 1";
    let list = "List(UInt64)";
    let expected = format!("{list} {list} UInt64 UInt64 Utf8 Float64");
    assert_eq!(rows(&ctx, types).await, [expected]);
}
