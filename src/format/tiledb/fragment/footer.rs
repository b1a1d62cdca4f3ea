//! Footers of fragment metadata.

use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Interval, Schema, check_version};

/// The footer of the metadata of a fragment.
///
/// Lists have one entry per slot: the attributes, one slot without a field, the dimensions, and the
/// timestamps and deletes of cells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Footer {
    /// The format version of the fragment.
    pub version: u32,
    /// One interval per dimension, unless the fragment has no cells.
    pub domain: Option<Vec<Interval>>,
    /// The number of data tiles of a sparse fragment.
    pub sparse_tiles: u64,
    /// The number of cells in the last data tile of a sparse fragment.
    pub last_tile_cells: u64,
    pub has_timestamps: bool,
    pub has_deletes: bool,
    /// The size of each data file.
    pub file_sizes: Vec<u64>,
    pub variable_file_sizes: Vec<u64>,
    pub validity_file_sizes: Vec<u64>,
    /// Positions of generic tiles in the metadata file.
    pub r_tree: u64,
    pub tile_offsets: Vec<u64>,
    pub variable_tile_offsets: Vec<u64>,
    pub variable_tile_sizes: Vec<u64>,
    pub validity_tile_offsets: Vec<u64>,
    pub minimums: Vec<u64>,
    pub maximums: Vec<u64>,
    pub sums: Vec<u64>,
    pub null_counts: Vec<u64>,
    /// The position of statistics of the whole fragment, since version 12.
    pub fragment_statistics: Option<u64>,
    /// The position of the deletes that are applied already, since version 16.
    pub processed_deletes: Option<u64>,
}

/// The first fields of a footer, which name the schema that is needed to parse the rest.
pub(crate) fn schema_name(bytes: &[u8]) -> Decoded<String> {
    let mut fields = Fields::new(bytes);
    check_version("fragment version", fields.u32("fragment version")?)?;
    fields.text_u64("schema name")
}

impl Footer {
    /// Parses a footer, given the schema that it names.
    pub fn parse(bytes: &[u8], schema: &Schema) -> Decoded<Self> {
        let mut fields = Fields::new(bytes);
        let version = check_version("fragment version", fields.u32("fragment version")?)?;
        fields.text_u64("schema name")?;
        let is_dense = fields.flag("dense")?;
        if is_dense == schema.is_sparse {
            let expected = format!("{}, as in the schema", !schema.is_sparse);
            return Err(Fault::new("dense", is_dense, expected));
        }
        let mut footer = Self {
            version,
            ..Self::default()
        };
        if !fields.flag("null domain")? {
            let dimensions = schema.dimensions.iter();
            let intervals =
                dimensions.map(|dimension| dimension.interval("non-empty domain", &mut fields));
            footer.domain = Some(intervals.collect::<Decoded<_>>()?);
        }
        footer.sparse_tiles = fields.u64("number of sparse tiles")?;
        footer.last_tile_cells = fields.u64("cells in the last tile")?;
        if version >= 14 {
            footer.has_timestamps = fields.flag("has timestamps")?;
        }
        if version >= 15 {
            footer.has_deletes = fields.flag("has delete metadata")?;
        }
        let slots = 1 + schema.attributes.len() + schema.dimensions.len();
        let slots =
            slots + usize::from(footer.has_timestamps) + 2 * usize::from(footer.has_deletes);
        let slots = slots as u64;
        footer.file_sizes = fields.u64s("file sizes", slots)?;
        footer.variable_file_sizes = fields.u64s("variable file sizes", slots)?;
        footer.validity_file_sizes = fields.u64s("validity file sizes", slots)?;
        footer.r_tree = fields.u64("R-tree offset")?;
        footer.tile_offsets = fields.u64s("offsets of tile offsets", slots)?;
        footer.variable_tile_offsets = fields.u64s("offsets of variable tile offsets", slots)?;
        footer.variable_tile_sizes = fields.u64s("offsets of variable tile sizes", slots)?;
        footer.validity_tile_offsets = fields.u64s("offsets of validity tile offsets", slots)?;
        if version >= 11 {
            footer.minimums = fields.u64s("offsets of minimums", slots)?;
            footer.maximums = fields.u64s("offsets of maximums", slots)?;
            footer.sums = fields.u64s("offsets of sums", slots)?;
            footer.null_counts = fields.u64s("offsets of null counts", slots)?;
        }
        if version >= 12 {
            footer.fragment_statistics = Some(fields.u64("offset of fragment statistics")?);
        }
        if version >= 16 {
            footer.processed_deletes = Some(fields.u64("offset of processed deletes")?);
        }
        if version >= 23 {
            for _ in 0..fields.count("number of footer sections", 12)? {
                fields.u64("footer section id")?;
                let length = fields.u32("footer section length")?;
                fields.take_u64("footer section", u64::from(length))?;
            }
        }
        fields.finish("footer")?;
        if schema.is_sparse && footer.sparse_tiles > 0 {
            let cells = footer.last_tile_cells;
            if cells == 0 || cells > schema.capacity {
                let expected = format!("1 to {}", schema.capacity);
                return Err(Fault::new("cells in the last tile", cells, expected));
            }
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tiledb::schema::tests::schema_bytes;

    /// Writes the footer of a sparse fragment with one dimension and one attribute.
    fn footer_bytes(version: u32) -> Vec<u8> {
        let slots = 3 + if version >= 14 { 1 } else { 0 };
        let mut bytes = version.to_le_bytes().to_vec();
        bytes.extend(4u64.to_le_bytes());
        bytes.extend(b"name");
        bytes.extend([0, 0]);
        bytes.extend([2i32.to_le_bytes(), 7i32.to_le_bytes()].concat());
        bytes.extend([5u64.to_le_bytes(), 3u64.to_le_bytes()].concat());
        if version >= 14 {
            bytes.push(1);
        }
        if version >= 15 {
            bytes.push(0);
        }
        let mut numbers = 3 * slots + 1 + 4 * slots;
        numbers += if version >= 11 { 4 * slots } else { 0 };
        numbers += u64::from(version >= 12) + u64::from(version >= 16);
        for number in 0..numbers {
            bytes.extend((1000 + number).to_le_bytes());
        }
        if version >= 23 {
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(9u64.to_le_bytes());
            bytes.extend(3u32.to_le_bytes());
            bytes.extend(b"abc");
        }
        bytes
    }

    #[test]
    fn footers_of_all_versions() {
        let schema = Schema::parse(&schema_bytes(22)).unwrap();
        for version in 10..=23 {
            let bytes = footer_bytes(version);
            assert_eq!(schema_name(&bytes).unwrap(), "name");
            let footer = Footer::parse(&bytes, &schema).unwrap();
            let slots = if version >= 14 { 4 } else { 3 };
            assert_eq!((footer.sparse_tiles, footer.last_tile_cells), (5, 3));
            assert_eq!(footer.r_tree, 1000 + 3 * slots);
            assert_eq!(footer.tile_offsets[0], 1001 + 3 * slots);
            assert_eq!(
                footer.minimums.len() as u64,
                if version >= 11 { slots } else { 0 }
            );
            let last = 1001 + 11 * slots;
            assert_eq!(footer.fragment_statistics, (version >= 12).then_some(last));
            assert_eq!(
                footer.processed_deletes,
                (version >= 16).then_some(last + 1)
            );
            for end in 0..bytes.len() {
                Footer::parse(&bytes[..end], &schema).unwrap_err();
            }
        }
        for version in [9u32, 24] {
            schema_name(&version.to_le_bytes()).unwrap_err();
        }
    }
}
