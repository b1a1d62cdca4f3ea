//! The global order of the cells of sparse arrays.

use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Dimension, Interval, Layout, Scalar, Schema};
use crate::format::tiledb::writer::cells::hilbert;

/// Maps coordinates to keys: byte strings whose order is the global order of cells, and which are equal
/// for equal coordinates.
///
/// ```text
/// row- or column-major   tile index per dimension, coordinate per dimension
/// Hilbert                place on the curve, coordinate per dimension
/// ```
#[derive(Debug)]
pub(crate) struct CellOrder {
    dimensions: Vec<(Dimension, Option<Interval>)>,
    tile_order: Layout,
    cell_order: Layout,
    /// The coordinates of the last cell. Keeps its memory from cell to cell.
    cell: Vec<Scalar>,
}

impl CellOrder {
    /// Returns the order of the cells of a schema. Coordinates must be in its current domain, or else in
    /// its domain.
    pub fn new(schema: &Schema) -> Self {
        let limit = |index: usize| {
            let current = schema.current_domain.as_ref();
            current.and_then(|current| current.get(index).cloned())
        };
        let dimensions = schema.dimensions.iter().enumerate();
        Self {
            dimensions: dimensions
                .map(|(index, dimension)| {
                    let limit = limit(index).or_else(|| dimension.domain.clone());
                    (dimension.clone(), limit)
                })
                .collect(),
            tile_order: schema.tile_order,
            cell_order: schema.cell_order,
            cell: Vec::new(),
        }
    }

    /// Appends the key of a cell. `coordinates` returns the bytes of a coordinate.
    pub fn put_key<'a>(
        &mut self,
        coordinates: impl Fn(usize) -> &'a [u8],
        key: &mut Vec<u8>,
    ) -> Decoded<()> {
        self.cell.clear();
        for (index, (dimension, limit)) in self.dimensions.iter().enumerate() {
            let bytes = coordinates(index);
            let value = Scalar::from_cell(dimension.datatype, dimension.cell_values, bytes);
            // The caller checks the length.
            let value = value.unwrap_or(Scalar::Signed(0));
            let is_within = limit.as_ref().is_none_or(|limit| limit.contains(&value));
            if !is_within {
                let limit = limit
                    .as_ref()
                    .map(|limit| format!("{} to {}", limit.low, limit.high));
                let found = format!("{value}, of dimension {:?}", dimension.name);
                return Err(Fault::new("coordinate", found, limit.unwrap_or_default()));
            }
            self.cell.push(value);
        }
        let cell = self
            .dimensions
            .iter()
            .map(|(dimension, _)| dimension)
            .zip(&self.cell);
        let put_tile = |(dimension, value): (&Dimension, &Scalar)| {
            if let (Some(domain), Some(extent)) = (&dimension.domain, &dimension.extent) {
                let tile = match dimension.extent_length() {
                    Some(extent) => value.distance_from(&domain.low).unwrap_or(0) / extent.max(1),
                    None => float_tile(dimension.datatype, value, &domain.low, extent),
                };
                key.extend(tile.to_be_bytes());
            }
        };
        match (self.cell_order, self.tile_order) {
            (Layout::Hilbert, _) => key.extend(hilbert::place(cell).to_be_bytes()),
            (_, Layout::ColumnMajor) => cell.rev().for_each(put_tile),
            _ => cell.for_each(put_tile),
        }
        match self.cell_order {
            Layout::ColumnMajor => self.cell.iter().rev().for_each(|value| put(value, key)),
            _ => self.cell.iter().for_each(|value| put(value, key)),
        }
        Ok(())
    }
}

/// Returns the index of the space tile of a floating-point coordinate.
fn float_tile(datatype: Datatype, value: &Scalar, low: &Scalar, extent: &Scalar) -> u64 {
    match (value, low, extent) {
        (Scalar::Float(value), Scalar::Float(low), Scalar::Float(extent)) => match datatype {
            // Other writers use the arithmetic of the datatype.
            Datatype::Float32 => ((*value as f32 - *low as f32) / *extent as f32).floor() as u64,
            _ => ((value - low) / extent).floor() as u64,
        },
        _ => 0,
    }
}

/// Appends a coordinate as bytes in the order of coordinates.
fn put(value: &Scalar, key: &mut Vec<u8>) {
    const SIGN: u64 = 1 << 63;
    match value {
        Scalar::Signed(value) => key.extend((*value as u64 ^ SIGN).to_be_bytes()),
        Scalar::Unsigned(value) => key.extend(value.to_be_bytes()),
        Scalar::Float(value) => {
            // Adding 0 makes zeros of both signs equal.
            let bits = (value + 0.0).to_bits();
            let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
            key.extend(ordered.to_be_bytes());
        }
        Scalar::Bytes(bytes) => {
            // A zero followed by another zero ends the text, so that it is before every longer text.
            for byte in bytes {
                key.push(*byte);
                if *byte == 0 {
                    key.push(0xff);
                }
            }
            key.extend([0, 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_as_bytes() {
        let order = [
            vec![
                Scalar::Signed(i64::MIN),
                Scalar::Signed(-1),
                Scalar::Signed(0),
            ],
            vec![Scalar::Unsigned(1), Scalar::Unsigned(256)],
            [f64::NEG_INFINITY, -1.5, -1.0, 0.0, 1e-300, 7.0]
                .map(Scalar::Float)
                .to_vec(),
            [&b""[..], b"\0", b"\0\0", b"\0a", b"a", b"a\0", b"ab"]
                .map(|text| Scalar::Bytes(text.to_vec()))
                .to_vec(),
        ];
        let bytes = |value: &Scalar| {
            let mut key = Vec::new();
            put(value, &mut key);
            key
        };
        for values in order {
            assert!(
                values.iter().map(bytes).is_sorted_by(|a, b| a < b),
                "{values:?}"
            );
        }
        assert_eq!(bytes(&Scalar::Float(-0.0)), bytes(&Scalar::Float(0.0)));
    }
}
