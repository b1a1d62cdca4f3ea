//! A block source as a DataFusion table.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, not_impl_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::TableType;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use crate::error::Error;
#[cfg(feature = "tiledb")]
use crate::provider::adapters::tiledb;
use crate::provider::attributes::plain;
use crate::provider::catalog::description::TableDescription;
use crate::provider::catalog::open::open_table;
use crate::provider::catalog::settings::options::{ArrayOptions, ReadOptions};
#[cfg(feature = "tiledb")]
use crate::provider::copy::insert_into_tiledb;
use crate::provider::planning::pushdown;
use crate::provider::scan::ArrayScan;
use crate::provider::scan::grid::table::GridTable;
use crate::provider::source::{BlockSource, GridSource};

/// An array as a table: one row per cell, with a column per dimension, then the value columns.
///
/// A filter over one dimension is evaluated on its axis, and skips the chunks that it rules out.
/// `count(*)`, and `min` and `max` of coordinates, read no values.
///
/// ```
/// # use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
/// use std::sync::Arc;
/// use datafusion::prelude::SessionContext;
/// use tet_sql::{ArrayTable, ArrayOptions};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.tet");
/// # let spec = DatasetSpec::new("a", Dtype::U8, &[2, 3], &[2, 2]);
/// # let mut writer = TetWriter::create(&path, vec![spec])?;
/// # writer.write_dataset(0, &[1, 2, 3, 4, 5, 6])?;
/// # writer.finish()?;
/// let table = ArrayTable::open(&path, &ArrayOptions::new())?;
/// let ctx = SessionContext::new();
/// ctx.register_table("a", Arc::new(table))?;
/// let rows = ctx.sql("SELECT value FROM a WHERE dim_1 = 2").await?.count().await?;
/// assert_eq!(rows, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ArrayTable {
    source: Arc<dyn BlockSource>,
    /// The source after rows were added to the table.
    renewed: RwLock<Option<Arc<dyn BlockSource>>>,
    /// The columns without their attributes.
    schema: SchemaRef,
    options: ArrayOptions,
}

impl ArrayTable {
    /// Creates a table over any block source.
    pub fn new(source: Arc<dyn BlockSource>, options: ArrayOptions) -> Self {
        Self {
            schema: plain(source.schema()),
            source,
            renewed: RwLock::new(None),
            options,
        }
    }

    /// Creates a table over a grid.
    pub fn from_grid(grid: Arc<dyn GridSource>, options: ArrayOptions) -> Self {
        Self::new(Arc::new(GridTable::new(grid)), options)
    }

    /// Opens one table of an array file: the dataset or wide table that `options.dataset` names,
    /// else the only dataset that does not hold coordinates.
    ///
    /// # Errors
    /// Returns [`Error`] if the file cannot be opened, if it has several tables and none is named,
    /// or if the dataset cannot be read.
    pub fn open(path: impl AsRef<Path>, options: &ArrayOptions) -> Result<Self, Error> {
        Self::open_in(&SessionConfig::new(), path.as_ref(), options)
    }

    /// Like [`Self::open`], with the settings of a session for options that are unset.
    pub(crate) fn open_in(
        session: &SessionConfig,
        path: &Path,
        options: &ArrayOptions,
    ) -> Result<Self, Error> {
        let source = open_table(path, options, session)?;
        Ok(Self::new(source, options.clone()))
    }

    /// Returns the source of the table's blocks. After `INSERT INTO` the table, the source includes the
    /// new rows. If the array cannot be opened again, returns the source that was opened last.
    pub fn source(&self) -> Arc<dyn BlockSource> {
        let current = self.current();
        current.unwrap_or_else(|_| self.last_opened())
    }

    fn last_opened(&self) -> Arc<dyn BlockSource> {
        let renewed = self.renewed.read().unwrap_or_else(PoisonError::into_inner);
        let source = renewed.as_ref().unwrap_or(&self.source);
        Arc::clone(source)
    }

    /// Returns the source of the table's blocks, opened again after rows were added.
    fn current(&self) -> Result<Arc<dyn BlockSource>> {
        let source = self.last_opened();
        let Some(renewed) = source.renewed()? else {
            return Ok(source);
        };
        // Plans rely on the columns of the table.
        if plain(renewed.schema()) != self.schema {
            return plan_err!(
                "the columns of {} have changed since the table was opened; open it again",
                source.name()
            );
        }
        if let Ok(mut kept) = self.renewed.write() {
            *kept = Some(Arc::clone(&renewed));
        }
        Ok(renewed)
    }

    /// The array, if the table is one array rather than several files or blocks without axes.
    pub fn grid(&self) -> Option<Arc<dyn GridSource>> {
        let mut grids = self.source().grids();
        let only = grids.pop().filter(|_| grids.is_empty())?;
        let columns = only.axes().len() + only.attributes().len();
        (columns == self.source.schema().fields().len()).then_some(only)
    }

    /// The name of the array, groups included, if the table's only value column is called `value`.
    #[cfg(feature = "sql")]
    pub(crate) fn variable(&self) -> Option<&str> {
        let dimensions = self.source.dimensions();
        let mut values = self
            .source
            .schema()
            .fields()
            .iter()
            .filter(|field| !dimensions.contains(&field.name().as_str()));
        match (values.next(), values.next()) {
            (Some(field), None) if field.name() == crate::provider::source::VALUE => {
                Some(self.source.name())
            }
            _ => None,
        }
    }

    /// The options of a scan in this session.
    pub(crate) fn read_options(&self, session: &ConfigOptions) -> ReadOptions {
        self.options.read_options(session)
    }

    /// Returns a description of the table, to be shown to users. Looks up the index row of every
    /// chunk.
    ///
    /// # Errors
    /// Returns an error if the coordinates of an axis cannot be compared.
    pub fn describe(&self) -> Result<TableDescription> {
        self.current()?.describe()
    }
}

#[async_trait]
impl TableProvider for ArrayTable {
    /// The columns without attributes. [`annotated_schema`](crate::annotated_schema) has the
    /// attributes.
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let dimensions = self.source.dimensions();
        let classes = filters
            .iter()
            .map(|filter| pushdown::classify(&dimensions, filter));
        Ok(classes.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.source.schema().fields().len()).collect());
        let scan = ArrayScan::try_new(
            state,
            self.current()?,
            projection,
            filters,
            limit,
            self.read_options(state.config_options()),
        )?;
        Ok(scan.into_exec())
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        #[cfg(feature = "tiledb")]
        if let Some(recipe) = self.source.recipe()?
            && let Some(array) = tiledb::latest(&recipe, state.config())?
        {
            let columns = tiledb::stored_columns(&array, &self.schema)?;
            return insert_into_tiledb(&array, &columns, input, operation);
        }
        #[cfg(not(feature = "tiledb"))]
        let _ = (state, input, operation);
        let format = self.source.format();
        if format == "tiledb" {
            let location = self.source.location();
            return not_impl_err!(
                "cannot insert into {}: the table has several arrays; insert into a table of one of them",
                location.unwrap_or(self.source.name())
            );
        }
        // Documents cannot be stored as arrays.
        let ending = match format {
            "tatami" => "tatami",
            _ => "tet",
        };
        not_impl_err!(
            "cannot insert into {}: {format} files are read-only; write a new file with COPY (SELECT ... UNION ALL \
             ...) TO 'new.{ending}'",
            self.source.name()
        )
    }
}
