//! The tiles that reading a block of a sparse array takes.

use std::sync::Arc;

use crate::error::Result;
use crate::format::tiledb::array::TileDbArray;
use crate::format::tiledb::fetch::{FieldTile, NeededTiles};
use crate::format::tiledb::fragment::FieldKind;
use crate::format::tiledb::sparse::checks::{Checks, fragment_of};

/// Returns the tiles that finding the cells of a tile that count takes, besides tiles that are listed in
/// `needed` already.
///
/// # Errors
/// Fails if bounding boxes or deletes cannot be read.
pub(crate) fn needed_tiles(
    array: &TileDbArray,
    (fragment, tile): (usize, u64),
    mut needed: NeededTiles,
) -> Result<NeededTiles> {
    let Some(checks) = Checks::of(array, fragment)? else {
        return Ok(needed);
    };
    let this = checks.fragment;
    let rivals = checks.rivals(array, tile)?;
    // Blocks nearby are compared with the same tiles.
    let own = rivals.is_some().then_some((fragment, tile));
    for (fragment, tile) in own.into_iter().chain(rivals.into_iter().flatten()) {
        let dimensions = (0..array.schema().dimensions.len()).map(FieldKind::Dimension);
        let rival = fragment_of(array, fragment)?;
        let timestamps = rival.has_timestamps().then_some(FieldKind::Timestamps);
        for kind in dimensions.chain(timestamps) {
            needed.shared.push(FieldTile {
                fragment,
                field: Arc::new(rival.field(kind)?),
                tile,
            });
        }
    }
    let mut fields = Vec::new();
    if checks.is_partial || this.has_timestamps() && !checks.deletes.is_empty() {
        fields.push(this.field(FieldKind::Timestamps)?);
    }
    if this.has_deletes() {
        fields.push(this.field(FieldKind::DeleteTimes)?);
    }
    for delete in &checks.deletes {
        let mut names = Vec::new();
        let condition = &delete.condition;
        condition.for_each_field(&mut |name| names.push(name.to_string()));
        for name in names {
            fields.extend(this.field_named(&name)?);
        }
    }
    for field in fields {
        let mut own = needed.own.iter();
        if !own.any(|other| other.field.slot == field.slot) {
            needed.own.push(FieldTile {
                fragment,
                field: Arc::new(field),
                tile,
            });
        }
    }
    Ok(needed)
}
