//! The R-tree of a fragment as bytes.

use crate::format::tiledb::schema::{Dimension, Interval};
use crate::format::tiledb::writer::bytes::Append;

/// Number of nodes of an R-tree below each node.
const FANOUT: usize = 10;

/// Returns the box around boxes.
pub(crate) fn hull(boxes: &[Vec<Interval>]) -> Vec<Interval> {
    let join = |a: Vec<Interval>, b: Vec<Interval>| {
        let dimensions = a.into_iter().zip(b);
        dimensions.map(|(a, b)| a.hull(b)).collect()
    };
    boxes.iter().cloned().reduce(join).unwrap_or_default()
}

/// Serialises the R-tree of the boxes of data tiles. Without boxes, the tree has no levels.
pub(crate) fn r_tree(dimensions: &[Dimension], leaves: &[Vec<Interval>]) -> Vec<u8> {
    let mut levels = Vec::new();
    if !leaves.is_empty() {
        levels.push(leaves.to_vec());
    }
    while let Some(level) = levels.last().filter(|level| level.len() > 1) {
        levels.push(level.chunks(FANOUT).map(hull).collect());
    }
    let mut bytes = Vec::new();
    bytes.put_u32(FANOUT as u32);
    bytes.put_u32(levels.len() as u32);
    for level in levels.iter().rev() {
        bytes.put_u64(level.len() as u64);
        for (dimension, interval) in level.iter().flat_map(|node| dimensions.iter().zip(node)) {
            bytes.put_interval(dimension, interval);
        }
    }
    bytes
}
