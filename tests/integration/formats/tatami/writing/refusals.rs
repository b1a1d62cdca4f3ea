//! Input that is refused, and files that are not finished.

use tet_sql::format::array::Compression;
use tet_sql::format::tatami::{
    BitSlice, ColumnType, FIELD_NULLABLE, FIELD_SORT_KEY, InputColumn, InputValues, Schema,
    TatamiWriter, WriterOptions,
};

use super::input::field;

fn schema() -> Schema {
    Schema {
        fields: vec![
            field("id", ColumnType::Int32, FIELD_SORT_KEY | FIELD_NULLABLE),
            field("text", ColumnType::String, 0),
        ],
    }
}

fn column(values: InputValues<'_>) -> InputColumn<'_> {
    InputColumn {
        validity: None,
        values,
    }
}

#[test]
fn schemas_and_options_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tatami");
    let one = |column_type, flags| Schema {
        fields: vec![field("a", column_type, flags)],
    };
    let mut twice = schema();
    twice.fields[1].name = "id".to_string();
    let mut two_keys = schema();
    two_keys.fields[1].flags = FIELD_SORT_KEY;
    for (schema, expected) in [
        (Schema::default(), "number of columns is 0"),
        (one(ColumnType::List, 0), "column \"a\" is a list"),
        (
            one(ColumnType::BlobRef, FIELD_SORT_KEY),
            "cannot be the sort key",
        ),
        (twice, "column name is \"id\""),
        (two_keys, "number of sort keys is 2"),
    ] {
        let error = TatamiWriter::create(&path, schema, WriterOptions::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let change = |change: fn(&mut WriterOptions)| {
        let mut options = WriterOptions::default();
        change(&mut options);
        options
    };
    for (options, expected) in [
        (
            change(|o| o.row_group_rows = 0),
            "rows of a row group is 0, expected 1 to 67108864",
        ),
        (
            change(|o| o.row_group_rows = usize::MAX),
            "rows of a row group",
        ),
        (
            change(|o| o.row_group_bytes = 1 << 40),
            "bytes of a row group",
        ),
        (change(|o| o.page_rows = 1 << 30), "rows of a page"),
        (change(|o| o.blob_run_bytes = 0), "bytes of a blob run"),
        (
            change(|o| o.compression = Compression::Zstd { level: 22 }),
            "zstd level is 22",
        ),
    ] {
        let error = TatamiWriter::create(&path, schema(), options).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn batches_are_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tatami");
    let mut writer = TatamiWriter::create(&path, schema(), WriterOptions::default()).unwrap();
    let ids = column(InputValues::Int32(&[1, 2]));
    let texts = column(InputValues::ByteSlices(&[b"a", b"b"]));
    let bits = |bytes: &'static [u8], offset| Some(BitSlice { bytes, offset });
    let offsets = |offsets: &'static [i32]| {
        column(InputValues::Bytes32 {
            offsets,
            data: b"ab",
        })
    };
    let cases = [
        (vec![ids], "there are 1 columns, expected 2"),
        (
            vec![texts, texts],
            "column \"id\": the values are bytes, but the column is int32",
        ),
        (
            vec![ids, ids],
            "column \"text\": the values are int32, but the column is string",
        ),
        (
            vec![column(InputValues::Int32(&[1])), texts],
            "there are 1 values for 2 rows",
        ),
        (
            vec![
                ids,
                column(InputValues::Bytes64 {
                    offsets: &[],
                    data: b"",
                }),
            ],
            "there are 0 values for 2 rows",
        ),
    ];
    for (columns, expected) in cases {
        let error = writer.write(2, &columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for faulty in [&[0, 1, 3], &[0, 2, 1], &[-1, 0, 1]] {
        let error = writer
            .write(2, &[ids, offsets(faulty)])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("do not ascend within the 2 bytes"),
            "{error}"
        );
    }
    for (validity, expected) in [
        (bits(&[0xff], 7), "fewer than 2 bits"),
        (bits(&[0xff], usize::MAX), "fewer than 2 bits"),
        (
            bits(&[0b101], 0),
            "row 1 is null, but the column is not nullable",
        ),
    ] {
        let texts = InputColumn { validity, ..texts };
        let error = writer.write(2, &[ids, texts]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // Refused batches leave the writer as it was.
    writer
        .write(
            0,
            &[
                column(InputValues::Int32(&[])),
                column(InputValues::ByteSlices(&[])),
            ],
        )
        .unwrap();
    writer.write(2, &[ids, texts]).unwrap();
    assert_eq!(writer.finish().unwrap().header.rows, 2);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn rows_out_of_order_are_refused_or_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tatami");
    std::fs::write(&path, b"before").unwrap();
    for allow_unsorted in [false, true] {
        for page_rows in [2, 3, 100] {
            let options = WriterOptions {
                allow_unsorted,
                page_rows,
                ..WriterOptions::default()
            };
            let mut writer = TatamiWriter::create(&path, schema(), options).unwrap();
            let ids = InputColumn {
                validity: Some(BitSlice {
                    bytes: &[0b1101_1011],
                    offset: 0,
                }),
                values: InputValues::Int32(&[1, 1, -9, 2, 3, -9, 2, 1]),
            };
            let texts = [b"x".as_slice(); 8];
            let texts = column(InputValues::ByteSlices(&texts));
            let written = writer
                .write(8, &[ids, texts])
                .and_then(|()| writer.finish());
            match allow_unsorted {
                true => assert_eq!(written.unwrap().first_unsorted_row, Some(6)),
                false => {
                    let error = written.unwrap_err().to_string();
                    let expected = "column \"id\", row 6: the value is less than the one before";
                    assert!(error.contains(expected), "{error}");
                    assert_eq!(std::fs::read(&path).unwrap(), b"before");
                }
            }
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn unfinished_files_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tatami");
    let schema = Schema {
        fields: vec![field("blob", ColumnType::BlobRef, 0)],
    };
    let options = WriterOptions {
        blob_run_bytes: 1,
        ..WriterOptions::default()
    };
    let mut writer = TatamiWriter::create(&path, schema, options).unwrap();
    let blobs = column(InputValues::ByteSlices(&[b"one", b"two"]));
    writer.write(2, &[blobs]).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
