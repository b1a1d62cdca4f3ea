//! Arrays that are written and read again.

mod refusals;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    ArrayWriter, Attribute, CellValues, DataOrder, Datatype, DenseCellWriter, DenseWriter,
    Dimension, EncryptionKey, Enumeration, IndexBox, Interval, Layout, MetadataValue, OpenOptions,
    Pipeline, Scalar, Schema, SparseWriter, TileBuffers, TileDbArray, WriteOptions, default_fill,
};

use super::random::RandomArray;
use super::refusals::{copy, files};
use super::{arrays, key, rows};

#[test]
fn random_arrays_have_the_cells_that_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut cells = 0;
    for seed in 0..60 {
        let path = folder.path().join(format!("array_{seed}"));
        let array = RandomArray::new(seed);
        array
            .write(&path)
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        let opened = array.open(&path).unwrap();
        assert_eq!(opened.fragments().len(), array.writes.len());
        let text = |rows: Vec<Vec<serde_json::Value>>| {
            let rows = rows.iter().map(|row| serde_json::to_string(row).unwrap());
            let mut rows: Vec<String> = rows.collect();
            rows.sort();
            rows
        };
        let found = text(rows::read(&opened, false).unwrap().rows);
        let expected = text(array.rows());
        cells += found.len();
        assert!(found == expected, "{seed}: {:?}", array.schema);
    }
    assert!(cells > 4_000, "{cells}");
}

fn dimension(datatype: Datatype, low: Scalar, high: Scalar, extent: Scalar) -> Dimension {
    Dimension {
        name: "d".to_string(),
        datatype,
        cell_values: CellValues::Fixed(1),
        filters: Pipeline::default(),
        domain: Some(Interval { low, high }),
        extent: Some(extent),
    }
}

/// Returns the schema of an array with one dimension and one attribute of `INT32`.
fn schema(is_sparse: bool) -> Schema {
    let (low, high) = (Scalar::Signed(1), Scalar::Signed(100));
    Schema {
        version: ArrayWriter::VERSION,
        allows_duplicates: false,
        is_sparse,
        tile_order: Layout::RowMajor,
        cell_order: Layout::RowMajor,
        capacity: 4,
        coordinate_filters: Pipeline::default(),
        offset_filters: Pipeline::default(),
        validity_filters: Pipeline::default(),
        dimensions: vec![dimension(Datatype::Int32, low, high, Scalar::Signed(10))],
        attributes: vec![Attribute {
            name: "a".to_string(),
            datatype: Datatype::Int32,
            cell_values: CellValues::Fixed(1),
            filters: Pipeline::default(),
            fill: default_fill(Datatype::Int32),
            is_nullable: false,
            is_fill_valid: false,
            order: DataOrder::Unordered,
            enumeration: None,
        }],
        labels: Vec::new(),
        enumerations: Vec::new(),
        current_domain: None,
    }
}

fn integers(values: impl IntoIterator<Item = i32>) -> TileBuffers {
    let values: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
    TileBuffers {
        cells: values.len() / 4,
        values,
        ..TileBuffers::default()
    }
}

fn open(path: &Path) -> Result<Arc<TileDbArray>, Error> {
    TileDbArray::open(path, &OpenOptions::default(), Access::Mmap).map(Arc::new)
}

/// Creates a sparse array with cells 1, 2 and 3.
fn create(path: &Path) {
    let options = WriteOptions::default();
    let array = ArrayWriter::create(path, schema(true), &[], &options).unwrap();
    let mut writer = SparseWriter::new(&array).unwrap();
    writer
        .write(3, &[integers([3, 1, 2]), integers([30, 10, 20])])
        .unwrap();
    writer.finish().unwrap();
    array.finish().unwrap();
}

fn read(path: &Path) -> Vec<Vec<serde_json::Value>> {
    let mut rows = rows::read(&open(path).unwrap(), false).unwrap().rows;
    rows.sort_by_key(|row| row[0].as_i64());
    rows
}

#[test]
fn writers_that_are_dropped_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    let options = WriteOptions::default();
    let array = ArrayWriter::create(&path, schema(true), &[], &options).unwrap();
    let mut writer = SparseWriter::new(&array).unwrap();
    writer.write(1, &[integers([1]), integers([1])]).unwrap();
    drop(writer);
    drop(array);
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);

    create(&path);
    let before = files(folder.path());
    let mut writer = SparseWriter::append(&open(&path).unwrap(), &options).unwrap();
    writer.write(1, &[integers([1]), integers([1])]).unwrap();
    drop(writer);
    assert_eq!(files(folder.path()), before);
}

/// A fragment does not count before its commit, whichever of its files exist.
#[test]
fn fragments_without_commit_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    create(&path);
    let expected = read(&path);
    let array = open(&path).unwrap();
    let mut writer = SparseWriter::append(&array, &WriteOptions::default()).unwrap();
    writer
        .write(2, &[integers([1, 50]), integers([11, 50])])
        .unwrap();
    let name = writer.finish().unwrap().unwrap();
    assert_eq!(read(&path).len(), 4);
    std::fs::remove_file(path.join("__commits").join(format!("{name}.wrt"))).unwrap();
    assert_eq!(read(&path), expected);
    for file in files(&path.join("__fragments").join(name)) {
        std::fs::remove_file(file).unwrap();
        assert_eq!(read(&path), expected);
    }
}

#[test]
fn arrays_of_other_writers_are_added_to() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "encrypted_sparse",
        "evolved_sparse",
        "enumerations",
        "current_domain_sparse",
    ] {
        let path = folder.path().join(name);
        copy(&arrays().join(name), &path);
        let options = OpenOptions {
            key: name.starts_with("encrypted").then(key),
            timestamp_end: Some(super::arrays::LATE),
            ..OpenOptions::default()
        };
        let open = || Arc::new(TileDbArray::open(&path, &options, Access::Mmap).unwrap());
        let array = open();
        let before = rows::read(&array, false).unwrap().rows;
        // Writes the cells of the last fragment again, at a later time.
        let fragment = array.fragments().len() - 1;
        let mut reader = tet_sql::format::tiledb::SparseReader::new(Arc::clone(&array)).unwrap();
        let options = WriteOptions {
            timestamp: Some(super::arrays::LATE),
            ..WriteOptions::default()
        };
        let mut writer = SparseWriter::append(&array, &options).unwrap();
        let (dimensions, attributes) = (
            array.schema().dimensions.len(),
            array.schema().attributes.len(),
        );
        let mut written = 0;
        for tile in 0..array.fragments()[fragment].tiles() {
            let mut columns = vec![TileBuffers::default(); dimensions + attributes];
            for (index, column) in columns.iter_mut().enumerate() {
                match index.checked_sub(dimensions) {
                    Some(attribute) => reader.attribute(fragment, tile, attribute, column),
                    None => reader.dimension(fragment, tile, index, column),
                }
                .unwrap();
            }
            written += columns[0].cells;
            writer.write(columns[0].cells, &columns).unwrap();
        }
        writer.finish().unwrap();
        let after = rows::read(&open(), false).unwrap().rows;
        assert!(written > 0 && after.len() >= before.len(), "{name}");
        for row in &before {
            assert!(after.contains(row), "{name}: {row:?}");
        }
    }
}

#[test]
fn enumerations_and_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    let mut schema = schema(false);
    schema.attributes[0].enumeration = Some("colours".to_string());
    let options = WriteOptions {
        timestamp: Some(10),
        key: Some(key()),
        ..WriteOptions::default()
    };
    let colours = Enumeration::of_texts("colours", &["red", "", "grün"]);
    let array = ArrayWriter::create(&path, schema, &[colours], &options).unwrap();
    let value = |text: &str| MetadataValue {
        datatype: Datatype::StringUtf8,
        bytes: text.as_bytes().to_vec(),
    };
    let set = |key: &str, value| BTreeMap::from([(key.to_string(), value)]);
    array.put_metadata(&set("unit", Some(value("K")))).unwrap();
    array.put_metadata(&set("other", Some(value("x")))).unwrap();
    let cells = IndexBox { ranges: vec![1..4] };
    let mut writer = DenseWriter::new(&array, cells).unwrap();
    assert_eq!(writer.next_tile().unwrap().ranges, [1..4]);
    writer.write(&[integers([2, 0, 1])]).unwrap();
    assert_eq!(writer.next_tile(), None);
    writer.finish().unwrap();
    array.finish().unwrap();

    let options = OpenOptions {
        key: Some(key()),
        ..OpenOptions::default()
    };
    let open = || Arc::new(TileDbArray::open(&path, &options, Access::Mmap).unwrap());
    open()
        .put_metadata(&set("other", None), &WriteOptions::default())
        .unwrap();
    let array = open();
    assert_eq!(
        array.metadata().unwrap(),
        BTreeMap::from([("unit".to_string(), value("K"))])
    );
    let rows = rows::read(&array, true).unwrap().rows;
    assert_eq!(
        rows,
        [
            [json!(2), json!("grün")],
            [json!(3), json!("red")],
            [json!(4), json!("")]
        ]
    );
    assert!(TileDbArray::open(&path, &OpenOptions::default(), Access::Mmap).is_err());
    let other = OpenOptions {
        key: EncryptionKey::new(&[1; 32]),
        ..OpenOptions::default()
    };
    let error = TileDbArray::open(&path, &other, Access::Mmap).unwrap_err();
    assert!(error.to_string().contains("not authentic"), "{error}");
}

#[test]
fn statistics_answer_for_whole_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    create(&path);
    let array = open(&path).unwrap();
    assert_eq!(array.sparse_cells(), Some(3));
    let summary = array.fragments()[0].summary(0).unwrap().unwrap();
    assert_eq!(summary.minimum, Some(Scalar::Signed(10)));
    assert_eq!(summary.maximum, Some(Scalar::Signed(30)));
    assert_eq!(summary.sum, Some(Scalar::Signed(60)));
    assert!(summary.is_exact);
}

#[test]
fn cells_of_dense_arrays_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("array");
    let options = WriteOptions::default();
    let array = ArrayWriter::create(&path, schema(false), &[], &options).unwrap();
    let mut writer = DenseCellWriter::new(&array).unwrap();
    writer
        .write(2, &[integers([25, 8]), integers([1, 2])])
        .unwrap();
    writer.write(1, &[integers([9]), integers([3])]).unwrap();
    // Cells in between get the fill value.
    writer.finish(false).unwrap().unwrap();
    array.finish().unwrap();
    let values = |path: &Path| -> Vec<(i64, i64)> {
        let rows = rows::read(&open(path).unwrap(), true).unwrap().rows;
        let number = |value: &serde_json::Value| value.as_i64().unwrap();
        rows.iter()
            .map(|row| (number(&row[0]), number(&row[1])))
            .collect()
    };
    let mut expected: Vec<(i64, i64)> = (8..=25).map(|cell| (cell, i64::from(i32::MIN))).collect();
    (expected[0].1, expected[1].1, expected[17].1) = (2, 3, 1);
    assert_eq!(values(&path), expected);

    let array = open(&path).unwrap();
    let write = |columns: &[TileBuffers]| -> Result<Option<String>, Error> {
        let mut writer = DenseCellWriter::append(&array, &options)?;
        writer.write(columns[0].cells, columns)?;
        writer.finish(true)
    };
    for (columns, message) in [
        (
            [integers([3, 5]), integers([0, 0])],
            "2 cells are given of the 3 cells in the box [3 to 5]",
        ),
        (
            [integers([3, 4, 3]), integers([0, 0, 0])],
            "two cells have the coordinates [3]",
        ),
        (
            [integers([0]), integers([0])],
            "coordinate is 0, of dimension \"d\", expected 1 to 100",
        ),
    ] {
        let error = write(&columns).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    write(&[integers([11, 10]), integers([7, 6])]).unwrap();
    (expected[2].1, expected[3].1) = (6, 7);
    assert_eq!(values(&path), expected);
    assert_eq!(write(&[integers([]), integers([])]).unwrap(), None);
}
