//! Metadata, groups, labels, enumerations, bounds and statistics.

use std::sync::Arc;

use serde_json::json;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    DataOrder, Datatype, DenseReader, EncryptionKey, FieldKind, Layout, Scalar, TileBuffers,
    TileDbArray, TileDbGroup, TileReader, verify,
};

use super::refusals::{copy, files, options};
use super::{arrays, expected, rows};

fn open(name: &str) -> Arc<TileDbArray> {
    Arc::new(TileDbArray::open(arrays().join(name), &options(None), Access::Mmap).unwrap())
}

#[test]
fn array_metadata() {
    let metadata = open("array_metadata").metadata().unwrap();
    let keys: Vec<&str> = metadata.keys().map(String::as_str).collect();
    assert_eq!(keys, ["__np_flat_arr", "b", "f", "i", "s", "t"]);
    let value = |key: &str| (metadata[key].datatype, metadata[key].bytes.as_slice());
    let (datatype, bytes) = value("s");
    assert_eq!(
        (datatype, bytes),
        (Datatype::StringUtf8, "héllo".as_bytes())
    );
    assert_eq!(value("f"), (Datatype::Float64, &1.5f64.to_le_bytes()[..]));
    assert_eq!(value("b"), (Datatype::Blob, &b"\x00\x01"[..]));
    let integers = |values: &[i64]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    assert_eq!(value("t"), (Datatype::Int64, &integers(&[1, 2, 3])[..]));
}

#[test]
fn groups_and_their_members() {
    let path = arrays().join("group_of_two");
    assert!(TileDbGroup::recognises(&path) && !TileDbArray::recognises(&path));
    let group = TileDbGroup::open(&path, &options(None)).unwrap();
    let mut members: Vec<_> = group.members().iter().collect();
    members.sort_by_key(|member| member.location.clone());
    let names: Vec<_> = members
        .iter()
        .map(|member| {
            (
                member.name.as_deref(),
                member.location.as_str(),
                member.is_group,
            )
        })
        .collect();
    assert_eq!(names, [(Some("first"), "m1", false), (None, "m2", false)]);
    for member in members {
        let path = group.member_path(member).unwrap();
        let array = TileDbArray::open(&path, &options(None), Access::Pread).unwrap();
        assert!(!rows::read(&Arc::new(array), false).unwrap().rows.is_empty());
    }
    assert!(!group.metadata().unwrap().is_empty());
    let mut outside = group.members()[0].clone();
    outside.location = "../array_metadata".to_string();
    assert_eq!(group.member_path(&outside), None);
}

#[test]
fn dimension_labels() {
    let array = open("dimension_labels");
    let labels = &array.schema().labels;
    let described: Vec<_> = labels
        .iter()
        .map(|label| (label.name.as_str(), label.dimension, label.order))
        .collect();
    assert_eq!(
        described,
        [
            ("lat", 0, DataOrder::Increasing),
            ("name", 0, DataOrder::Increasing),
            ("when", 1, DataOrder::Decreasing),
        ]
    );
    let values = |index: usize| {
        let path = array.label_path(&labels[index]).unwrap();
        let label = TileDbArray::open(&path, &options(None), Access::Mmap).unwrap();
        let table = rows::read(&Arc::new(label), false).unwrap();
        assert_eq!(table.columns[1], labels[index].attribute);
        table
            .rows
            .into_iter()
            .map(|row| row[1].clone())
            .collect::<Vec<_>>()
    };
    let latitudes: Vec<f64> = values(0)
        .iter()
        .map(|bits| f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap()))
        .collect();
    assert_eq!(
        (latitudes[0], latitudes[9], latitudes.len()),
        (-1.0, 1.0, 10)
    );
    assert_eq!(values(1)[3], json!("l03"));
    let when: Vec<i64> = values(2)
        .iter()
        .filter_map(|value| value.as_i64())
        .collect();
    assert_eq!(when, [9, 5, 3, 1]);
}

#[test]
fn schemas_describe_the_array() {
    let array = open("dense_4d_colmajor");
    let schema = array.schema();
    assert_eq!((schema.version, schema.is_sparse), (22, false));
    assert_eq!(schema.cell_order, Layout::ColumnMajor);
    assert_eq!(schema.dimensions.len(), 4);
    let filters = open("filter_bwr_byteshuffle_zstd");
    let filters = filters.schema().attributes[0].filters.to_string();
    assert!(
        filters.starts_with("bit-width-reduction(window=256), byteshuffle, zstd("),
        "{filters}"
    );
    let array = open("current_domain_dense");
    let used = &array.grid().unwrap().used().ranges;
    assert_ne!(used[0], 0..array.grid().unwrap().shape()[0]);
    let array = open("enumerations");
    let enumeration = array.enumeration(0).unwrap().unwrap();
    assert!(enumeration.len() > 1 && enumeration.get(enumeration.len()).is_none());
}

/// Reads all values of an attribute in the tiles of a fragment, without padding; nulls are `None`.
fn tile_values(
    array: &Arc<TileDbArray>,
    fragment: usize,
    attribute: usize,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let description = &array.schema().attributes[attribute];
    let (values, size) = (description.cell_values, description.datatype.size());
    let mut buffers = TileBuffers::default();
    let mut all = Vec::new();
    let cells = |buffers: &TileBuffers| {
        let cell = |index| {
            let is_null = buffers.is_null(index);
            (!is_null).then(|| buffers.cell(index, values, size).to_vec())
        };
        (0..buffers.cells).map(cell).collect()
    };
    let this = &array.fragments()[fragment];
    if array.schema().is_sparse {
        let field = array.attribute_in(fragment, attribute).unwrap().unwrap();
        for tile in 0..this.tiles() {
            TileReader::default()
                .read(this, &field, tile, &mut buffers)
                .unwrap();
            all.push(cells(&buffers));
        }
        return all;
    }
    let Some(bounds) = &array.fragment_boxes()[fragment] else {
        return all;
    };
    let grid = array.grid().unwrap();
    let mut reader = DenseReader::new(Arc::clone(array));
    let mut tiles = Vec::new();
    for tile in rows::indices(&grid.tile_box(bounds)) {
        let window = grid.tile(&tile).unwrap().intersection(bounds).unwrap();
        let window = array.window(window).unwrap();
        reader.read(&window, attribute, &mut buffers).unwrap();
        tiles.push((window.sources()[0].tile, cells(&buffers)));
    }
    tiles.sort_by_key(|(tile, _)| *tile);
    tiles.into_iter().map(|(_, cells)| cells).collect()
}

#[test]
fn summaries_hold_for_every_cell() {
    let (mut tiles, mut exact, mut sums, mut nulls) = (0, 0, 0, 0);
    for (name, description) in &expected() {
        if description["dumps"].as_array().unwrap().is_empty() {
            continue;
        }
        let key = description["key"].as_str();
        let key = key.map(|key| EncryptionKey::new(key.as_bytes()).unwrap());
        let path = arrays().join(name);
        let all = TileDbArray::open(&path, &options(key.clone()), Access::Mmap).unwrap();
        for fragment in all.fragments() {
            // The fragment alone, so that no other overwrites its cells.
            let mut options = options(key.clone());
            let window = fragment.timestamps();
            (options.timestamp_start, options.timestamp_end) = (window.0, Some(window.1));
            let alone = Arc::new(TileDbArray::open(&path, &options, Access::Mmap).unwrap());
            let names: Vec<_> = alone.fragments().iter().map(|other| other.name()).collect();
            if names != [fragment.name()] {
                continue;
            }
            for (attribute, description) in alone.schema().attributes.iter().enumerate() {
                if alone.attribute_in(0, attribute).unwrap().is_none() {
                    continue;
                }
                let index = alone.fragments()[0]
                    .schema()
                    .attribute_index(&description.name);
                let Some(summaries) = alone.fragments()[0].summaries(index.unwrap()).unwrap()
                else {
                    continue;
                };
                let values = tile_values(&alone, 0, attribute);
                assert_eq!(values.len(), summaries.len(), "{name}");
                // The summary of the whole fragment is checked like that of one tile.
                let mut summaries = summaries;
                let mut values = values;
                let whole = alone.fragments()[0].summary(index.unwrap()).unwrap();
                summaries.push(whole.unwrap());
                values.push(values.concat());
                for (summary, cells) in summaries.iter().zip(&values) {
                    let place = format!("{name}.{}: {summary:?} of {cells:?}", description.name);
                    tiles += 1;
                    if let Some(count) = summary.null_count {
                        nulls += 1;
                        let found = cells.iter().filter(|cell| cell.is_none()).count();
                        assert_eq!(count, found as u64, "{place}");
                    }
                    let scalars: Vec<Scalar> = cells
                        .iter()
                        .flatten()
                        .map(|bytes| match description.cell_values.is_variable() {
                            true => Scalar::Bytes(bytes.clone()),
                            false => Scalar::from_bytes(description.datatype, bytes).unwrap(),
                        })
                        .collect();
                    for bounds in [&summary.minimum, &summary.maximum] {
                        if let (Some(bound), true) = (bounds, summary.is_exact) {
                            exact += 1;
                            assert!(scalars.contains(bound), "{place}");
                        }
                    }
                    for scalar in &scalars {
                        let is_within = summary.minimum.as_ref().is_none_or(|low| {
                            low.compare(scalar).is_some_and(|order| order.is_le())
                        }) && summary.maximum.as_ref().is_none_or(|high| {
                            high.compare(scalar).is_some_and(|order| order.is_ge())
                        });
                        assert!(is_within, "{scalar:?} in {place}");
                    }
                    if let Some(sum) = &summary.sum {
                        sums += 1;
                        let total = scalars.iter().map(|scalar| match scalar {
                            Scalar::Signed(value) => *value as f64,
                            Scalar::Unsigned(value) => *value as f64,
                            Scalar::Float(value) => *value,
                            Scalar::Bytes(_) => unreachable!(),
                        });
                        let total: f64 = total.sum();
                        let sum = match sum {
                            Scalar::Signed(value) => *value as f64,
                            Scalar::Unsigned(value) => *value as f64,
                            Scalar::Float(value) => *value,
                            Scalar::Bytes(_) => unreachable!(),
                        };
                        let error = (sum - total).abs();
                        assert!(
                            sum == total || error <= 1e-9 * total.abs().max(1.0),
                            "{place}"
                        );
                    }
                }
            }
        }
    }
    assert!(
        tiles > 500 && exact > 500 && sums > 300 && nulls > 500,
        "{tiles} {exact} {sums} {nulls}"
    );
}

#[test]
fn bounds_of_numbers_next_to_nan_are_not_used() {
    let array = open("float_bounds_with_nan");
    let summaries = array.fragments()[0].summaries(0).unwrap().unwrap();
    // The stored minimum of [1, NaN, 5, 2] is 2.
    let minimums = array.fragments()[0].minimums(0).unwrap().unwrap();
    assert_eq!(minimums.get(0).unwrap(), 2f64.to_le_bytes());
    assert_eq!((&summaries[0].minimum, &summaries[0].sum), (&None, &None));
    assert_eq!(summaries[1].minimum, Some(Scalar::Float(3.0)));
}

#[test]
fn bounds_of_sparse_tiles_are_those_of_their_coordinates() {
    let mut tiles = 0;
    for name in [
        "sparse_rtree_deep",
        "sparse_mixed_dims_row",
        "sparse_mixed_dims_hil",
        "sparse_dim_string_rle",
        "sparse_hilbert_col",
        "sparse_consolidated_kept",
    ] {
        let array = open(name);
        let mut buffers = TileBuffers::default();
        for fragment in array.fragments() {
            let bounds = fragment.bounds().unwrap();
            assert_eq!(bounds.tiles() as u64, fragment.tiles());
            for tile in 0..fragment.tiles() {
                tiles += 1;
                for (index, dimension) in array.schema().dimensions.iter().enumerate() {
                    let field = fragment.field(FieldKind::Dimension(index)).unwrap();
                    TileReader::default()
                        .read(fragment, &field, tile, &mut buffers)
                        .unwrap();
                    let cells = (0..buffers.cells).map(|cell| {
                        let size = field.datatype.size();
                        let bytes = buffers.cell(cell, field.cell_values, size);
                        match dimension.cell_values.is_variable() {
                            true => Scalar::Bytes(bytes.to_vec()),
                            false => Scalar::from_bytes(field.datatype, bytes).unwrap(),
                        }
                    });
                    let order = |a: &Scalar, b: &Scalar| a.compare(b).unwrap();
                    let cells: Vec<_> = cells.collect();
                    let (low, high) = (&bounds.low[index], &bounds.high[index]);
                    let tile = tile as usize;
                    assert_eq!(
                        low.get(tile),
                        cells.iter().min_by(|a, b| order(a, b)).cloned()
                    );
                    assert_eq!(
                        high.get(tile),
                        cells.iter().max_by(|a, b| order(a, b)).cloned()
                    );
                }
            }
            // Groups of boxes change nothing in the answer.
            for tile in 0..bounds.tiles() {
                let meeting = bounds.meeting(bounds, tile);
                let all = (0..bounds.tiles()).filter(|other| bounds.meets(*other, bounds, tile));
                assert_eq!(meeting, all.collect::<Vec<_>>());
            }
        }
    }
    assert!(tiles > 150, "{tiles}");
}

/// Fragments of versions before 12 are in the array's directory, beside their commits.
#[test]
fn fragments_beside_the_schema_are_found() {
    let folder = tempfile::tempdir().unwrap();
    copy(&arrays().join("dense_overlapping_fragments"), folder.path());
    let read = || {
        let array = TileDbArray::open(folder.path(), &options(None), Access::Pread).unwrap();
        assert_eq!(array.fragments().len(), 4);
        rows::read(&Arc::new(array), false).unwrap().rows
    };
    let expected = read();
    for commit in files(&folder.path().join("__commits")).iter().take(2) {
        let name = commit.file_stem().unwrap().to_str().unwrap();
        let old = format!("{}_11", name.strip_suffix("_22").unwrap());
        let fragment = folder.path().join("__fragments").join(name);
        std::fs::rename(fragment, folder.path().join(&old)).unwrap();
        std::fs::write(folder.path().join(format!("{old}.ok")), b"").unwrap();
        std::fs::remove_file(commit).unwrap();
    }
    assert_eq!(read(), expected);
}

/// Reads windows of random size, which need some chunks of tiles only.
#[test]
fn windows_of_any_size_have_the_cells_of_the_array() {
    let mut state = 1u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % end
    };
    let mut buffers = TileBuffers::default();
    let mut windows = 0;
    for name in [
        "multichunk_zstd",
        "multichunk_rle_chunks",
        "multichunk_bitshuffle_zstd",
        "multichunk_dd",
        "dense_4d_colmajor",
        "dense_col_cells_row_tiles",
        "dense_overlapping_fragments",
        "dense_var_fragments",
        "evolved_dense",
        "nullable_dense",
    ] {
        let array = open(name);
        let grid = array.grid().unwrap();
        let mut reader = DenseReader::new(Arc::clone(&array));
        for attribute in 0..array.schema().attributes.len() {
            let description = &array.schema().attributes[attribute];
            let (values, size) = (description.cell_values, description.datatype.size());
            for tile in rows::indices(&grid.tile_box(grid.used())) {
                let whole = grid.tile(&tile).unwrap();
                let window = array.window(whole.clone()).unwrap();
                reader.read(&window, attribute, &mut buffers).unwrap();
                let expected: std::collections::HashMap<_, _> = rows::indices(&whole)
                    .into_iter()
                    .enumerate()
                    .map(|(cell, index)| {
                        let bytes = buffers.cell(cell, values, size).to_vec();
                        (index, (buffers.is_null(cell), bytes))
                    })
                    .collect();
                for _ in 0..4 {
                    let mut part = whole.clone();
                    for range in &mut part.ranges {
                        let start = range.start + below(range.end - range.start);
                        *range = start..start + 1 + below(range.end - start).min(40);
                    }
                    let window = array.window(part.clone()).unwrap();
                    reader.read(&window, attribute, &mut buffers).unwrap();
                    windows += 1;
                    assert_eq!(buffers.cells, window.len());
                    for (cell, index) in rows::indices(&part).into_iter().enumerate() {
                        let bytes = buffers.cell(cell, values, size).to_vec();
                        let found = (buffers.is_null(cell), bytes);
                        assert_eq!(found, expected[&index], "{name}, {index:?}");
                    }
                }
            }
        }
    }
    assert!(windows > 200, "{windows}");
}

#[test]
fn arrays_are_sound() {
    let mut tiles = 0;
    for (name, description) in &expected() {
        if description["dumps"].as_array().unwrap().is_empty() {
            continue;
        }
        let key = description["key"].as_str();
        let key = key.map(|key| EncryptionKey::new(key.as_bytes()).unwrap());
        let array = TileDbArray::open(arrays().join(name), &options(key), Access::Mmap).unwrap();
        let found = verify(&array, true, &|_, _| {});
        assert!(found.problems.is_empty(), "{name}: {:?}", found.problems);
        tiles += found.tiles;
    }
    assert!(tiles > 1000, "{tiles}");
}
