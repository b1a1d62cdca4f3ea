//! One table over many files: the union of the rows that the files have in the same table.

pub(crate) mod axis_union;
pub(crate) mod blocks;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionConfig;

use crate::error::{Error, ErrorLocation};
use crate::grid::{Axis, CoordinateSource, IndexSet};
use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::many_files::axis_union::AxisUnion;
use crate::provider::catalog::many_files::blocks::{ManyFileBlocks, SingleFileBlocks};
use crate::provider::catalog::open::open_table;
use crate::provider::catalog::settings::options::ArrayOptions;
use crate::provider::planning::axis_filter::evaluate;
use crate::provider::planning::pushdown::{Pushdown, only_column};
use crate::provider::scan::grid_blocks::GridBlocks;
use crate::provider::scan::grid_table::columns;
use crate::provider::source::{BlockSource, GridSource, SelectedBlocks, for_columns};

/// The name of the column with each row's file.
const FILE: &str = "file";

/// One table over many files. The columns are those of the first file. A filter over a dimension is
/// evaluated on the axes of each file, and drops a file before any of its values are read.
#[derive(Debug)]
pub struct FileTable {
    name: String,
    location: String,
    members: Vec<Arc<dyn GridSource>>,
    /// The paths of the files as an axis, with one index per file.
    files: Axis,
    has_file_column: bool,
    schema: SchemaRef,
}

impl FileTable {
    /// Opens the table that `options.dataset` names, else the only table, in each of these files.
    /// `location` names all files together.
    ///
    /// # Errors
    /// Returns an error if a file cannot be opened, or has other columns than the first file.
    pub(crate) fn open(
        location: &str,
        files: &[PathBuf],
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Self> {
        let mut members: Vec<Arc<dyn GridSource>> = Vec::with_capacity(files.len());
        let mut first: Option<Fields> = None;
        for path in files {
            let source = open_table(path, options, session)?;
            let Some(member) = source.grids().into_iter().next() else {
                let name = source.name();
                return plan_err!(
                    "{}: {name:?} is not an array, and only arrays form one table of many files",
                    path.display()
                );
            };
            let fields = columns(member.as_ref());
            match &first {
                None => first = Some(fields),
                Some(first) => {
                    check_same(first, &fields, &files[0], path, member.name())?;
                }
            }
            members.push(member);
        }
        let Some(fields) = first else {
            return plan_err!("{location}: no files");
        };
        let mut fields = fields.to_vec();
        if options.file_column {
            if fields.iter().any(|field| field.name() == FILE) {
                return plan_err!(
                    "{location}: there is already a column named \"{FILE}\"; omit the option file_column"
                );
            }
            fields.push(Arc::new(Field::new(FILE, DataType::Utf8, false)));
        }
        let paths = files.iter().map(|path| path.to_string_lossy());
        Ok(Self {
            name: members[0].name().to_string(),
            location: location.to_string(),
            members,
            files: Axis::with_values(
                FILE,
                Arc::new(StringArray::from_iter_values(paths)),
                CoordinateSource::Index,
            ),
            has_file_column: options.file_column,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// Returns the files that satisfy the filters over the column `file`.
    fn select_files(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        residual: &mut Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<IndexSet> {
        let mut selected = IndexSet::all(self.members.len() as u64);
        for filter in filters {
            match evaluate(&self.files, filter, &selected)? {
                Some(set) => selected = set,
                None => residual.push(Arc::clone(filter)),
            }
        }
        Ok(selected)
    }
}

/// Checks that the columns agree in names and types. Their attributes may differ.
fn check_same(
    first: &Fields,
    other: &Fields,
    first_path: &Path,
    path: &Path,
    dataset: &str,
) -> Result<(), Error> {
    let text = |fields: &Fields| {
        let fields: Vec<_> = fields
            .iter()
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect();
        fields.join(", ")
    };
    let (expected, found) = (text(first), text(other));
    if expected == found {
        return Ok(());
    }
    Err(Error::malformed(
        ErrorLocation::dataset(path, dataset),
        "columns",
        format!("({found})"),
        format!("({expected}) as in {}", first_path.display()),
    ))
}

impl BlockSource for FileTable {
    fn format(&self) -> &'static str {
        self.members[0].format()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn as_grid(&self) -> Option<&dyn GridSource> {
        None
    }

    fn grids(&self) -> Vec<Arc<dyn GridSource>> {
        self.members.iter().map(Arc::clone).collect()
    }

    fn dimensions(&self) -> Vec<&str> {
        let axes = self.members[0].axes().iter().map(Axis::name);
        axes.chain(self.has_file_column.then_some(FILE)).collect()
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
    ) -> Result<SelectedBlocks> {
        let members = self
            .members
            .iter()
            .map(|member| for_columns(member, columns));
        let members: Vec<_> = members.collect();
        let file_column = self.has_file_column.then(|| self.schema.fields().len() - 1);
        let filters = filters.iter().map(Arc::clone);
        let (of_files, of_axes): (Vec<_>, Vec<_>) =
            filters.partition(|filter| file_column.is_some() && only_column(filter) == file_column);
        let mut residual = Vec::new();
        let files = self.select_files(&of_files, &mut residual)?;
        let mut parts = Vec::new();
        for number in files.ranges().flatten() {
            // The axis has one index per file, so the index fits into `usize`.
            let number = number as usize;
            let grid = &members[number];
            let pushdown = Pushdown::try_new(grid.axes(), &of_axes)?;
            for filter in pushdown.residual {
                if !residual.contains(&filter) {
                    residual.push(filter);
                }
            }
            if !pushdown.selection.is_empty() {
                parts.push(SingleFileBlocks {
                    number,
                    blocks: Arc::new(GridBlocks::new(grid, pushdown.selection)),
                });
            }
        }
        let total = members.iter().try_fold(0u64, |total, member| {
            total.checked_add(member.chunk_grid().count()?)
        });
        let dimensions = self.members[0].axes().len();
        let blocks = ManyFileBlocks::new(parts, total, &self.files, dimensions, file_column);
        let Some(blocks) = blocks else {
            return plan_err!(
                "{}: too many chunks: 2^64 or more are selected",
                self.location
            );
        };
        Ok(SelectedBlocks {
            blocks: Arc::new(blocks),
            residual,
        })
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut whole = self.members[0].describe()?;
        let mut codecs: HashSet<String> = whole.codecs.drain(..).collect();
        let dimensions = whole.dimensions.iter();
        let joined = dimensions.map(|one| {
            let mut joined = AxisUnion::new();
            joined.add(one.extent, one.range.clone());
            joined
        });
        let mut joined: Vec<_> = joined.collect();
        for member in &self.members[1..] {
            let other = member.describe()?;
            codecs.extend(other.codecs);
            whole.problems.extend(other.problems);
            whole.stored_bytes = whole.stored_bytes.saturating_add(other.stored_bytes);
            let add = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
            whole.raw_bytes = add(whole.raw_bytes, other.raw_bytes);
            whole.chunks = add(whole.chunks, other.chunks);
            for (joined, other) in joined.iter_mut().zip(other.dimensions) {
                joined.add(other.extent, other.range);
            }
        }
        for (one, joined) in whole.dimensions.iter_mut().zip(joined) {
            one.extent = joined.extent.unwrap_or(u64::MAX);
            one.range = joined.bounds;
        }
        whole.codecs = codecs.into_iter().collect();
        whole.codecs.sort();
        whole.location = match self.members.len() {
            1 => whole.location,
            count => format!("{count} files: {}", self.location),
        };
        Ok(whole)
    }
}
