//! A `.tatami` file as a table.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::error::Error;
use crate::format::tatami::search::Segment;
use crate::format::tatami::{ColumnType, TatamiFile};
use crate::provider::adapters::tatami::blocks::DocumentBlocks;
use crate::provider::adapters::tatami::rows::RowReader;
use crate::provider::adapters::tatami::search;
use crate::provider::adapters::tatami::values;
use crate::provider::catalog::description::{AttributeDescription, TableDescription};
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{BlockList, BlockSource, ColumnKind, SelectedBlocks};

/// The bytes of the blobs of a batch, about.
const MAX_BLOB_BATCH_BYTES: u64 = 8 << 20;

/// The table of a `.tatami` file: one row per document.
#[derive(Debug)]
pub(super) struct DocumentTable {
    file: Arc<TatamiFile>,
    name: String,
    schema: SchemaRef,
    /// For each column of the table, its index in the file.
    columns: Arc<[usize]>,
    text: TextOptions,
    options: ArrayOptions,
    /// One message for each column of the file that the table leaves out.
    warnings: Vec<String>,
    segment: OnceLock<Option<Segment>>,
}

/// The SQL type of a column of byte strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BytesAs {
    Binary,
    /// Text. Bytes that are not valid UTF-8 are an error.
    Text,
    /// Text. Bytes that are not valid UTF-8 become replacement characters.
    LossyText,
}

/// The options `text`, for string columns, and `blobs`, for blob columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextOptions {
    strings: BytesAs,
    blobs: BytesAs,
}

impl TextOptions {
    /// The names of the options.
    pub const NAMES: [&str; 2] = ["text", "blobs"];

    pub fn parse(path: &Path, options: &BTreeMap<String, String>) -> Result<Self, Error> {
        let [strings, blobs] =
            Self::NAMES.map(|name| match options.get(name).map(String::as_str) {
                None if name == "text" => Ok(BytesAs::Text),
                None => Ok(BytesAs::Binary),
                Some("strict") => Ok(BytesAs::Text),
                Some("lossy") => Ok(BytesAs::LossyText),
                Some("binary") => Ok(BytesAs::Binary),
                Some(other) => Err(Error::invalid(
                    path,
                    format!("option {name} is '{other}', expected strict, lossy or binary"),
                )),
            });
        Ok(Self {
            strings: strings?,
            blobs: blobs?,
        })
    }

    /// Returns the SQL type of the byte strings of a column type.
    pub fn of(&self, column_type: ColumnType) -> BytesAs {
        match column_type {
            ColumnType::String => self.strings,
            ColumnType::BlobRef => self.blobs,
            _ => BytesAs::Binary,
        }
    }
}

impl DocumentTable {
    /// Creates the table of an open file.
    pub fn try_new(
        file: Arc<TatamiFile>,
        name: String,
        options: &ArrayOptions,
    ) -> Result<Self, Error> {
        let text = TextOptions::parse(file.path(), &options.format_options)?;
        let (mut fields, mut columns, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for (column, stored) in file.schema().fields.iter().enumerate() {
            let Some(data_type) = values::data_type(stored.column_type, &text) else {
                warnings.push(format!(
                    "{}: the column {:?} is left out: the format defines no layout for {}",
                    file.path().display(),
                    stored.name,
                    stored.column_type
                ));
                continue;
            };
            fields.push(Field::new(&stored.name, data_type, stored.is_nullable()));
            columns.push(column);
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            columns: columns.into(),
            options: options.clone(),
            file,
            name,
            text,
            warnings,
            segment: OnceLock::new(),
        })
    }

    /// Downcasts a source. Returns `None` if it is not the table of a `.tatami` file.
    pub fn of_source(source: Arc<dyn BlockSource>) -> Option<Arc<Self>> {
        let source: Arc<dyn Any + Send + Sync> = source;
        source.downcast().ok()
    }

    pub fn file(&self) -> &Arc<TatamiFile> {
        &self.file
    }

    /// Returns the search segment, if the file has one. It is opened on first use.
    pub fn segment(&self) -> Result<Option<&Segment>, Error> {
        if let Some(segment) = self.segment.get() {
            return Ok(segment.as_ref());
        }
        let segment = Segment::open(&self.file)?;
        Ok(self.segment.get_or_init(|| segment).as_ref())
    }

    /// Returns the index in the file of a column, given its index in the table.
    pub fn stored_column(&self, column: usize) -> Result<usize> {
        match self.columns.get(column) {
            Some(stored) => Ok(*stored),
            None => internal_err!("the table {} has no column {column}", self.name),
        }
    }

    /// Returns the number of rows of which the blobs of these columns take about
    /// [`MAX_BLOB_BATCH_BYTES`], judged by the average size of the blobs.
    pub fn blob_batch_rows(&self, columns: &[usize]) -> usize {
        let stored = columns
            .iter()
            .filter_map(|column| self.columns.get(*column));
        blob_batch_rows(&self.file, stored.copied())
    }

    /// Creates a reader of single documents.
    pub fn row_reader(&self) -> RowReader {
        RowReader::new(&self.file, self.text)
    }

    /// Returns `true` if values of a column are texts that may differ from the stored bytes.
    pub fn is_lossy(&self, column: usize) -> Result<bool> {
        let column_type = self.file.column_type(self.stored_column(column)?)?;
        Ok(self.text.of(column_type) == BytesAs::LossyText)
    }

    /// Cuts the file into blocks for a scan of these columns, given by their indices in the file.
    fn blocks(&self, read: &[usize]) -> DocumentBlocks {
        DocumentBlocks::new(
            Arc::clone(&self.file),
            Arc::clone(&self.schema),
            Arc::clone(&self.columns),
            self.text,
            read,
        )
    }

    /// The number of blocks for a scan of all columns.
    pub fn chunks(&self) -> Option<u64> {
        self.blocks(&self.columns).total()
    }

    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns the name of the table of a file: the file name without its extension.
pub(super) fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Returns the number of rows of which the blobs of these columns of the file take about
/// [`MAX_BLOB_BATCH_BYTES`].
pub(super) fn blob_batch_rows(file: &TatamiFile, columns: impl Iterator<Item = usize>) -> usize {
    let rows = columns.filter_map(|column| {
        let (average, _) = file.blob_totals(column)?.average();
        usize::try_from(MAX_BLOB_BATCH_BYTES / average.max(1)).ok()
    });
    rows.min().map_or(usize::MAX, |rows| rows.max(1))
}

impl BlockSource for DocumentTable {
    fn format(&self) -> &'static str {
        "tatami"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn location(&self) -> Option<&str> {
        self.file.path().to_str()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        // The page index has bounds of the sort key for each page.
        let stored = self.columns.get(column).copied();
        match stored.is_some() && stored == self.file.schema().sort_key() {
            true => ColumnKind::Located,
            false => ColumnKind::Stored,
        }
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        _options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        let stored = columns
            .iter()
            .filter_map(|column| self.columns.get(*column));
        let blocks = self.blocks(&stored.copied().collect::<Vec<_>>());
        let (kept, searched) = search::matching_blocks(self, filters, &blocks)?;
        Ok(SelectedBlocks {
            kept,
            blocks: Arc::new(blocks.with_searched(searched)),
            residual: Vec::new(),
        })
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        let identity = self.file.storage().identity()?;
        let path = self.file.path();
        let recipe = Recipe::in_file("tatami", path, &self.name, &self.options, identity)?;
        Ok(Some(recipe))
    }

    fn describe(&self) -> Result<TableDescription> {
        let file = &self.file;
        let location = file.path().display().to_string();
        let mut description = TableDescription::new(&self.name, "tatami", location);
        let fields = self.schema.fields().iter().zip(self.columns.iter());
        let attributes = fields.map(|(field, column)| AttributeDescription {
            name: field.name().clone(),
            stored_type: file.schema().fields[*column].column_type.to_string(),
            data_type: field.data_type().clone(),
            fill: None,
            metadata: BTreeMap::new(),
        });
        description.attributes = attributes.collect();
        description.chunks = self.chunks();
        description.stored_bytes = file.footer().stats.stored_bytes;
        description.raw_bytes = Some(file.footer().stats.raw_bytes);
        description.problems = self.warnings.clone();
        Ok(description)
    }
}
