//! One table over many files: the union of the rows of the files' tables.

pub(crate) mod axis_union;
pub(crate) mod blocks;
mod reader;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::PhysicalExpr;

use crate::error::{Error, ErrorLocation};
use crate::grid::{Axis, CoordinateSource, IndexSet};
use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::many_files::axis_union::AxisUnion;
use crate::provider::catalog::many_files::blocks::{ManyFileBlocks, SingleFileBlocks};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::axis_filter::evaluate;
use crate::provider::planning::pushdown::only_column;
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{BlockSource, ColumnKind, GridSource, ReplaceGrid, SelectedBlocks};

/// The name of the column with each row's file.
pub(in crate::provider) const FILE: &str = "file";

/// One table over many files. The columns are those of the first file. A filter over a dimension is
/// evaluated on the axes of each file, and drops a file before any of its values are read.
#[derive(Debug)]
pub struct FileTable {
    name: String,
    location: String,
    members: Vec<Arc<dyn BlockSource>>,
    /// The paths of the files as an axis, with one index per file.
    files: Axis,
    has_file_column: bool,
    schema: SchemaRef,
    /// The recipe of the whole table, if its files cannot be opened again one by one.
    recipe: Option<Recipe>,
}

impl FileTable {
    /// Creates a table over `members`, one table per file. `location` names all files together. With
    /// `has_file_column`, the last column holds the path of each row's file.
    ///
    /// # Errors
    /// Returns an error if there are no files, or if the columns of a table differ from those of the first
    /// table.
    pub fn new(
        location: &str,
        files: &[PathBuf],
        members: Vec<Arc<dyn BlockSource>>,
        has_file_column: bool,
    ) -> Result<Self> {
        let Some((first, others)) = members.split_first() else {
            return plan_err!("{location}: no files");
        };
        for (member, path) in others.iter().zip(&files[1..]) {
            check_same(first.as_ref(), member.as_ref(), &files[0], path)?;
        }
        if has_file_column && first.schema().index_of(FILE).is_ok() {
            return plan_err!(
                "{location}: there is already a column named \"{FILE}\"; omit the option file_column"
            );
        }
        let paths = files.iter().map(|path| path.to_string_lossy());
        let paths = Arc::new(StringArray::from_iter_values(paths));
        Ok(Self {
            name: first.name().to_string(),
            location: location.to_string(),
            files: Axis::with_values(FILE, paths, CoordinateSource::Index),
            has_file_column,
            schema: schema_of(&members, has_file_column),
            members,
            recipe: None,
        })
    }

    /// The tables, one per file.
    pub fn members(&self) -> &[Arc<dyn BlockSource>] {
        &self.members
    }

    fn paths(&self) -> Result<Vec<String>> {
        let files = self.files.coordinates()?;
        let paths = files.slice(0..self.members.len() as u64);
        let paths = paths.as_string::<i32>().iter().flatten();
        Ok(paths.map(str::to_string).collect())
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

#[cfg(feature = "tatami")]
impl FileTable {
    /// Sets the recipe of the whole table, which replaces those of its files.
    pub(crate) fn with_recipe(mut self, recipe: Recipe) -> Self {
        self.recipe = Some(recipe);
        self
    }

    /// Returns the values of the column `file`, one per file; `None` if there is no such column.
    pub(in crate::provider) fn file_column(&self) -> Result<Option<Arc<[String]>>> {
        if !self.has_file_column {
            return Ok(None);
        }
        Ok(Some(self.paths()?.into()))
    }
}

/// Returns the columns of a table over `members`.
fn schema_of(members: &[Arc<dyn BlockSource>], has_file_column: bool) -> SchemaRef {
    let schemas: Vec<&SchemaRef> = members.iter().map(|member| member.schema()).collect();
    let mut fields = common_fields(&schemas);
    if has_file_column {
        fields.push(Arc::new(Field::new(FILE, DataType::Utf8, false)));
    }
    Arc::new(Schema::new(fields))
}

/// Returns the columns that tables have in common. A column is nullable if it is nullable in any table, and has the
/// attributes that all tables have.
pub(in crate::provider) fn common_fields(schemas: &[&SchemaRef]) -> Vec<FieldRef> {
    let first = schemas.iter().take(1).flat_map(|schema| schema.fields());
    let fields = first.enumerate().map(|(column, field)| {
        let all = || schemas.iter().map(|schema| schema.field(column));
        let is_nullable = all().any(Field::is_nullable);
        let mut attributes = field.metadata().clone();
        attributes.retain(|key, text| all().all(|field| field.metadata().get(key) == Some(text)));
        let field = Field::clone(field).with_nullable(is_nullable);
        Arc::new(field.with_metadata(attributes))
    });
    fields.collect()
}

/// Checks that the columns agree in names, types and kinds. Their attributes may differ.
fn check_same(
    first: &dyn BlockSource,
    other: &dyn BlockSource,
    first_path: &Path,
    path: &Path,
) -> Result<(), Error> {
    let text = |source: &dyn BlockSource| {
        let fields = source.schema().fields().iter();
        let fields: Vec<_> = fields
            .map(|field| format!("{} {}", field.name(), field.data_type()))
            .collect();
        fields.join(", ")
    };
    // Filters on known columns are exact.
    let are_known = |source: &dyn BlockSource| -> Vec<bool> {
        let columns = 0..source.schema().fields().len();
        let kinds = columns.map(|column| source.column_kind(column));
        kinds.map(|kind| kind == ColumnKind::Known).collect()
    };
    let (expected, found) = (text(first), text(other));
    if expected == found && are_known(first) == are_known(other) {
        return Ok(());
    }
    Err(Error::malformed(
        ErrorLocation::dataset(path, other.name()),
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

    fn location(&self) -> Option<&str> {
        Some(&self.location)
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        match self.has_file_column && column + 1 == self.schema.fields().len() {
            true => ColumnKind::Known,
            false => self.members[0].column_kind(column),
        }
    }

    fn grids(&self) -> Vec<Arc<dyn GridSource>> {
        self.members
            .iter()
            .flat_map(|member| member.grids())
            .collect()
    }

    fn with_grids(&self, replace: ReplaceGrid<'_>) -> Result<Option<Arc<dyn BlockSource>>> {
        if self.has_file_column || self.recipe.is_some() {
            return Ok(None);
        }
        let members = self.members.iter().map(|member| member.with_grids(replace));
        let Some(members) = members.collect::<Result<Option<Vec<_>>>>()? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self {
            name: self.name.clone(),
            location: self.location.clone(),
            files: self.files.clone(),
            has_file_column: false,
            schema: schema_of(&members, false),
            members,
            recipe: None,
        })))
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        columns: &[usize],
        options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        let file_column = self.has_file_column.then(|| self.schema.fields().len() - 1);
        let filters = filters.iter().map(Arc::clone);
        let (of_files, of_axes): (Vec<_>, Vec<_>) =
            filters.partition(|filter| file_column.is_some() && only_column(filter) == file_column);
        let mut residual = Vec::new();
        let files = self.select_files(&of_files, &mut residual)?;
        let columns: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|column| Some(*column) != file_column)
            .collect();
        let mut parts = Vec::new();
        let mut kept = Vec::new();
        let mut total = Some(0u64);
        for (number, member) in self.members.iter().enumerate() {
            let is_selected = files.contains(number as u64);
            let filters: &[_] = if is_selected { &of_axes } else { &[] };
            let selected = member.select(filters, &columns, options)?;
            let of_member = selected.blocks.total();
            total = total.and_then(|total| total.checked_add(of_member?));
            for filter in selected.residual {
                if !residual.contains(&filter) {
                    residual.push(filter);
                }
            }
            if is_selected && selected.blocks.count() != Some(0) {
                kept.push(selected.kept);
                parts.push(SingleFileBlocks {
                    number,
                    blocks: selected.blocks,
                });
            }
        }
        let known = (0..self.schema.fields().len())
            .map(|column| self.column_kind(column) == ColumnKind::Known);
        let blocks = ManyFileBlocks::new(parts, total, &self.files, known.collect(), file_column);
        let Some(blocks) = blocks else {
            return plan_err!(
                "{}: too many chunks: 2^64 or more are selected",
                self.location
            );
        };
        Ok(SelectedBlocks {
            kept: blocks.kept(&kept),
            blocks: Arc::new(blocks),
            residual,
        })
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        if let Some(recipe) = &self.recipe {
            return Ok(Some(recipe.clone()));
        }
        let files = self
            .members
            .iter()
            .zip(self.paths()?)
            .map(|(member, path)| {
                let recipe = member.recipe()?;
                Ok(recipe.map(|recipe| (PathBuf::from(path), recipe)))
            });
        let files = files.collect::<Result<Option<Vec<_>>>>()?;
        Ok(files.map(|files| Recipe::Files {
            location: self.location.clone(),
            files,
            has_file_column: self.has_file_column,
        }))
    }

    fn renewed(&self) -> Result<Option<Arc<dyn BlockSource>>> {
        let renewed = self.members.iter().map(|member| member.renewed());
        let renewed = renewed.collect::<Result<Vec<_>>>()?;
        if renewed.iter().all(Option::is_none) {
            return Ok(None);
        }
        let members = renewed.into_iter().zip(&self.members);
        let members = members.map(|(renewed, old)| renewed.unwrap_or_else(|| Arc::clone(old)));
        let paths: Vec<PathBuf> = self.paths()?.into_iter().map(PathBuf::from).collect();
        let table = Self::new(
            &self.location,
            &paths,
            members.collect(),
            self.has_file_column,
        )?;
        Ok(Some(Arc::new(table)))
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
