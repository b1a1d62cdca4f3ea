//! Missing cells, fill values and enumerations, read and inserted.

use std::path::Path;

use datafusion::prelude::SessionContext;
use tet_sql::format::tiledb::{
    ArrayWriter, Attribute, CellValues, DataOrder, Datatype, DenseWriter, Dimension, IndexBox,
    Interval, Layout, Pipeline, Scalar, Schema, TileBuffers, WriteOptions, default_fill,
};

use super::sql_tables::{create, numbers_below};
use super::{arrays, refusals};
use crate::support::sql::{error, rows, run, session};

/// The default of an option.
const WHOLE: &str = "extent 'domain'";

fn attribute(name: &str, datatype: Datatype) -> Attribute {
    Attribute {
        name: name.to_string(),
        datatype,
        cell_values: CellValues::Fixed(1),
        filters: Pipeline::default(),
        fill: default_fill(datatype),
        is_nullable: false,
        is_fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
    }
}

/// Returns the schema of a dense array of two dimensions of 6 cells in tiles of 4.
fn schema(attributes: Vec<Attribute>) -> Schema {
    let dimension = |name: &str| Dimension {
        name: name.to_string(),
        datatype: Datatype::Int32,
        cell_values: CellValues::Fixed(1),
        filters: Pipeline::default(),
        domain: Some(Interval {
            low: Scalar::Signed(0),
            high: Scalar::Signed(5),
        }),
        extent: Some(Scalar::Signed(4)),
    };
    Schema {
        version: ArrayWriter::VERSION,
        allows_duplicates: false,
        is_sparse: false,
        tile_order: Layout::RowMajor,
        cell_order: Layout::RowMajor,
        capacity: 4,
        coordinate_filters: Pipeline::default(),
        offset_filters: Pipeline::default(),
        validity_filters: Pipeline::default(),
        dimensions: vec![dimension("y"), dimension("x")],
        attributes,
        labels: Vec::new(),
        enumerations: Vec::new(),
        current_domain: None,
    }
}

/// Creates an array with one fragment of bytes in each box.
fn bytes(path: &Path, datatype: Datatype, boxes: &[([u64; 2], [u64; 2], u8)]) {
    let schema = schema(vec![attribute("a", datatype)]);
    let options = WriteOptions::default();
    let array = ArrayWriter::create(path, schema, &[], &options).unwrap();
    for ([top, left], [bottom, right], value) in boxes {
        let cells = IndexBox {
            ranges: vec![*top..*bottom, *left..*right],
        };
        let mut writer = DenseWriter::new(&array, cells).unwrap();
        while let Some(tile) = writer.next_tile() {
            let cells = tile.cells().unwrap() as usize;
            let cells = TileBuffers {
                cells,
                values: vec![*value; cells],
                ..TileBuffers::default()
            };
            writer.write(&[cells]).unwrap();
        }
        writer.finish().unwrap();
    }
    array.finish().unwrap();
}

#[tokio::test]
async fn bytes_are_null_only_where_no_fragment_holds_them() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    for (datatype, stored, shown) in [(Datatype::Uint8, 255, "255"), (Datatype::Int8, 128, "-128")]
    {
        let whole = folder.path().join(format!("whole_{shown}"));
        bytes(&whole, datatype, &[([0, 0], [6, 6], stored)]);
        create(&ctx, &whole, WHOLE).await;
        let sql =
            "SELECT count(*), count(a), min(a), max(a), count(*) FILTER (WHERE a IS NULL) FROM t";
        let expected = format!("36 36 {shown} {shown} 0");
        assert_eq!(rows(&ctx, sql).await, [expected]);
        let sql =
            format!("SELECT y, count(a) FROM t WHERE a = {shown} GROUP BY y ORDER BY y LIMIT 1");
        assert_eq!(rows(&ctx, &sql).await, ["0 6"]);

        // Four boxes cover all cells.
        let boxes = [
            ([0, 0], [4, 4], stored),
            ([0, 4], [4, 6], 7),
            ([4, 0], [6, 3], 8),
            ([4, 3], [6, 6], 9),
        ];
        let covered = folder.path().join(format!("covered_{shown}"));
        bytes(&covered, datatype, &boxes);
        create(&ctx, &covered, WHOLE).await;
        let sql = "SELECT count(a), max(CAST(a AS INT)), sum(CAST(a = 7 AS INT)) FROM t";
        let most = shown.parse::<i32>().unwrap().max(9);
        assert_eq!(rows(&ctx, sql).await, [format!("36 {most} 8")]);

        // Without one of the boxes, its 6 cells are null.
        let partial = folder.path().join(format!("partial_{shown}"));
        bytes(&partial, datatype, &boxes[..3]);
        create(&ctx, &partial, WHOLE).await;
        for sql in [
            "SELECT count(*) - count(a), count(a) FROM t",
            "SELECT count(*) FILTER (WHERE a IS NULL), count(a) FROM t",
            "SELECT sum(CAST(a IS NULL AS INT)), count(a) FROM (SELECT * FROM t ORDER BY x, y)",
        ] {
            assert_eq!(rows(&ctx, sql).await, ["6 30"], "{sql}");
        }
        let sql = "SELECT DISTINCT y, x, a FROM t WHERE a IS NULL ORDER BY y, x LIMIT 1";
        assert_eq!(rows(&ctx, sql).await, ["4 3 NULL"]);
        let sql = format!("SELECT count(*) FROM t WHERE a = {shown}");
        assert_eq!(rows(&ctx, &sql).await, ["16"]);
        create(&ctx, &partial, "fill_as_null 'false'").await;
        assert_eq!(rows(&ctx, &sql).await, ["22"]);
        assert_eq!(rows(&ctx, "SELECT count(a) FROM t").await, ["36"]);
    }
}

#[tokio::test]
async fn bytes_are_null_outside_of_generated_boxes() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let mut below = numbers_below(8);
    let mut counts = [0; 2];
    for case in 0..60 {
        let mut corners = Vec::new();
        for _ in 0..below(9) {
            let [top, left] = [below(6), below(6)];
            corners.push([
                top,
                left,
                top + 1 + below(6 - top),
                left + 1 + below(6 - left),
            ]);
        }
        if case % 2 == 0 {
            // All cells, in two boxes between the others.
            let middle = 1 + below(5);
            corners.insert(below(corners.len() + 1), [0, 0, middle, 6]);
            corners.insert(below(corners.len() + 1), [middle, 0, 6, 6]);
        }
        let mut held = [[false; 6]; 6];
        for [top, left, bottom, right] in &corners {
            for row in &mut held[*top..*bottom] {
                row[*left..*right].fill(true);
            }
        }
        let boxes = corners.iter().map(|corners| {
            let [top, left, bottom, right] = corners.map(|corner| corner as u64);
            ([top, left], [bottom, right], 255)
        });
        let boxes: Vec<_> = boxes.collect();
        let path = folder.path().join(case.to_string());
        bytes(&path, Datatype::Uint8, &boxes);
        create(&ctx, &path, WHOLE).await;
        let held = held.iter().flatten().filter(|held| **held).count();
        for sql in [
            "SELECT count(a), count(*) FROM t",
            "SELECT count(a), count(*) FROM (SELECT * FROM t ORDER BY x, y)",
        ] {
            assert_eq!(rows(&ctx, sql).await, [format!("{held} 36")], "{boxes:?}");
        }
        counts[usize::from(held == 36)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

/// Copies an array, creates the table `t` over the copy, and inserts the rows of the table.
async fn insert_again(ctx: &SessionContext, folder: &Path, name: &str) {
    let path = folder.join(name);
    refusals::copy(&arrays().join(name), &path);
    create(ctx, &path, WHOLE).await;
    let mut before = rows(ctx, "SELECT * FROM t").await;
    rows(ctx, "INSERT INTO t SELECT * FROM t").await;
    let mut after = rows(ctx, "SELECT * FROM t").await;
    before.sort();
    after.sort();
    assert!(before == after, "{name}: {before:?}, {after:?}");
}

#[tokio::test]
async fn rows_of_an_array_can_be_inserted_again() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    for name in [
        "dense_partial_with_fill",
        "dense_nullable_fill",
        "dense_var_fragments",
        "enumeration_dense_extended",
        "nullable_dense",
        "sparse_row_major_col",
        "enumerations",
    ] {
        insert_again(&ctx, folder.path(), name).await;
    }
    // The fill values of 8-bit integers do not stand for null.
    let path = folder.path().join("bytes");
    bytes(&path, Datatype::Uint8, &[([0, 0], [4, 4], 1)]);
    create(&ctx, &path, WHOLE).await;
    let text = error(&ctx, "INSERT INTO t SELECT * FROM t").await;
    assert!(
        text.contains("attribute \"a\" has a null, but is not nullable"),
        "{text}"
    );
}

#[tokio::test]
async fn values_of_enumerations_of_numbers_are_compared_and_inserted() {
    let (ctx, folder) = (session(), tempfile::tempdir().unwrap());
    let path = folder.path().join("enumerations");
    refusals::copy(&arrays().join("enumerations"), &path);
    create(&ctx, &path, WHOLE).await;
    let types = "SELECT DISTINCT arrow_typeof(c), arrow_typeof(d), arrow_typeof(f) FROM t";
    let expected = ["Dictionary(Int32, Utf8) Int64 Float64"];
    assert_eq!(rows(&ctx, types).await, expected);
    // The bounds of tiles are those of indices.
    for (condition, is_read) in [
        ("d = 20", true),
        ("d = 31", false),
        ("d IN (31, 32)", false),
        ("f = 9", true),
    ] {
        let run = run(&ctx, &format!("SELECT i FROM t WHERE {condition}")).await;
        assert_eq!(run.reads() > 0, is_read, "{condition}");
        assert_eq!(run.rows.is_empty(), condition != "d = 20", "{condition}");
    }
    // Values are inserted as they are shown; other values are refused.
    rows(
        &ctx,
        "INSERT INTO t SELECT 5, c, 20, NULL, n FROM t WHERE i = 0",
    )
    .await;
    let shown = rows(&ctx, "SELECT d, f FROM t WHERE i = 5").await;
    assert_eq!(shown, ["20 NULL"]);
    let text = error(
        &ctx,
        "INSERT INTO t SELECT i, c, 31, f, n FROM t WHERE i = 0",
    )
    .await;
    let expected = "attribute \"d\" has no value \"31\" in its enumeration";
    assert!(text.contains(expected), "{text}");
}
