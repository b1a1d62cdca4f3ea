//! R-trees of sparse fragments.

use std::cmp::Ordering;

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Dimension, Interval, Representation, Scalar, Schema};

/// Number of tiles that share a bounding box when tiles are searched.
const TILES_PER_GROUP: usize = 64;
/// Maximum number of levels of an R-tree. Each level has at most half of the nodes of the next.
const MAX_LEVELS: u32 = 64;

/// Coordinates of one dimension, one per data tile.
#[derive(Debug, Clone, PartialEq)]
pub enum Coordinates {
    /// Signed integers, dates and durations.
    Signed(Vec<i64>),
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Floating-point numbers.
    Float(Vec<f64>),
    /// Texts.
    Text(Vec<Vec<u8>>),
}

impl Coordinates {
    fn new(dimension: &Dimension, capacity: usize) -> Self {
        if dimension.cell_values.is_variable() {
            return Self::Text(Vec::with_capacity(capacity));
        }
        match dimension.datatype.representation() {
            Representation::Signed => Self::Signed(Vec::with_capacity(capacity)),
            Representation::Unsigned => Self::Unsigned(Vec::with_capacity(capacity)),
            Representation::Float => Self::Float(Vec::with_capacity(capacity)),
        }
    }

    fn push(&mut self, value: Scalar) {
        match (self, value) {
            (Self::Signed(values), Scalar::Signed(value)) => values.push(value),
            (Self::Unsigned(values), Scalar::Unsigned(value)) => values.push(value),
            (Self::Float(values), Scalar::Float(value)) => values.push(value),
            (Self::Text(values), Scalar::Bytes(value)) => values.push(value),
            // Intervals of a dimension have the representation of the dimension.
            _ => {}
        }
    }

    /// The number of coordinates.
    pub fn len(&self) -> usize {
        match self {
            Self::Signed(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Returns `true` if there are no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one coordinate.
    pub fn get(&self, index: usize) -> Option<Scalar> {
        match self {
            Self::Signed(values) => values.get(index).copied().map(Scalar::Signed),
            Self::Unsigned(values) => values.get(index).copied().map(Scalar::Unsigned),
            Self::Float(values) => values.get(index).copied().map(Scalar::Float),
            Self::Text(values) => values.get(index).cloned().map(Scalar::Bytes),
        }
    }

    /// Returns the smallest or largest coordinate of each group of tiles.
    fn grouped(&self, side: Ordering) -> Self {
        fn reduce<T: PartialOrd + Clone>(values: &[T], side: Ordering) -> Vec<T> {
            let further = |a: T, b: &T| match b.partial_cmp(&a) == Some(side) {
                true => b.clone(),
                false => a,
            };
            let groups = values.chunks(TILES_PER_GROUP);
            groups
                .filter_map(|group| Some(group.iter().fold(group.first()?.clone(), further)))
                .collect()
        }
        match self {
            Self::Signed(values) => Self::Signed(reduce(values, side)),
            Self::Unsigned(values) => Self::Unsigned(reduce(values, side)),
            Self::Float(values) => Self::Float(reduce(values, side)),
            Self::Text(values) => Self::Text(reduce(values, side)),
        }
    }

    /// Returns `true` if the coordinate at `a` is not greater than the coordinate at `b` of `other`.
    fn is_at_most(&self, a: usize, other: &Self, b: usize) -> bool {
        match (self, other) {
            (Self::Signed(low), Self::Signed(high)) => low.get(a) <= high.get(b),
            (Self::Unsigned(low), Self::Unsigned(high)) => low.get(a) <= high.get(b),
            (Self::Float(low), Self::Float(high)) => low.get(a) <= high.get(b),
            (Self::Text(low), Self::Text(high)) => low.get(a) <= high.get(b),
            _ => false,
        }
    }
}

/// The bounding boxes of the data tiles of a sparse fragment: the smallest and largest coordinate of
/// each tile in each dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct TileBounds {
    /// The smallest coordinates, by dimension.
    pub low: Vec<Coordinates>,
    /// The largest coordinates, by dimension.
    pub high: Vec<Coordinates>,
    /// The bounding boxes of groups of neighbouring tiles.
    groups: Option<Box<TileBounds>>,
}

impl TileBounds {
    /// Parses an R-tree and keeps its leaves, of which there must be one per data tile.
    pub(crate) fn parse(payload: &[u8], schema: &Schema, tiles: u64) -> Decoded<Self> {
        let mut fields = Fields::new(payload);
        fields.u32("R-tree fanout")?;
        let levels = fields.u32("R-tree levels")?;
        if levels > MAX_LEVELS {
            return Err(Fault::new(
                "R-tree levels",
                levels,
                format!("at most {MAX_LEVELS}"),
            ));
        }
        let box_bytes = |dimension: &Dimension| match dimension.cell_values.is_variable() {
            true => 16,
            false => 2 * dimension.datatype.size(),
        };
        let box_bytes = schema.dimensions.iter().map(box_bytes).sum();
        let new = |count| {
            let dimensions = schema.dimensions.iter();
            dimensions
                .map(|dimension| Coordinates::new(dimension, count))
                .collect()
        };
        let mut bounds = Self {
            low: new(0),
            high: new(0),
            groups: None,
        };
        let mut leaves = 0;
        for level in 0..levels {
            leaves = fields.count_u64("number of R-tree boxes", box_bytes)?;
            let is_leaf = level + 1 == levels;
            if is_leaf {
                bounds.low = new(leaves);
                bounds.high = new(leaves);
            }
            for _ in 0..leaves {
                for (index, dimension) in schema.dimensions.iter().enumerate() {
                    let Interval { low, high } = dimension.interval("R-tree box", &mut fields)?;
                    if is_leaf {
                        bounds.low[index].push(low);
                        bounds.high[index].push(high);
                    }
                }
            }
        }
        fields.finish("R-tree")?;
        if leaves as u64 != tiles {
            let expected = format!("{tiles}, one per data tile");
            return Err(Fault::new("number of R-tree leaves", leaves, expected));
        }
        if leaves > TILES_PER_GROUP {
            let grouped = |sides: &[Coordinates], side| {
                sides
                    .iter()
                    .map(|coordinates| coordinates.grouped(side))
                    .collect()
            };
            bounds.groups = Some(Box::new(Self {
                low: grouped(&bounds.low, Ordering::Less),
                high: grouped(&bounds.high, Ordering::Greater),
                groups: None,
            }));
        }
        Ok(bounds)
    }

    /// The number of tiles.
    pub fn tiles(&self) -> usize {
        self.low.first().map_or(0, Coordinates::len)
    }

    /// Returns the box of a tile, with an interval per dimension.
    pub(crate) fn of_tile(&self, tile: usize) -> Option<Vec<Interval>> {
        let sides = self.low.iter().zip(&self.high);
        let intervals = sides.map(|(low, high)| {
            Some(Interval {
                low: low.get(tile)?,
                high: high.get(tile)?,
            })
        });
        intervals.collect()
    }

    /// Returns the tiles whose boxes have points in common with the box of a tile of `other`.
    pub fn meeting(&self, other: &Self, other_tile: usize) -> Vec<usize> {
        let tiles = self.tiles();
        let mut meeting = Vec::new();
        for group in 0..tiles.div_ceil(TILES_PER_GROUP) {
            let is_near = self.groups.as_ref();
            if is_near.is_none_or(|groups| groups.meets(group, other, other_tile)) {
                let start = group * TILES_PER_GROUP;
                let group = start..tiles.min(start + TILES_PER_GROUP);
                meeting.extend(group.filter(|tile| self.meets(*tile, other, other_tile)));
            }
        }
        meeting
    }

    /// Returns `true` if the box of a tile has points in common with the box of a tile of `other`.
    pub fn meets(&self, tile: usize, other: &Self, other_tile: usize) -> bool {
        let mine = self.low.iter().zip(&self.high);
        mine.zip(other.low.iter().zip(&other.high))
            .all(|((low, high), (other_low, other_high))| {
                low.is_at_most(tile, other_high, other_tile)
                    && other_low.is_at_most(other_tile, high, tile)
            })
    }
}
