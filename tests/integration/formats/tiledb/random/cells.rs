//! The cells of random arrays: those of each write, and those that the array then has.

use std::collections::{BTreeMap, HashSet};

use tet_sql::format::tiledb::{CellValues, Datatype, IndexBox, Interval, Scalar, TileBuffers};

use super::{Random, RandomArray, Write};
use crate::formats::tiledb::rows;

/// Appends a value of a datatype, which is small in magnitude.
pub(super) fn put_value(datatype: Datatype, value: i64, bytes: &mut Vec<u8>) {
    match datatype {
        Datatype::Float32 => bytes.extend((value as f32 / 4.0).to_le_bytes()),
        Datatype::Float64 => bytes.extend((value as f64 / 4.0).to_le_bytes()),
        Datatype::Bool => bytes.push((value & 1) as u8),
        _ => bytes.extend(&value.to_le_bytes()[..datatype.size()]),
    }
}

pub(super) fn scalar(datatype: Datatype, value: i64) -> Scalar {
    let mut bytes = Vec::new();
    put_value(datatype, value, &mut bytes);
    Scalar::from_bytes(datatype, &bytes).unwrap()
}

/// Returns random cells of an attribute or a dimension.
fn cells(
    random: &mut Random,
    (datatype, cell_values): (Datatype, CellValues),
    is_nullable: bool,
    count: usize,
) -> TileBuffers {
    let mut column = TileBuffers {
        cells: count,
        ..TileBuffers::default()
    };
    let runs = random.one_in(2);
    let mut value = 0;
    for _ in 0..count {
        if !runs || random.one_in(5) {
            value = random.below(100) as i64 - 50;
        }
        if cell_values.is_variable() {
            column.offsets.push(column.values.len() as u64);
        }
        let values = match cell_values {
            CellValues::Fixed(values) => values as usize,
            // TileDB-Py does not tell an empty cell from a NUL.
            CellValues::Variable => 1 + random.below(5) as usize,
        };
        for index in 0..values {
            match datatype {
                Datatype::StringAscii | Datatype::StringUtf8 | Datatype::Char => {
                    column
                        .values
                        .push(b'a' + (value.unsigned_abs() as u8 + index as u8) % 20);
                }
                _ => put_value(datatype, value + index as i64, &mut column.values),
            }
        }
        if is_nullable {
            column.validity.push(u8::from(!random.one_in(4)));
        }
    }
    if cell_values.is_variable() {
        column.offsets.push(column.values.len() as u64);
    }
    column
}

impl RandomArray {
    pub(super) fn dense_write(&self, random: &mut Random) -> Write {
        let is_whole = random.one_in(2);
        let range = |length: u64| match is_whole {
            true => 0..length,
            false => {
                let start = random.below(length);
                start..start + 1 + random.below(length - start)
            }
        };
        let cells_box = IndexBox {
            ranges: self.shape().into_iter().map(range).collect(),
        };
        let count = cells_box.cells().unwrap() as usize;
        let attributes = self.schema.attributes.iter();
        let columns = attributes
            .map(|attribute| {
                let kind = (attribute.datatype, attribute.cell_values);
                cells(random, kind, attribute.is_nullable, count)
            })
            .collect();
        Write {
            cells: cells_box,
            count,
            columns,
        }
    }

    pub(super) fn sparse_write(&self, random: &mut Random) -> Write {
        let wanted = random.choose(&[1, 5, 40, 200]);
        let mut seen = HashSet::new();
        let mut coordinates: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..wanted {
            let mut key = Vec::new();
            for dimension in &self.schema.dimensions {
                let mut bytes = Vec::new();
                match &dimension.domain {
                    None => {
                        let length = random.below(4);
                        bytes.extend((0..length).map(|_| b'a' + random.below(4) as u8));
                    }
                    Some(Interval {
                        low: Scalar::Float(low),
                        high: Scalar::Float(high),
                    }) => {
                        let steps = ((high - low) * 4.0) as u64 + 1;
                        let value = low + random.below(steps) as f64 / 4.0;
                        put_value(dimension.datatype, (value * 4.0) as i64, &mut bytes);
                    }
                    Some(Interval {
                        low: Scalar::Signed(low),
                        high: Scalar::Signed(high),
                    }) => {
                        let value = low + random.below((high - low) as u64 + 1) as i64;
                        put_value(dimension.datatype, value, &mut bytes);
                    }
                    Some(Interval {
                        low: Scalar::Unsigned(low),
                        high: Scalar::Unsigned(high),
                    }) => {
                        let value = low + random.below(high - low + 1);
                        put_value(dimension.datatype, value as i64, &mut bytes);
                    }
                    Some(other) => panic!("{other:?}"),
                }
                key.push(bytes);
            }
            if seen.insert(key.clone()) || self.schema.allows_duplicates {
                coordinates.push(key);
            }
        }
        let count = coordinates.len();
        let mut columns = Vec::new();
        for (index, dimension) in self.schema.dimensions.iter().enumerate() {
            let mut column = TileBuffers {
                cells: count,
                ..TileBuffers::default()
            };
            for key in &coordinates {
                if dimension.cell_values.is_variable() {
                    column.offsets.push(column.values.len() as u64);
                }
                column.values.extend(&key[index]);
            }
            if dimension.cell_values.is_variable() {
                column.offsets.push(column.values.len() as u64);
            }
            columns.push(column);
        }
        for attribute in &self.schema.attributes {
            let kind = (attribute.datatype, attribute.cell_values);
            columns.push(cells(random, kind, attribute.is_nullable, count));
        }
        Write {
            cells: IndexBox { ranges: Vec::new() },
            count,
            columns,
        }
    }

    /// Returns the cells that the array has after all writes, as rows.
    pub fn rows(&self) -> Vec<Vec<serde_json::Value>> {
        let schema = &self.schema;
        let mut all = Vec::new();
        let mut by_coordinates = BTreeMap::new();
        if !schema.is_sparse {
            let shape = self.shape().into_iter().map(|length| 0..length);
            let whole = IndexBox {
                ranges: shape.collect(),
            };
            for index in rows::indices(&whole) {
                let attributes = schema.attributes.iter();
                let fill = attributes.map(|attribute| {
                    let fill = TileBuffers {
                        cells: 1,
                        values: attribute.fill.clone(),
                        offsets: match attribute.cell_values.is_variable() {
                            true => vec![0, attribute.fill.len() as u64],
                            false => Vec::new(),
                        },
                        validity: vec![0; usize::from(attribute.is_nullable)],
                    };
                    let (datatype, values) = (attribute.datatype, attribute.cell_values);
                    rows::column(datatype, values, None, &fill).remove(0)
                });
                by_coordinates.insert(index, fill.collect::<Vec<_>>());
            }
        }
        for write in &self.writes {
            let dimensions = schema.dimensions.iter();
            let dimensions =
                dimensions.map(|dimension| (dimension.datatype, dimension.cell_values));
            let attributes = schema.attributes.iter();
            let attributes =
                attributes.map(|attribute| (attribute.datatype, attribute.cell_values));
            let fields: Vec<_> = match schema.is_sparse {
                true => dimensions.chain(attributes).collect(),
                false => attributes.collect(),
            };
            let columns: Vec<_> = fields
                .iter()
                .zip(&write.columns)
                .map(|((datatype, values), column)| rows::column(*datatype, *values, None, column))
                .collect();
            let rows = (0..write.count).map(|row| {
                let row = columns.iter().map(|column| column[row].clone());
                row.collect::<Vec<_>>()
            });
            if !schema.is_sparse {
                let indices = rows::indices(&write.cells);
                by_coordinates.extend(indices.into_iter().zip(rows));
            } else if schema.allows_duplicates {
                all.extend(rows);
            } else {
                for row in rows {
                    let key = format!("{:?}", &row[..schema.dimensions.len()]);
                    all.retain(|other: &Vec<serde_json::Value>| {
                        format!("{:?}", &other[..schema.dimensions.len()]) != key
                    });
                    all.push(row);
                }
            }
        }
        if !schema.is_sparse {
            for (index, row) in by_coordinates {
                let dimensions = schema.dimensions.iter().zip(index);
                let coordinates = dimensions.map(|(dimension, index)| {
                    match dimension.domain.clone().unwrap().low {
                        Scalar::Signed(low) => serde_json::json!(low + index as i64),
                        Scalar::Unsigned(low) => serde_json::json!(low + index),
                        other => panic!("{other:?}"),
                    }
                });
                all.push(coordinates.chain(row).collect());
            }
        }
        all
    }
}
