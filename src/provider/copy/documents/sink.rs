//! The sink of `COPY ... STORED AS TATAMI`.

use std::fmt::{self, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexRequirement, PhysicalSortRequirement};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;

use crate::error::Error;
use crate::format::tatami::search::SegmentBuilder;
use crate::format::tatami::{ColumnType, SEARCH_COLUMNS_KEY, Schema, TatamiWriter, WriterOptions};
use crate::provider::copy::background::{CancelOnDrop, in_background};
use crate::provider::copy::documents::columns::{append_text, input, is_text, normalized, stored};
use crate::provider::copy::documents::options::DocumentOptions;

/// The maximum memory for postings in bytes. Beyond this limit, postings spill to temporary files.
const MAX_WORDS_MEMORY: usize = 64 << 20;

/// Writes rows to one `.tatami` file.
#[derive(Debug)]
pub(super) struct DocumentSink {
    path: PathBuf,
    schema: SchemaRef,
    stored: Schema,
    /// The indices of the columns whose words are indexed.
    searched: Vec<usize>,
    options: DocumentOptions,
}

impl DocumentSink {
    /// Creates a sink for rows of this schema.
    ///
    /// # Errors
    /// Returns an error if `.tatami` files cannot store the type of a column, or if an option names a
    /// column that does not exist.
    pub fn try_new(path: PathBuf, schema: &SchemaRef, options: DocumentOptions) -> Result<Self> {
        let lists = [
            ("bloom", options.bloom.as_slice()),
            ("blob", &options.blob),
            ("search", &options.search),
            ("sort_key", options.sort_key.as_slice()),
        ];
        for (option, names) in lists {
            if let Some(name) = names.iter().find(|name| schema.index_of(name).is_err()) {
                let columns = schema.fields().iter().map(|field| field.name().as_str());
                let columns: Vec<_> = columns.collect();
                return plan_err!(
                    "option {option} names the column {name:?}, expected one of {}",
                    columns.join(", ")
                );
            }
        }
        let fields = schema.fields().iter();
        let fields = fields.map(|field| stored(field, &options));
        let fields = fields.collect::<Result<_>>()?;
        let mut searched = Vec::new();
        for name in &options.search {
            let column = schema.index_of(name)?;
            if !is_text(schema.field(column).data_type()) {
                return plan_err!(
                    "option search names the column {name:?} of type {}, expected text",
                    schema.field(column).data_type()
                );
            }
            searched.push(column);
        }
        Ok(Self {
            path,
            schema: Arc::clone(schema),
            stored: Schema { fields },
            searched,
            options,
        })
    }

    /// Returns the order by the sort key, in which DataFusion must deliver the rows.
    pub fn order(&self) -> Option<LexRequirement> {
        let key = self.options.sort_key.as_ref()?;
        let column = Arc::new(Column::new(key, self.schema.index_of(key).ok()?));
        let ascending = SortOptions {
            descending: false,
            nulls_first: true,
        };
        LexRequirement::new([PhysicalSortRequirement::new(column, Some(ascending))])
    }
}

/// A file that is being written.
struct Writing {
    writer: TatamiWriter,
    words: Option<SegmentBuilder>,
    searched: Vec<usize>,
    text: Vec<u8>,
}

impl Writing {
    fn start(sink: &DocumentSink) -> Result<Self, Error> {
        let mut options: WriterOptions = sink.options.writer.clone();
        let words = (!sink.searched.is_empty()).then(|| {
            let names = sink.options.search.join(",");
            options
                .key_values
                .push((SEARCH_COLUMNS_KEY.to_string(), names));
            let directory = sink
                .path
                .parent()
                .filter(|directory| !directory.as_os_str().is_empty());
            SegmentBuilder::new(directory.unwrap_or(Path::new(".")), MAX_WORDS_MEMORY)
        });
        Ok(Self {
            writer: TatamiWriter::create(&sink.path, sink.stored.clone(), options)?,
            words,
            searched: sink.searched.clone(),
            text: Vec::new(),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let types: Vec<ColumnType> = self
            .writer
            .schema()
            .fields
            .iter()
            .map(|field| field.column_type)
            .collect();
        let columns = batch.columns().iter().zip(types);
        let columns = columns.map(|(column, column_type)| normalized(column, column_type));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let inputs = columns.iter().map(input).collect::<Result<Vec<_>>>()?;
        self.writer.write(batch.num_rows(), &inputs)?;
        if let Some(words) = &mut self.words {
            for row in 0..batch.num_rows() {
                self.text.clear();
                for column in &self.searched {
                    append_text(&columns[*column], row, &mut self.text);
                }
                words.add([self.text.as_slice()])?;
            }
        }
        Ok(())
    }

    /// Completes the file, unless the statement is cancelled meanwhile.
    fn finish(self, is_cancelled: &AtomicBool) -> Result<()> {
        match self.words {
            Some(words) => {
                let mut parts = words.finish(None)?;
                if is_cancelled.load(Ordering::Relaxed) {
                    return exec_err!("the statement was cancelled");
                }
                self.writer.finish_segment(parts.segment())?
            }
            None => self.writer.finish()?,
        };
        Ok(())
    }
}

impl DisplayAs for DocumentSink {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DocumentSink: {}", self.path.display())
    }
}

#[async_trait]
impl DataSink for DocumentSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut writing = Writing::start(self)?;
        let mut rows = 0;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            // Encoding takes long and must not block the threads that run the query.
            writing = in_background(move || {
                writing.write(&batch)?;
                Ok(writing)
            })
            .await?;
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&is_cancelled));
        in_background(move || writing.finish(&is_cancelled)).await?;
        Ok(rows)
    }
}
