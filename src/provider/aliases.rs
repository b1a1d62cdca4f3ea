//! Other endings of files that the engine knows by one.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result};
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};

/// What files with a JSON object per line end in, beside `.json`.
const LINES_OF_JSON: [&str; 2] = ["ndjson", "jsonl"];

/// A format under another ending.
#[derive(Debug)]
struct Alias {
    extension: &'static str,
    format: Arc<dyn FileFormatFactory>,
}

/// A factory for each other ending.
pub(super) fn all() -> Vec<Arc<dyn FileFormatFactory>> {
    let alias = |extension| -> Arc<dyn FileFormatFactory> {
        Arc::new(Alias {
            extension,
            format: Arc::new(JsonFormatFactory::new()),
        })
    };
    LINES_OF_JSON.map(alias).to_vec()
}

impl GetExt for Alias {
    fn get_ext(&self) -> String {
        self.extension.to_string()
    }
}

impl FileFormatFactory for Alias {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        self.format.create(state, format_options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        self.format.default()
    }
}
