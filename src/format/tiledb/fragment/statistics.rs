//! Statistics of tiles and fragments as they are stored.

use crate::error::Result;
use crate::format::tiledb::bytes::{Fields, u64s};
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::fragment::Fragment;

/// The smallest or largest value of each tile.
///
/// Values are stored as the writer computed them. Writers do not count NaN correctly, count the
/// padding of consolidated dense fragments, and store arbitrary values for tiles without values.
#[derive(Debug, Clone, PartialEq)]
pub struct TileValues {
    fixed: Vec<u8>,
    variable: Vec<u8>,
    value_bytes: Option<usize>,
}

impl TileValues {
    /// Parses the values of tiles. `value_bytes` is the size of one, or `None` for values of variable
    /// length.
    pub(crate) fn parse(payload: &[u8], value_bytes: Option<usize>) -> Decoded<Self> {
        let mut fields = Fields::new(payload);
        let fixed = fields.u64("length of fixed values")?;
        let variable = fields.u64("length of variable values")?;
        let fixed = fields.take_u64("fixed values", fixed)?;
        let variable = fields.take_u64("variable values", variable)?;
        fields.finish("values of tiles")?;
        Ok(Self {
            fixed: fixed.to_vec(),
            variable: variable.to_vec(),
            value_bytes,
        })
    }

    /// Returns the bytes of the value of a tile, if one is stored.
    pub fn get(&self, tile: usize) -> Option<&[u8]> {
        match self.value_bytes {
            Some(bytes) => self
                .fixed
                .get(tile.checked_mul(bytes)?..(tile + 1).checked_mul(bytes)?),
            None => {
                let (starts, _) = self.fixed.as_chunks::<8>();
                let start = u64::from_le_bytes(*starts.get(tile)?) as usize;
                let end = match starts.get(tile + 1) {
                    Some(end) => u64::from_le_bytes(*end) as usize,
                    None => self.variable.len(),
                };
                self.variable.get(start..end)
            }
        }
    }

    /// The number of tiles with a value.
    pub fn tiles(&self) -> usize {
        self.fixed.len() / self.value_bytes.unwrap_or(8).max(1)
    }
}

/// Parses a list of numbers of eight bytes, one per tile.
pub(crate) fn parse_list(payload: &[u8]) -> Decoded<Vec<u64>> {
    let mut fields = Fields::new(payload);
    let count = fields.u64("number of tiles")?;
    let found = fields.remaining() as u64;
    if count.checked_mul(8) != Some(found) {
        let expected = format!("as many as {found} bytes hold");
        return Err(Fault::new("number of tiles", count, expected));
    }
    Ok(u64s(fields.rest()))
}

/// Statistics of one field over a whole fragment, as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldStatistics {
    /// The bytes of the smallest value; empty if there is none.
    pub minimum: Vec<u8>,
    /// The bytes of the largest value; empty if there is none.
    pub maximum: Vec<u8>,
    /// The sum: an `i64` for signed integers and dates, a `u64` for unsigned integers and booleans,
    /// an `f64` for floating-point numbers. Sums of integers saturate at every addition.
    pub sum: [u8; 8],
    /// The number of nulls, which is 0 for texts even if there are some.
    pub null_count: u64,
}

/// Parses the statistics of a fragment: one entry per slot.
pub(crate) fn parse_fragment_statistics(
    payload: &[u8],
    slots: usize,
) -> Decoded<Vec<FieldStatistics>> {
    let mut fields = Fields::new(payload);
    let read = |_| {
        let length = fields.u64("length of a minimum")?;
        let minimum = fields.take_u64("minimum", length)?.to_vec();
        let length = fields.u64("length of a maximum")?;
        Ok(FieldStatistics {
            minimum,
            maximum: fields.take_u64("maximum", length)?.to_vec(),
            sum: fields.array("sum")?,
            null_count: fields.u64("null count")?,
        })
    };
    let statistics = (0..slots).map(read).collect::<Decoded<_>>()?;
    fields.finish("fragment statistics")?;
    Ok(statistics)
}

/// Parses the markers of the deletes that were applied when the fragment was written.
pub(crate) fn parse_processed_deletes(payload: &[u8]) -> Decoded<Vec<String>> {
    let mut fields = Fields::new(payload);
    let count = fields.count_u64("number of processed deletes", 8)?;
    let markers = (0..count).map(|_| fields.text_u64("processed delete"));
    let markers = markers.collect::<Decoded<_>>()?;
    fields.finish("processed deletes")?;
    Ok(markers)
}

impl Fragment {
    /// Returns the stored minimum of each tile of an attribute, or `None` before version 11.
    pub fn minimums(&self, attribute: usize) -> Result<Option<TileValues>> {
        self.tile_values(&self.footer.minimums, "minimums", attribute)
    }

    /// Returns the stored maximum of each tile of an attribute, or `None` before version 11.
    pub fn maximums(&self, attribute: usize) -> Result<Option<TileValues>> {
        self.tile_values(&self.footer.maximums, "maximums", attribute)
    }

    fn tile_values(
        &self,
        offsets: &[u64],
        part: &str,
        attribute: usize,
    ) -> Result<Option<TileValues>> {
        let attributes = &self.schema.attributes;
        let (Some(offset), Some(attribute)) = (offsets.get(attribute), attributes.get(attribute))
        else {
            return Ok(None);
        };
        let parse = |payload: &[u8]| TileValues::parse(payload, attribute.cell_bytes());
        self.generic(*offset, part, parse).map(Some)
    }

    /// Returns the stored sum of each tile of an attribute, as the bits of the type of
    /// [`FieldStatistics::sum`]; empty if none are stored.
    pub fn sums(&self, attribute: usize) -> Result<Vec<u64>> {
        self.list(&self.footer.sums, "sums", attribute)
    }

    /// Returns the stored number of nulls in each tile of an attribute; empty if none are stored.
    pub fn null_counts(&self, attribute: usize) -> Result<Vec<u64>> {
        self.list(&self.footer.null_counts, "null counts", attribute)
    }

    fn list(&self, offsets: &[u64], part: &str, attribute: usize) -> Result<Vec<u64>> {
        match offsets.get(attribute) {
            Some(offset) if attribute < self.schema.attributes.len() => {
                self.generic(*offset, part, parse_list)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the stored statistics of each attribute, or `None` before version 12.
    pub fn statistics(&self) -> Result<Option<Vec<FieldStatistics>>> {
        let Some(offset) = self.footer.fragment_statistics else {
            return Ok(None);
        };
        let slots = self.slots.len();
        let mut all = self.generic(offset, "fragment statistics", |payload| {
            parse_fragment_statistics(payload, slots)
        })?;
        all.truncate(self.schema.attributes.len());
        Ok(Some(all))
    }
}
