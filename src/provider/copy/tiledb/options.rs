//! The options of a `COPY` to a TileDB array.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use datafusion::common::{Result, config_err};

use crate::format::tiledb::{Filter, Layout, Pipeline};

/// The prefix that DataFusion adds to options without one.
const FORMAT_PREFIX: &str = "format.";
/// The prefix of options with the filters of one column.
const FILTERS_PREFIX: &str = "filters.";
/// The names of the options.
const NAMES: &str =
    "dims, sparse, duplicates, tile, capacity, cell_order, filters, filters.COLUMN or timestamp";
/// Default number of cells in a data tile of a sparse array, as in other writers.
const DEFAULT_CAPACITY: u64 = 10_000;

/// The options: the dimensions, and the layout of the array.
#[derive(Debug, Clone)]
pub(super) struct TileDbCopyOptions {
    /// The columns that are dimensions, in order.
    pub dims: Option<Vec<String>>,
    pub is_sparse: bool,
    pub allows_duplicates: bool,
    /// The extents of space tiles, one per dimension.
    pub tile: Option<Vec<String>>,
    pub capacity: u64,
    pub cell_order: Layout,
    /// The filters of all columns without their own.
    pub filters: Option<Pipeline>,
    /// The filters of columns by name.
    pub column_filters: BTreeMap<String, Pipeline>,
    /// The timestamp of the array and its fragment, in milliseconds since 1970.
    pub timestamp: Option<u64>,
}

impl Default for TileDbCopyOptions {
    fn default() -> Self {
        Self {
            dims: None,
            is_sparse: false,
            allows_duplicates: false,
            tile: None,
            capacity: DEFAULT_CAPACITY,
            cell_order: Layout::RowMajor,
            filters: None,
            column_filters: BTreeMap::new(),
            timestamp: None,
        }
    }
}

impl TileDbCopyOptions {
    /// Reads `OPTIONS (dims 'x, y', sparse 'true', ...)`.
    pub fn parse(given: &HashMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        let mut given: Vec<_> = given.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
            let list = || {
                value
                    .split(',')
                    .map(|part| part.trim().to_string())
                    .collect()
            };
            let flag = || match value.trim().to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => config_err!("option {key} is {value:?}, expected true or false"),
            };
            let number = || match value.trim().parse::<u64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => config_err!("option {key} is {value:?}, expected a number from 1"),
            };
            let filters = || match Pipeline::from_str(value) {
                Ok(filters) => check_levels(key, filters),
                Err(fault) => config_err!("option {key}: {fault}"),
            };
            let lower = key.to_ascii_lowercase();
            match lower.as_str() {
                "dims" => options.dims = Some(list()),
                "sparse" => options.is_sparse = flag()?,
                "duplicates" => options.allows_duplicates = flag()?,
                "tile" => options.tile = Some(list()),
                "capacity" => options.capacity = number()?,
                "cell_order" => {
                    options.cell_order = match value.trim().to_ascii_lowercase().as_str() {
                        "row-major" => Layout::RowMajor,
                        "col-major" | "column-major" => Layout::ColumnMajor,
                        "hilbert" => Layout::Hilbert,
                        _ => {
                            return config_err!(
                                "option {key} is {value:?}, expected row-major, col-major or hilbert"
                            );
                        }
                    }
                }
                "filters" => options.filters = Some(filters()?),
                "timestamp" => options.timestamp = Some(number()?),
                _ if lower.starts_with(FILTERS_PREFIX) => {
                    let column = key[FILTERS_PREFIX.len()..].to_string();
                    options.column_filters.insert(column, filters()?);
                }
                _ => {
                    return config_err!(
                        "unknown option {key} of COPY ... STORED AS TILEDB, expected one of {NAMES}"
                    );
                }
            }
        }
        if options.allows_duplicates && !options.is_sparse {
            return config_err!(
                "option duplicates requires a sparse array: OPTIONS (sparse 'true')"
            );
        }
        if options.cell_order == Layout::Hilbert && !options.is_sparse {
            return config_err!(
                "option cell_order is \"hilbert\", which requires a sparse array: OPTIONS (sparse 'true')"
            );
        }
        Ok(options)
    }
}

/// Checks the compression levels of filters. The level -1 is the compressor's default.
fn check_levels(key: &str, pipeline: Pipeline) -> Result<Pipeline> {
    for filter in pipeline.filters() {
        let (name, level, levels, range) = match filter {
            Filter::Gzip { level } => ("gzip", *level, -1..=9, "from -1 (the default) to 9"),
            Filter::Zstd { level } => ("zstd", *level, -7..=22, "from -7 to 22"),
            Filter::Bzip2 { level: -1 } => continue,
            Filter::Bzip2 { level } => {
                let range = "from 1 to 9, or -1 (the default)";
                ("bzip2", *level, 1..=9, range)
            }
            _ => continue,
        };
        if !levels.contains(&level) {
            return config_err!(
                "option {key}: the level of {name} is {level}, expected a number {range}"
            );
        }
    }
    Ok(pipeline)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[(&str, &str)]) -> Result<TileDbCopyOptions> {
        let given = given
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        TileDbCopyOptions::parse(&given.collect())
    }

    #[test]
    fn options_are_read() {
        let options = parse(&[
            ("format.dims", "x, y"),
            ("format.sparse", "TRUE"),
            ("format.duplicates", "true"),
            ("format.tile", "10, 2.5"),
            ("format.capacity", "7"),
            ("format.cell_order", "hilbert"),
            ("format.filters", "byteshuffle, zstd(5)"),
            ("filters.Name", "rle"),
            ("format.timestamp", "12"),
        ])
        .unwrap();
        assert_eq!(options.dims.unwrap(), ["x", "y"]);
        assert_eq!(options.tile.unwrap(), ["10", "2.5"]);
        assert!(options.is_sparse && options.allows_duplicates);
        assert_eq!((options.capacity, options.timestamp), (7, Some(12)));
        assert_eq!(options.cell_order, Layout::Hilbert);
        let filters = options.filters.unwrap().to_string();
        assert_eq!(filters, "byteshuffle, zstd(level=5)");
        assert_eq!(options.column_filters["Name"].to_string(), "rle");
    }

    #[test]
    fn levels_of_the_compressors_are_accepted() {
        for filters in [
            "gzip",
            "gzip(-1)",
            "gzip(0)",
            "gzip(9)",
            "zstd(-7)",
            "zstd(22)",
            "bzip2(-1)",
            "bzip2(1)",
            "bzip2(9)",
            "lz4(12)",
        ] {
            assert!(parse(&[("filters", filters)]).is_ok(), "{filters}");
        }
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for (key, value, expected) in [
            ("chunk", "10", "unknown option chunk"),
            ("sparse", "maybe", "expected true or false"),
            ("capacity", "0", "expected a number from 1"),
            (
                "cell_order",
                "z",
                "expected row-major, col-major or hilbert",
            ),
            ("filters", "zip", "filter is \"zip\""),
            (
                "filters",
                "zstd(999)",
                "option filters: the level of zstd is 999, expected a number from -7 to 22",
            ),
            ("filters", "zstd(-8)", "from -7 to 22"),
            (
                "filters.a",
                "rle, gzip(99)",
                "option filters.a: the level of gzip is 99",
            ),
            ("filters", "gzip(-2)", "from -1 (the default) to 9"),
            ("filters", "bzip2(0)", "from 1 to 9, or -1 (the default)"),
            ("filters", "bzip2(10)", "the level of bzip2 is 10"),
            ("duplicates", "true", "requires a sparse array"),
            ("cell_order", "hilbert", "requires a sparse array"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
