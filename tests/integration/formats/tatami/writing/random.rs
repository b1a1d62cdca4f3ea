//! Random rows of all types, written and read back.

use std::path::Path;

use tet_sql::format::array::Compression;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::{
    ColumnType, Encoding, FIELD_BLOOM, FIELD_NULLABLE, FIELD_SORT_KEY, Schema, WriterOptions,
    verify,
};

use super::super::data::{Random, Table};
use super::input::{Cells, Rows, field};

/// Returns random rows of every type, twice: nullable with Bloom filters, and without nulls.
fn random_rows(count: usize, random: &mut Random) -> Rows {
    let types = ColumnType::ALL.iter().filter(|of| **of != ColumnType::List);
    let mut fields = Vec::new();
    let mut columns: Vec<Cells> = Vec::new();
    for column_type in types {
        for flags in [0, FIELD_NULLABLE | FIELD_BLOOM] {
            fields.push(field(
                &format!("{column_type}_{flags}"),
                *column_type,
                flags,
            ));
            let null_every = match flags {
                0 => usize::MAX >> 40,
                _ => 1 + random.below(6),
            };
            // Values in a small or a large range, in runs, ascending or not.
            let bits = 1 + random.below(64) as u32;
            let run = 1 + random.below(30);
            let is_ascending = random.below(3) == 0;
            let mut word = 0u64;
            let cells = (0..count).map(|row| {
                let next = random.below(1 << 31) as u64 | (random.below(1 << 31) as u64) << 31;
                if row % run == 0 {
                    word = match is_ascending {
                        true => word.wrapping_add(next >> 50),
                        false => next.wrapping_mul(5) & u64::MAX >> (64 - bits),
                    };
                }
                if flags != 0 && random.below(null_every) == 0 {
                    return None;
                }
                Some(match column_type.width() {
                    Some(1) if *column_type == ColumnType::Bool => vec![(word & 1) as u8],
                    Some(width) => word.to_le_bytes()[..width].to_vec(),
                    None => vec![word as u8; word as usize % 40],
                })
            });
            columns.push(cells.collect());
        }
    }
    Rows {
        schema: Schema { fields },
        columns,
    }
}

/// Reads a file and compares all values. The file has no problems.
fn assert_rows(path: &Path, rows: &Rows) -> Table {
    let table = Table::read(path, Access::Mmap).unwrap();
    let mut first = 0;
    for (group, values) in table.groups.iter().enumerate() {
        let count = table.file.row_groups()[group].rows as usize;
        for (column, values) in values.iter().enumerate() {
            assert_eq!(values.rows(), count);
            for row in 0..count {
                let place = format!("row {}, column {column}", first + row);
                assert_eq!(
                    values.scalar(row),
                    rows.columns[column][first + row],
                    "{place}"
                );
            }
        }
        first += count;
    }
    assert_eq!(first, rows.len());
    let problems = verify(&table.file, true);
    assert!(problems.is_empty(), "{problems:?}");
    table
}

#[test]
fn all_types_and_encodings_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let mut random = Random(11);
    let encodings = [
        None,
        Some(Encoding::Plain),
        Some(Encoding::Rle),
        Some(Encoding::BitpackFor),
        Some(Encoding::Delta),
        Some(Encoding::GroupVarint),
        Some(Encoding::PforDelta),
    ];
    for round in 0..4 {
        for encoding in encodings {
            let rows = random_rows(1 + random.below(1500), &mut random);
            let options = WriterOptions {
                encoding,
                compression: match round % 2 {
                    0 => Compression::Raw,
                    _ => Compression::Zstd { level: 1 },
                },
                page_rows: 1 + random.below(300),
                row_group_rows: 1 + random.below(2000),
                blob_run_bytes: 1 + random.below(2000),
                ..WriterOptions::default()
            };
            let (page_rows, group_rows) = (options.page_rows as u64, options.row_group_rows as u64);
            rows.write(&written, options, &mut random).unwrap();
            let table = assert_rows(&written, &rows);
            for (group, stored) in table.file.row_groups().iter().enumerate() {
                assert!(stored.rows <= group_rows);
                for (column, field) in rows.schema.fields.iter().enumerate() {
                    for page in table.file.pages(group, column).unwrap() {
                        assert!(u64::from(page.header.values) <= page_rows);
                        let found = page.header.encoding().unwrap();
                        // A forced encoding is refused only by pages that it cannot hold.
                        match encoding {
                            Some(Encoding::GroupVarint | Encoding::PforDelta) | None => {}
                            Some(forced)
                                if field.column_type.is_integer()
                                    && page.header.nulls < page.header.values =>
                            {
                                assert_eq!(found, forced);
                            }
                            Some(_) => {}
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn row_groups_stay_below_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let mut random = Random(4);
    let texts = (0..2000).map(|row: u64| Some(vec![row as u8; random.below(100)]));
    let mut texts: Cells = texts.collect();
    texts[700] = Some(vec![7; 20_000]);
    let numbers = (0..2000u64).map(|row| Some(row.to_le_bytes().to_vec()));
    let rows = Rows {
        schema: Schema {
            fields: vec![
                field("text", ColumnType::String, 0),
                field("number", ColumnType::Uint64, FIELD_SORT_KEY),
            ],
        },
        columns: vec![texts, numbers.collect()],
    };
    let options = WriterOptions {
        row_group_bytes: 4096,
        ..WriterOptions::default()
    };
    rows.write(&written, options, &mut random).unwrap();
    let table = assert_rows(&written, &rows);
    let groups = table.file.row_groups();
    assert!((28..50).contains(&groups.len()), "{} groups", groups.len());
    for group in groups {
        let bytes = group.chunks[0].raw_bytes + 8 * group.rows;
        assert!(
            bytes <= 4096 + 2 * group.rows || group.rows == 1,
            "{bytes} bytes"
        );
    }
}

#[test]
fn large_files_are_written_in_bounded_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let count = 300_000u64;
    let rows = Rows {
        schema: Schema {
            fields: vec![
                field("number", ColumnType::Int64, FIELD_SORT_KEY),
                field("blob", ColumnType::BlobRef, FIELD_NULLABLE),
            ],
        },
        columns: vec![
            (0..count)
                .map(|row| Some((row / 3).to_le_bytes().to_vec()))
                .collect(),
            (0..count)
                .map(|row| (row % 5 > 0).then(|| format!("document {row}").repeat(4).into_bytes()))
                .collect(),
        ],
    };
    rows.write(&written, WriterOptions::default(), &mut Random(1))
        .unwrap();
    let table = assert_rows(&written, &rows);
    let rows: Vec<u64> = table
        .file
        .row_groups()
        .iter()
        .map(|group| group.rows)
        .collect();
    assert_eq!(rows, [131_072, 131_072, count - 2 * 131_072]);
    let pages = table.file.pages(0, 0).unwrap();
    assert_eq!(pages.len(), 2);
    assert!(table.file.footer().blobs[0].runs.len() > 10);
}

#[test]
fn runs_of_empty_blobs_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("x.tatami");
    let rows = Rows {
        schema: Schema {
            fields: vec![field("blob", ColumnType::BlobRef, 0)],
        },
        columns: vec![vec![Some(Vec::new()); (1 << 20) + 5]],
    };
    let file = rows
        .write(&written, WriterOptions::default(), &mut Random(1))
        .unwrap();
    let runs = file.footer.blobs[0].runs.iter().map(|run| run.values);
    assert_eq!(runs.collect::<Vec<_>>(), [1 << 20, 5]);
    assert_rows(&written, &rows);
}
