//! The options of COPY.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use datafusion::common::{Result, config_err};

use crate::format::array::Compression;
use crate::provider::file_kind::FileKind;

/// What the engine puts before options that have no dot.
const FORMAT_PREFIX: &str = "format.";
/// The prefix of options that are attributes.
const ATTRIBUTE_PREFIX: &str = "attribute.";
/// The range of zstd's levels.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

/// How rows become an array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// `dims`: the columns that are dimensions, in their order; the others are values. Unset: those that are dimensions
    /// where they come from, texts, dates and times, and, if none comes from an array, integers.
    pub dims: Option<Vec<String>>,
    /// `chunk`: extents of the chunks, one per dimension. Unset: halves of the shape, down to 4 MiB.
    pub chunk: Option<Vec<u64>>,
    /// `codec` and `level`: how chunks are stored.
    pub compression: Compression,
    /// `dataset`: the name of the only dataset. Unset: the column's, or, if that is `value`, that of the dataset it comes
    /// from.
    pub dataset: Option<String>,
    /// `axis_order`: the order of coordinates along their axes.
    pub axis_order: AxisOrder,
    /// `fill_value`: the value of missing cells. Unset: the attribute `_FillValue` of the column, else NaN, or an integer
    /// outside the range of the data.
    pub fill_value: Option<String>,
    /// `attribute.NAME` and `attribute.DATASET.NAME`: attributes, by name as given.
    pub attributes: BTreeMap<String, String>,
    /// `zone_maps`: whether the file embeds zone maps, which make its footer one of version 2.
    pub zone_maps: bool,
    /// `zarr_format 2`: whether a Zarr hierarchy is one of version 2.
    pub is_zarr_2: bool,
}

/// The order of coordinates along an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AxisOrder {
    /// `sorted`: ascending.
    #[default]
    Sorted,
    /// `appearance`: as they first appear in the rows.
    Appearance,
}

impl CopyOptions {
    /// The options of a statement.
    ///
    /// # Errors
    /// If there is no such option, or its value is none.
    pub(in crate::provider) fn parse(
        given: &HashMap<String, String>,
        kind: FileKind,
    ) -> Result<Self> {
        let mut options = Self::default();
        let mut level = None;
        let mut given: Vec<_> = given.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
            if let Some(name) = strip_prefix_ignoring_case(key, ATTRIBUTE_PREFIX) {
                options.attributes.insert(name.to_string(), value.clone());
                continue;
            }
            match key.to_ascii_lowercase().as_str() {
                "dims" => options.dims = Some(list(value)),
                "chunk" => options.chunk = Some(extents(value)?),
                "codec" => {
                    options.compression = match value.to_ascii_lowercase().as_str() {
                        "raw" => Compression::Raw,
                        "zstd" => Compression::ZSTD,
                        _ => return config_err!("option codec is {value:?}, expected raw or zstd"),
                    }
                }
                "level" => level = Some(number(value, "level", LEVELS)?),
                "dataset" => options.dataset = Some(value.clone()),
                "axis_order" => {
                    options.axis_order = match value.to_ascii_lowercase().as_str() {
                        "sorted" => AxisOrder::Sorted,
                        "appearance" => AxisOrder::Appearance,
                        _ => {
                            return config_err!(
                                "option axis_order is {value:?}, expected sorted or appearance"
                            );
                        }
                    }
                }
                "fill_value" => options.fill_value = Some(value.clone()),
                #[cfg(feature = "zarr")]
                "zarr_format" if kind == FileKind::Zarr => {
                    options.is_zarr_2 = match value.trim() {
                        "2" => true,
                        "3" => false,
                        _ => {
                            return config_err!("option zarr_format is {value:?}, expected 2 or 3");
                        }
                    }
                }
                "zone_maps" if kind == FileKind::Tet => {
                    options.zone_maps = match value.to_ascii_lowercase().as_str() {
                        "true" => true,
                        "false" => false,
                        _ => {
                            return config_err!(
                                "option zone_maps is {value:?}, expected true or false"
                            );
                        }
                    }
                }
                _ => {
                    let own = match kind {
                        FileKind::Tet => "zone_maps",
                        _ => "zarr_format",
                    };
                    return config_err!(
                        "there is no option {key} of COPY ... STORED AS {}; there are dims, chunk, codec, level, dataset, \
                         axis_order, fill_value, {own}, attribute.NAME and attribute.DATASET.NAME",
                        kind.stored_as()
                    );
                }
            }
        }
        match (level, &mut options.compression) {
            (None, _) => {}
            (Some(given), Compression::Zstd { level }) => *level = given,
            (Some(_), Compression::Raw) => {
                return config_err!("option level means nothing without codec 'zstd'");
            }
        }
        Ok(options)
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

fn list(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_string)
        .collect()
}

fn extents(text: &str) -> Result<Vec<u64>> {
    list(text)
        .iter()
        .map(|part| number(part, "chunk", 1..=u64::MAX))
        .collect()
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    option: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T> {
    match text.trim().parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => config_err!(
            "option {option} has {text:?}, expected a number from {} to {}",
            range.start(),
            range.end()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[(&str, &str)]) -> Result<CopyOptions> {
        let given = given
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        CopyOptions::parse(&given.collect(), FileKind::Tet)
    }

    #[test]
    fn options_are_read() {
        let options = parse(&[
            ("format.dims", "time, lat"),
            ("format.CHUNK", "10,20"),
            ("format.codec", "zstd"),
            ("format.level", "9"),
            ("attribute.units", "K"),
            ("format.attribute.t.long_name", "T"),
        ])
        .unwrap();
        assert_eq!(options.dims.unwrap(), ["time", "lat"]);
        assert_eq!(options.chunk.unwrap(), [10, 20]);
        assert_eq!(options.compression, Compression::Zstd { level: 9 });
        let attributes: Vec<_> = options.attributes.into_iter().collect();
        let expected = [("t.long_name", "T"), ("units", "K")];
        let expected = expected.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(attributes, expected);
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for (key, value, expected) in [
            ("dimensions", "a", "there is no option dimensions"),
            ("chunk", "10,x", "option chunk has \"x\""),
            ("chunk", "0", "expected a number from 1"),
            ("codec", "lzma", "expected raw or zstd"),
            ("level", "3", "without codec 'zstd'"),
            ("zone_maps", "maybe", "expected true or false"),
            ("axis_order", "up", "expected sorted or appearance"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
