//! Statistics of tiles and fragments.

use std::cmp::Ordering;

use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::fragment::{Field, FieldKind};
use crate::format::tiledb::schema::{CellValues, Datatype, Representation, Scalar};
use crate::format::tiledb::writer::bytes::Append;

/// The kinds of statistics that a field has.
#[derive(Debug, Clone, Copy)]
struct StoredKinds {
    has_bounds: bool,
    has_sum: bool,
    is_text: bool,
}

impl StoredKinds {
    fn of(field: &Field) -> Self {
        let datatype = field.datatype;
        let is_text = matches!(datatype, Datatype::Char | Datatype::StringAscii);
        let is_single = datatype.is_number() && field.cell_values == CellValues::Fixed(1);
        let is_attribute = matches!(field.kind, FieldKind::Attribute(_));
        Self {
            has_bounds: is_attribute && (is_single || is_text),
            has_sum: is_single,
            is_text,
        }
    }
}

/// A sum of values of one representation.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Signed(i128),
    Unsigned(u128),
    Float(f64),
}

impl Sum {
    fn zero(representation: Representation) -> Self {
        match representation {
            Representation::Signed => Self::Signed(0),
            Representation::Unsigned => Self::Unsigned(0),
            Representation::Float => Self::Float(0.0),
        }
    }

    fn add(&mut self, value: &Scalar) {
        match (self, value) {
            (Self::Signed(sum), Scalar::Signed(value)) => *sum += i128::from(*value),
            (Self::Unsigned(sum), Scalar::Unsigned(value)) => *sum += u128::from(*value),
            (Self::Float(sum), Scalar::Float(value)) => *sum += value,
            // Values of a field have the representation of its datatype.
            _ => {}
        }
    }

    fn add_sum(&mut self, other: Self) {
        match (self, other) {
            (Self::Signed(sum), Self::Signed(other)) => *sum = sum.saturating_add(other),
            (Self::Unsigned(sum), Self::Unsigned(other)) => *sum = sum.saturating_add(other),
            (Self::Float(sum), Self::Float(other)) => *sum += other,
            _ => {}
        }
    }

    /// The stored form, in which sums of integers saturate.
    fn to_bits(self) -> u64 {
        match self {
            Self::Signed(sum) => sum.clamp(i64::MIN.into(), i64::MAX.into()) as u64,
            Self::Unsigned(sum) => u64::try_from(sum).unwrap_or(u64::MAX),
            Self::Float(sum) => sum.to_bits(),
        }
    }
}

/// Statistics of the cells of one tile. NaN and null count in neither minimum nor maximum, unless there
/// are no other values.
#[derive(Debug)]
pub(crate) struct TileStatistics {
    /// The smallest and the largest value, unless there are no values or the field has no bounds.
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    sum: Sum,
    null_count: u64,
}

impl TileStatistics {
    /// Computes the statistics of cells, without the padding of dense tiles.
    pub fn new(field: &Field, cells: &TileBuffers) -> Self {
        let (kinds, datatype) = (StoredKinds::of(field), field.datatype);
        let (size, values) = (datatype.size(), field.cell_values);
        let mut statistics = Self {
            bounds: None,
            sum: Sum::zero(datatype.representation()),
            null_count: cells.validity.iter().filter(|valid| **valid == 0).count() as u64,
        };
        if !kinds.has_bounds && !kinds.has_sum {
            return statistics;
        }
        let cell = |index: usize| cells.cell(index, values, size);
        let valid = (0..cells.cells).filter(|index| !cells.is_null(*index));
        let mut ends: Option<(usize, usize)> = None;
        if kinds.is_text {
            for index in valid {
                let (low, high) = ends.get_or_insert((index, index));
                if cell(index) < cell(*low) {
                    *low = index;
                }
                if cell(index) > cell(*high) {
                    *high = index;
                }
            }
        } else {
            let mut bounds: Option<(Scalar, Scalar)> = None;
            for index in valid {
                let Some(value) = Scalar::from_bytes(datatype, cell(index)) else {
                    continue;
                };
                statistics.sum.add(&value);
                let (Some((low, high)), Some((low_index, high_index))) = (&mut bounds, &mut ends)
                else {
                    bounds = Some((value.clone(), value));
                    ends = Some((index, index));
                    continue;
                };
                if replaces(&value, low, Ordering::Less) {
                    (*low, *low_index) = (value.clone(), index);
                }
                if replaces(&value, high, Ordering::Greater) {
                    (*high, *high_index) = (value, index);
                }
            }
        }
        if kinds.has_bounds {
            statistics.bounds = ends.map(|(low, high)| (cell(low).to_vec(), cell(high).to_vec()));
        }
        statistics
    }
}

/// Returns `true` if a value is beyond a bound, or the bound is NaN and the value is not.
fn replaces(value: &Scalar, bound: &Scalar, side: Ordering) -> bool {
    match value.compare(bound) {
        Some(order) => order == side,
        None => value.compare(value).is_some(),
    }
}

/// The statistics of all tiles of a field in a fragment.
#[derive(Debug)]
pub(super) struct FieldStatistics {
    kinds: StoredKinds,
    field: Field,
    low: Bounds,
    high: Bounds,
    sums: Vec<u64>,
    null_counts: Vec<u64>,
    sum: Sum,
    null_count: u64,
}

/// The smallest or largest value of each tile, and of all tiles.
#[derive(Debug, Default)]
struct Bounds {
    fixed: Vec<u8>,
    variable: Vec<u8>,
    all: Option<Vec<u8>>,
}

impl Bounds {
    fn push(&mut self, field: &Field, value: Option<&[u8]>, side: Ordering) {
        match field.cell_values {
            CellValues::Variable => {
                self.fixed.put_u64(self.variable.len() as u64);
                self.variable.put(value.unwrap_or_default());
            }
            CellValues::Fixed(_) => match value {
                Some(value) => self.fixed.put(value),
                None => self.fixed.resize(self.fixed.len() + field.cell_bytes, 0),
            },
        }
        let Some(value) = value else { return };
        let is_beyond = self.all.as_ref().is_none_or(|all| {
            if StoredKinds::of(field).is_text {
                return value.cmp(all) == side;
            }
            let scalar = |bytes| Scalar::from_bytes(field.datatype, bytes);
            let (value, all) = (scalar(value), scalar(all));
            value
                .zip(all)
                .is_some_and(|(value, all)| replaces(&value, &all, side))
        });
        if is_beyond {
            self.all = Some(value.to_vec());
        }
    }

    /// The stored form of the values of all tiles.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u64(self.fixed.len() as u64);
        bytes.put_u64(self.variable.len() as u64);
        bytes.put(&self.fixed);
        bytes.put(&self.variable);
        bytes
    }
}

impl FieldStatistics {
    /// Returns statistics of no tiles.
    pub fn new(field: &Field) -> Self {
        Self {
            kinds: StoredKinds::of(field),
            field: field.clone(),
            low: Bounds::default(),
            high: Bounds::default(),
            sums: Vec::new(),
            null_counts: Vec::new(),
            sum: Sum::zero(field.datatype.representation()),
            null_count: 0,
        }
    }

    /// Adds a tile.
    pub fn push(&mut self, tile: &TileStatistics) {
        if self.kinds.has_bounds {
            let (low, high) = match &tile.bounds {
                Some((low, high)) => (Some(low.as_slice()), Some(high.as_slice())),
                None => (None, None),
            };
            self.low.push(&self.field, low, Ordering::Less);
            self.high.push(&self.field, high, Ordering::Greater);
        }
        if self.kinds.has_sum {
            self.sums.push(tile.sum.to_bits());
            self.sum.add_sum(tile.sum);
        }
        if self.field.is_nullable {
            self.null_counts.push(tile.null_count);
            self.null_count += tile.null_count;
        }
    }

    /// The payloads of minimums, maximums, sums and null counts.
    pub fn payloads(&self) -> [Vec<u8>; 4] {
        [
            self.low.encode(),
            self.high.encode(),
            list(&self.sums),
            list(&self.null_counts),
        ]
    }

    /// Appends the statistics of the whole fragment.
    pub fn put_all(&self, bytes: &mut Vec<u8>) {
        for bounds in [&self.low, &self.high] {
            // Without values, bounds of fixed size are zeros.
            let none = match self.field.cell_values {
                CellValues::Fixed(_) if self.kinds.has_bounds => vec![0; self.field.cell_bytes],
                _ => Vec::new(),
            };
            let value = bounds.all.as_ref().unwrap_or(&none);
            bytes.put_u64(value.len() as u64);
            bytes.put(value);
        }
        bytes.put_u64(if self.kinds.has_sum {
            self.sum.to_bits()
        } else {
            0
        });
        bytes.put_u64(self.null_count);
    }
}

/// Serialises a list of numbers, one per tile.
pub(super) fn list(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + 8 * numbers.len());
    bytes.put_u64(numbers.len() as u64);
    bytes.put_u64s(numbers);
    bytes
}
