//! Writes the cells of arrays that TileDB-Py wrote, and compares the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::io::storage::Access;
use crate::format::tiledb::codecs::Codecs;
use crate::format::tiledb::tile::decode_generic;
use crate::format::tiledb::{
    ArrayWriter, DenseReader, DenseWriter, EncryptionKey, Enumeration, FieldKind, OpenOptions,
    Schema, SparseReader, SparseWriter, TileBuffers, TileDbArray, TileReader, WriteOptions,
};

fn arrays() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiledb/arrays")
}

/// Returns the key of an array, by its name.
fn key_of(path: &Path) -> Option<EncryptionKey> {
    let name = path.to_str().unwrap();
    let is_encrypted = name.contains("encrypted") || name.contains("aes");
    is_encrypted.then(|| EncryptionKey::new(b"0123456789abcdeF0123456789abcdeF").unwrap())
}

/// Opens the fragments of an array in a window of time.
fn open(path: &Path, start: u64, end: u64) -> Option<Arc<TileDbArray>> {
    let options = OpenOptions {
        timestamp_start: start,
        timestamp_end: Some(end),
        key: key_of(path),
    };
    let array = TileDbArray::open(path, &options, Access::Mmap).ok();
    array.map(Arc::new)
}

/// Returns the cells at some indices of all columns.
fn take(columns: &[TileBuffers], indices: &[usize]) -> Vec<TileBuffers> {
    let take = |column: &TileBuffers| {
        let size = match column.cells {
            0 => 0,
            cells => column.values.len() / cells,
        };
        let mut taken = TileBuffers {
            cells: indices.len(),
            ..TileBuffers::default()
        };
        for index in indices {
            let range = match column.offsets.get(*index..index + 2) {
                Some(range) => range[0] as usize..range[1] as usize,
                None => index * size..(index + 1) * size,
            };
            if !column.offsets.is_empty() {
                taken.offsets.push(taken.values.len() as u64);
            }
            taken.values.extend(&column.values[range]);
            taken.validity.extend(column.validity.get(*index));
        }
        if !column.offsets.is_empty() {
            taken.offsets.push(taken.values.len() as u64);
        }
        taken
    };
    columns.iter().map(take).collect()
}

/// Writes the cells of an array with one fragment. Returns the name of the new fragment.
fn rewrite(array: &Arc<TileDbArray>, writer: &ArrayWriter) -> crate::error::Result<String> {
    let schema = array.schema();
    let mut columns = Vec::new();
    if !schema.is_sparse {
        let mut reader = DenseReader::new(Arc::clone(array));
        let cells = array.written_box().unwrap();
        let mut fragment = DenseWriter::new(writer, cells)?;
        while let Some(window) = fragment.next_tile() {
            let window = array.window(window)?;
            columns.resize(schema.attributes.len(), TileBuffers::default());
            for (attribute, column) in columns.iter_mut().enumerate() {
                reader.read(&window, attribute, column)?;
            }
            fragment.write(&columns)?;
        }
        return fragment.finish();
    }
    let mut reader = SparseReader::new(Arc::clone(array))?;
    let mut fragment = SparseWriter::new(writer)?;
    let mut tiles: Vec<u64> = (0..array.fragments()[0].tiles()).collect();
    if !schema.allows_duplicates {
        tiles.reverse();
    }
    let dimensions = schema.dimensions.len();
    for tile in tiles {
        columns.resize(dimensions + schema.attributes.len(), TileBuffers::default());
        for (index, column) in columns.iter_mut().enumerate() {
            match index.checked_sub(dimensions) {
                Some(attribute) => reader.attribute(0, tile, attribute, column)?,
                None => reader.dimension(0, tile, index, column)?,
            }
        }
        let cells = columns[0].cells;
        let mut order: Vec<usize> = (0..cells).collect();
        if !schema.allows_duplicates {
            order.reverse();
        }
        fragment.write(cells, &take(&columns, &order))?;
    }
    Ok(fragment.finish()?.unwrap())
}

/// Returns the payloads of the generic tiles of a metadata file.
fn payloads(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let (rest, length) = bytes.split_last_chunk::<8>().unwrap();
    let (mut rest, _) = rest.split_at(rest.len() - u64::from_le_bytes(*length) as usize);
    let key = key_of(path);
    let mut payloads = Vec::new();
    while !rest.is_empty() {
        let (payload, after) = decode_generic(&mut Codecs::default(), key.as_ref(), rest).unwrap();
        payloads.push(payload);
        rest = after;
    }
    payloads
}

/// Returns the bytes of the cells of all tiles of a fragment, padding included.
fn tiles(array: &TileDbArray, field: FieldKind) -> Vec<TileBuffers> {
    let fragment = &array.fragments()[0];
    let field = fragment.field(field).unwrap();
    let mut reader = TileReader::default();
    let tiles = (0..fragment.tiles()).map(|tile| {
        let mut buffers = TileBuffers::default();
        reader.read(fragment, &field, tile, &mut buffers).unwrap();
        buffers
    });
    tiles.collect()
}

/// The names of the lists of payloads of a metadata file, with one payload per slot each.
const KINDS: [&str; 8] = [
    "tile offsets",
    "variable tile offsets",
    "variable tile sizes",
    "validity tile offsets",
    "minimums",
    "maximums",
    "sums",
    "null counts",
];

/// Returns the payloads of a metadata file in which two fragments differ, apart from positions in files.
fn differing_payloads(old: &Path, new: &Path, attributes: usize) -> Vec<String> {
    let (old, new) = (payloads(old), payloads(new));
    assert_eq!(old.len(), new.len());
    let slots = (old.len() - 3) / 8;
    let mut different = Vec::new();
    for (index, (old, new)) in old.iter().zip(&new).enumerate() {
        let name = match index {
            0 => "R-tree".to_string(),
            // Statistics of the fragment are compared by attribute.
            _ if index > 8 * slots => continue,
            _ => format!(
                "{} of slot {}",
                KINDS[(index - 1) / slots],
                (index - 1) % slots
            ),
        };
        // The slot without a field has zeros, of which there may be any number.
        let is_unused = index > 0 && (index - 1) % slots == attributes;
        if old != new && !name.contains("offsets") && !is_unused {
            different.push(name);
        }
    }
    different
}

#[test]
fn fragments_are_those_of_other_writers() {
    let (mut files, mut equal, mut different) = (0, 0, BTreeSet::new());
    for entry in arrays().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let all = match name.starts_with("corrupt") {
            true => None,
            false => open(&path, 0, u64::MAX),
        };
        for fragment in all.iter().flat_map(|all| all.fragments()) {
            let (first, last) = fragment.timestamps();
            let Some(array) = open(&path, first, last) else {
                continue;
            };
            let is_plain = first == last && !fragment.has_timestamps();
            if !is_plain || array.fragments().len() != 1 || !array.deletes().is_empty() {
                continue;
            }
            let schema = Schema {
                labels: Vec::new(),
                ..(**fragment.schema()).clone()
            };
            let mut enumerations: Vec<Enumeration> = Vec::new();
            for attribute in 0..schema.attributes.len() {
                let enumeration = array.enumeration(attribute).unwrap();
                enumerations.extend(enumeration.map(|enumeration| (*enumeration).clone()));
            }
            enumerations.dedup();
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join(&name);
            let options = WriteOptions {
                timestamp: Some(first),
                key: key_of(&path),
                // Sorts with temporary files.
                sort_memory: 4096,
            };
            let writer = ArrayWriter::create(&target, schema, &enumerations, &options).unwrap();
            let new = rewrite(&array, &writer).unwrap();
            writer.finish().unwrap();
            let written = open(&target, 0, u64::MAX).unwrap();
            let fields = (0..array.schema().attributes.len()).map(FieldKind::Attribute);
            let dimensions = (0..array.schema().dimensions.len()).map(FieldKind::Dimension);
            let dimensions = dimensions.filter(|_| array.schema().is_sparse);
            for field in fields.chain(dimensions) {
                let (old, new) = (tiles(&array, field), tiles(&written, field));
                assert!(old == new, "{name}, {field:?}");
            }
            let statistics =
                |array: &TileDbArray| array.fragments()[0].statistics().unwrap().unwrap();
            if statistics(&array) != statistics(&written) {
                different.insert(name.clone());
            }
            let old = path.join("__fragments").join(fragment.name());
            let new = target.join("__fragments").join(new);
            for entry in old.read_dir().unwrap() {
                let file = entry.unwrap().file_name();
                let (old, new) = (old.join(&file), new.join(&file));
                if file == "__fragment_metadata.tdb" {
                    let attributes = array.schema().attributes.len();
                    for payload in differing_payloads(&old, &new, attributes) {
                        let is_statistic = ["minimums", "maximums", "sums", "null counts"]
                            .iter()
                            .any(|kind| payload.starts_with(kind));
                        assert!(is_statistic, "{name}: {payload}");
                        different.insert(name.clone());
                    }
                    continue;
                }
                files += 1;
                if std::fs::read(&old).unwrap() == std::fs::read(&new).unwrap() {
                    equal += 1;
                }
            }
        }
    }
    // Compressors and encryption give other bytes, and so do unused fields of raw windows.
    assert!(equal * 10 > files * 9, "{equal} of {files} files are equal");
    // In these arrays, statistics of other writers are wrong.
    let nulls_of_texts = [
        "evolved_dense",
        "evolved_sparse",
        "nullable_dense_strings",
        "nullable_sparse",
        "sparse_dups",
        "sparse_mixed_dims_hil",
        "sparse_mixed_dims_row",
        "strings_dict",
        "strings_dict_zstd",
        "strings_byteshuffle_gzip_md5",
        "strings_plain",
        "strings_rle",
        "strings_rle_zstd",
        "strings_zstd",
    ];
    let bounds_without_values = ["dense_nullable_fill", "nullable_dense"];
    let bounds_next_to_nan = ["float_bounds_with_nan"];
    let texts_with_nul = ["dtypes_bytes"];
    let saturated_sums = [
        "dtypes_numeric_dense",
        "dtypes_numeric_sparse",
        "filters_by_dtype_int64",
    ];
    let expected: BTreeSet<String> = nulls_of_texts
        .into_iter()
        .chain(bounds_without_values)
        .chain(bounds_next_to_nan)
        .chain(texts_with_nul)
        .chain(saturated_sums)
        .map(str::to_string)
        .collect();
    assert_eq!(different, expected);
}
