//! The options of a `COPY` to documents.

use std::collections::HashMap;

use datafusion::common::{Result, config_err};

use crate::format::array::Compression;
use crate::format::tatami::WriterOptions;

/// The prefix that DataFusion adds to options without one.
const FORMAT_PREFIX: &str = "format.";
/// The maximum size of a row group in bytes, without blobs. It bounds memory, because a row group is
/// written when it is complete.
const MAX_GROUP_BYTES: u64 = 64 << 20;
/// The maximum number of rows of a page: as many as a batch has, so that a page is not decoded twice.
const PAGE_ROWS: usize = 8192;
/// The maximum size of a blob run. A lookup of one document decompresses its run.
const BLOB_RUN_BYTES: usize = 128 << 10;
/// The names of the options.
const NAMES: &str = "blob, blob_run_bytes, bloom, compression, dictionary, level, page_rows, row_group_rows, search or sort_key";

/// The options: the columns that are sorted, indexed or stored apart, and the layout of the file.
#[derive(Debug, Clone)]
pub(super) struct DocumentOptions {
    /// The column by which the rows are sorted.
    pub sort_key: Option<String>,
    /// The columns with Bloom filters.
    pub bloom: Vec<String>,
    /// The columns that are stored as blobs, apart from the pages.
    pub blob: Vec<String>,
    /// The columns whose words are indexed for search.
    pub search: Vec<String>,
    pub writer: WriterOptions,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        Self {
            sort_key: None,
            bloom: Vec::new(),
            blob: Vec::new(),
            search: Vec::new(),
            writer: WriterOptions {
                row_group_bytes: MAX_GROUP_BYTES,
                page_rows: PAGE_ROWS,
                blob_run_bytes: BLOB_RUN_BYTES,
                ..WriterOptions::default()
            },
        }
    }
}

impl DocumentOptions {
    /// Reads `OPTIONS (sort_key 'url', bloom 'url, host', ...)`.
    pub fn parse(given: &HashMap<String, String>) -> Result<Self> {
        let mut options = Self::default();
        let mut given: Vec<_> = given.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.strip_prefix(FORMAT_PREFIX).unwrap_or(key);
            let names = || value.split(',').map(|name| name.trim().to_string());
            let number = || match value.trim().parse::<usize>() {
                Ok(number) if number > 0 => Ok(number),
                _ => config_err!("option {key} is {value:?}, expected a number from 1"),
            };
            match key.to_ascii_lowercase().as_str() {
                "sort_key" => options.sort_key = Some(value.trim().to_string()),
                "bloom" => options.bloom = names().collect(),
                "blob" => options.blob = names().collect(),
                "search" => options.search = names().collect(),
                "compression" | "codec" => {
                    options.writer.compression = match value.trim().to_ascii_lowercase().as_str() {
                        "zstd" => Compression::ZSTD,
                        "none" | "raw" | "uncompressed" => Compression::Raw,
                        _ => {
                            return config_err!("option {key} is {value:?}, expected zstd or none");
                        }
                    }
                }
                "level" => {
                    options.writer.compression = Compression::Zstd {
                        level: number()?.min(i32::MAX as usize) as i32,
                    }
                }
                "blob_run_bytes" => options.writer.blob_run_bytes = number()?,
                "page_rows" => options.writer.page_rows = number()?,
                "row_group_rows" => options.writer.row_group_rows = number()?,
                "dictionary" => {
                    options.writer.has_blob_dictionary = match value.to_ascii_lowercase().as_str() {
                        "true" => true,
                        "false" => false,
                        _ => {
                            return config_err!(
                                "option {key} is {value:?}, expected true or false"
                            );
                        }
                    }
                }
                _ => return config_err!("unknown option {key}, expected one of {NAMES}"),
            }
        }
        Ok(options)
    }
}
