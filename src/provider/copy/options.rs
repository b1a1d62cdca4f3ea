//! The options of `COPY` to an array format.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use datafusion::common::{Result, config_err};

use crate::format::array::Compression;
use crate::provider::adapters::create::CreateArrays;

/// The prefix that DataFusion adds to option names without a dot.
const FORMAT_PREFIX: &str = "format.";
/// The prefix of options that set attributes.
const ATTRIBUTE_PREFIX: &str = "attribute.";
/// The compression levels of zstd.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

/// Options for writing rows as arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// `dims`: the columns that are dimensions, in order. All other columns are values.
    ///
    /// If unset, the dimensions are the keys of `GROUP BY`, columns that are dimensions of their
    /// source array, and columns of text, dates or times. Integer columns are dimensions only if no
    /// column comes from an array dimension.
    pub dims: Option<Vec<String>>,
    /// `chunk`: the extents of a chunk, one per dimension. If unset, the shape is halved along its
    /// longest axis until a chunk has at most 4 MiB.
    pub chunk: Option<Vec<u64>>,
    /// `compression` (or `codec`) and `level`: the compression of chunks. If unset, zstd at level
    /// 3.
    pub compression: Compression,
    /// `dataset`: the name of the dataset, if there is only one. If unset, a dataset has the name
    /// of its column, or, for a column named `value`, the name of the dataset the column was read
    /// from.
    pub dataset: Option<String>,
    /// `axis_order`: the order of coordinates along their axes.
    pub axis_order: AxisOrder,
    /// `fill_value`: the value of missing cells. If unset, the fill value in the column's
    /// attributes, unless it occurs among the values. Otherwise NaN for floating-point columns, and
    /// for integers a value outside the range of the data.
    pub fill_value: Option<String>,
    /// `attribute.NAME` and `attribute.DATASET.NAME`: attributes by name, as spelled in the
    /// statement.
    pub attributes: BTreeMap<String, String>,
    /// The options that only the format has, by name: `zone_maps` embeds zone maps in a `.tet` file,
    /// and `zarr_format` is the version of the format of a Zarr hierarchy.
    pub format_options: BTreeMap<String, String>,
    /// `true` if messages name options as command-line flags, `--dims`.
    pub(in crate::provider) are_flags: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            dims: None,
            chunk: None,
            compression: Compression::ZSTD,
            dataset: None,
            axis_order: AxisOrder::default(),
            fill_value: None,
            attributes: BTreeMap::new(),
            format_options: BTreeMap::new(),
            are_flags: false,
        }
    }
}

/// The order of coordinates along an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AxisOrder {
    /// `source`: the order along the axis of the array that the dimension comes from. Ascending if
    /// there is no such axis, as for computed dimensions and for tables of rows.
    #[default]
    Source,
    /// `sorted`: ascending.
    Sorted,
    /// `appearance`: the order in which coordinates first appear in the rows.
    Appearance,
}

impl CopyOptions {
    /// Returns these options, overridden by the options of a statement. `format` is the name of the
    /// format after `STORED AS`.
    ///
    /// # Errors
    /// Fails if an option does not exist, or if its value is invalid.
    pub(in crate::provider) fn parse(
        self,
        given: &HashMap<String, String>,
        format: &str,
        creator: &dyn CreateArrays,
    ) -> Result<Self> {
        let mut options = self;
        let mut level = None;
        let mut codec = None;
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
                "codec" | "compression" => {
                    let (compression, its_level) = compression(key, value)?;
                    if codec.is_some_and(|other| other != compression) {
                        return config_err!(
                            "options codec and compression differ; give one of them"
                        );
                    }
                    codec = Some(compression);
                    level = level.or(its_level);
                }
                "level" => level = Some(number(value, key, LEVELS)?),
                "dataset" => options.dataset = Some(value.clone()),
                "axis_order" => {
                    options.axis_order = match value.to_ascii_lowercase().as_str() {
                        "source" => AxisOrder::Source,
                        "sorted" => AxisOrder::Sorted,
                        "appearance" => AxisOrder::Appearance,
                        _ => {
                            return config_err!(
                                "option axis_order is {value:?}, expected source, sorted or appearance"
                            );
                        }
                    }
                }
                "fill_value" => options.fill_value = Some(value.clone()),
                name if creator.options().contains(&name) => {
                    options
                        .format_options
                        .insert(name.to_string(), value.clone());
                }
                _ => {
                    let own = creator.options().iter().map(|name| format!("{name}, "));
                    return config_err!(
                        "unknown option {key} of COPY ... STORED AS {}, expected one of dims, chunk, compression (or codec), \
                         level, dataset, axis_order, fill_value, {}attribute.NAME or attribute.DATASET.NAME",
                        format.to_uppercase(),
                        own.collect::<String>()
                    );
                }
            }
        }
        if let Err(message) = creator.check_options(&options.format_options) {
            return config_err!("{message}");
        }
        options.compression = match (codec, level) {
            (None, None) => options.compression,
            (Some(Codec::Raw), None) => Compression::Raw,
            (Some(Codec::Raw), Some(_)) => {
                return config_err!("option level has no effect without zstd compression");
            }
            (Some(Codec::Zstd), None) => Compression::ZSTD,
            (_, Some(level)) => Compression::Zstd { level },
        };
        Ok(options)
    }

    /// Returns an option with a value as you would write it in a statement or on the command line.
    pub(in crate::provider) fn spelled(&self, option: &str, value: &str) -> String {
        match self.are_flags {
            false => format!("OPTIONS ({option} '{value}')"),
            true => format!("--{} {value}", option.replace('_', "-")),
        }
    }

    /// Returns the name of an option, as it begins an error message.
    pub(in crate::provider) fn named(&self, option: &str) -> String {
        match self.are_flags {
            false => format!("option {option}"),
            true => format!("--{}", option.replace('_', "-")),
        }
    }
}

/// The compression codec of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Raw,
    Zstd,
}

/// Parses `zstd`, `zstd(9)`, `raw`, `none` or `uncompressed` into a codec and its level, if given.
fn compression(option: &str, text: &str) -> Result<(Codec, Option<i32>)> {
    let lower = text.trim().to_ascii_lowercase();
    let level = lower
        .strip_prefix("zstd(")
        .and_then(|rest| rest.strip_suffix(')'));
    match lower.as_str() {
        "zstd" => Ok((Codec::Zstd, None)),
        "raw" | "none" | "uncompressed" => Ok((Codec::Raw, None)),
        _ => match level {
            Some(level) => Ok((Codec::Zstd, Some(number(level, option, LEVELS)?))),
            None => config_err!(
                "option {option} is {text:?}, expected zstd, zstd(LEVEL), or raw (also none, uncompressed)"
            ),
        },
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
    use crate::provider::adapters::registry::FormatRegistry;

    fn parse(given: &[(&str, &str)]) -> Result<CopyOptions> {
        let given = given
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        let formats = FormatRegistry::default();
        let creator = formats.formats()[0].creator().unwrap();
        CopyOptions::default().parse(&given.collect(), "tet", creator.as_ref())
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
    fn chunks_are_compressed_unless_told_otherwise() {
        let compression = |given: &[(&str, &str)]| parse(given).map(|options| options.compression);
        assert_eq!(compression(&[]).unwrap(), Compression::ZSTD);
        for name in ["codec", "compression", "format.compression"] {
            for raw in ["raw", "none", "UNCOMPRESSED"] {
                assert_eq!(compression(&[(name, raw)]).unwrap(), Compression::Raw);
            }
            let of_level_9 = Compression::Zstd { level: 9 };
            assert_eq!(compression(&[(name, "zstd(9)")]).unwrap(), of_level_9);
            assert_eq!(
                compression(&[(name, "zstd"), ("level", "9")]).unwrap(),
                of_level_9
            );
            let error = compression(&[(name, "raw"), ("level", "9")]).unwrap_err();
            assert!(error.to_string().contains("level has no effect"), "{error}");
        }
        let both = compression(&[("codec", "raw"), ("compression", "zstd")]);
        assert!(both.unwrap_err().to_string().contains("differ"));
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for (key, value, expected) in [
            ("dimensions", "a", "unknown option dimensions"),
            ("chunk", "10,x", "option chunk has \"x\""),
            ("chunk", "0", "expected a number from 1"),
            ("codec", "lzma", "option codec is \"lzma\", expected zstd"),
            ("compression", "gzip", "option compression is \"gzip\""),
            ("compression", "zstd(40)", "expected a number from 1 to 22"),
            ("zone_maps", "maybe", "expected true or false"),
            ("axis_order", "up", "expected source, sorted or appearance"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
