//! Schemas and cells that writers refuse.

use tet_sql::format::tiledb::{
    ArrayWriter, DenseWriter, Filter, IndexBox, Interval, Pipeline, Scalar, Schema, SparseWriter,
    TileBuffers, WriteOptions,
};

use super::{create, integers, open, read, schema};

#[test]
fn schemas_that_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    let refused = |schema: Schema, expected: &str| {
        let error = ArrayWriter::create(&path, schema, &[], &WriteOptions::default()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("array: ") && message.contains(expected),
            "{message}"
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    };
    let change = |change: &dyn Fn(&mut Schema)| {
        let mut schema = schema(true);
        change(&mut schema);
        schema
    };
    let filters = |filters: Vec<Filter>| {
        change(&|schema: &mut Schema| {
            schema.attributes[0].filters = Pipeline::new(filters.clone());
        })
    };
    refused(change(&|schema| schema.capacity = 0), "capacity is 0");
    refused(
        change(&|schema| schema.capacity = 1 << 40),
        "cells in a tile",
    );
    refused(
        change(&|schema| schema.dimensions.clear()),
        "number of dimensions is 0",
    );
    refused(
        change(&|schema| schema.version = 21),
        "schema version is 21, expected 22",
    );
    refused(
        change(&|schema| schema.attributes[0].name = "d".to_string()),
        "name is \"d\", twice",
    );
    refused(
        change(&|schema| schema.attributes[0].fill.clear()),
        "fill value is 0 bytes, expected one cell",
    );
    refused(
        change(&|schema| schema.attributes[0].enumeration = Some("e".to_string())),
        "enumeration name is \"e\"",
    );
    refused(
        change(&|schema| {
            schema.dimensions[0].domain = Some(Interval {
                low: Scalar::Signed(0),
                high: Scalar::Signed(i64::from(i32::MAX)),
            });
        }),
        "tile extent is 10",
    );
    refused(
        change(&|schema| {
            schema.is_sparse = false;
            schema.dimensions[0].extent = None;
        }),
        "tile extent is missing",
    );
    refused(filters(vec![Filter::Webp]), "filter is webp");
    refused(filters(vec![Filter::Dictionary]), "filter is dictionary");
    refused(
        filters(vec![Filter::Aes256Gcm]),
        "expected an encryption key",
    );
    let scale = Filter::FloatScale {
        scale: 1.0,
        offset: 0.0,
        width: 4,
    };
    refused(
        filters(vec![Filter::Byteshuffle, scale]),
        "float-scale as the first filter",
    );
    std::fs::write(&path, b"").unwrap();
    let error = ArrayWriter::create(&path, schema(true), &[], &WriteOptions::default());
    assert!(error.unwrap_err().to_string().contains("exists already"));
}

#[test]
fn cells_that_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    create(&path);
    let array = open(&path).unwrap();
    let options = WriteOptions::default();
    let refused = |columns: &[TileBuffers], expected: &str| {
        let mut writer = SparseWriter::append(&array, &options).unwrap();
        let error = match writer.write(2, columns) {
            Ok(()) => writer.finish().unwrap_err(),
            Err(error) => error,
        };
        let message = error.to_string();
        assert!(
            message.contains("array: ") && message.contains(expected),
            "{message}"
        );
    };
    let two = || integers([1, 2]);
    refused(&[two()], "number of columns is 1, expected 2");
    refused(
        &[two(), integers([1])],
        "number of cells is 1, in field \"a\", expected 2",
    );
    refused(
        &[
            two(),
            TileBuffers {
                cells: 2,
                ..TileBuffers::default()
            },
        ],
        "length of values is 0, in field \"a\", expected 8",
    );
    refused(
        &[
            two(),
            TileBuffers {
                validity: vec![1, 1],
                ..two()
            },
        ],
        "length of validity is 2",
    );
    refused(
        &[integers([0, 1]), two()],
        "coordinate is 0, of dimension \"d\"",
    );
    refused(&[integers([101, 1]), two()], "expected 1 to 100");
    refused(
        &[integers([7, 7]), two()],
        "two cells have the coordinates [7]",
    );
    let error = DenseWriter::append(&array, IndexBox { ranges: vec![0..1] }, &options);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("sparse, expected a dense one")
    );
    assert_eq!(read(&path).len(), 3);

    let path = folder.path().join("dense");
    let array = ArrayWriter::create(&path, schema(false), &[], &options).unwrap();
    for ranges in [vec![], vec![0..0], vec![5..101], vec![0..1, 0..1]] {
        let error = DenseWriter::new(&array, IndexBox { ranges }).unwrap_err();
        assert!(error.to_string().contains("dense: box is"), "{error}");
    }
    let cells = IndexBox {
        ranges: vec![5..15],
    };
    let mut writer = DenseWriter::new(&array, cells.clone()).unwrap();
    writer.write(&[integers(0..5)]).unwrap();
    assert_eq!(writer.next_tile().unwrap().ranges, [10..15]);
    let error = writer.finish().unwrap_err().to_string();
    assert!(
        error.contains("dense: tile [1] of the fragment is missing"),
        "{error}"
    );
    let mut writer = DenseWriter::new(&array, cells).unwrap();
    writer.write(&[integers(0..5)]).unwrap();
    writer.write(&[integers(0..5)]).unwrap();
    let error = writer.write(&[integers(0..5)]).unwrap_err().to_string();
    assert!(error.contains("all tiles are written"), "{error}");
    assert!(SparseWriter::new(&array).is_err());
}
