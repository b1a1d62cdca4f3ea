//! A session: its files, tables and settings.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::MemTable;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::prelude::{SessionConfig, SessionContext};
use pyo3::prelude::*;
use tet_sql::provider::catalog::files::{FileSession, Input};
use tet_sql::provider::error::describe;
use tet_sql::provider::scan::grid::table::GridTable;
use tet_sql::{ArrayOptions, ArraySettings, ArrayTable, ClusterAccess, OpeningWarnings};

use crate::errors::exception;
use crate::grid::{MemoryGrid, Variable};
use crate::parameters::parameters;
use crate::placeholders::numbered;
use crate::query::Query;
use crate::runtime::wait;
use crate::statement::planned;
use crate::streams::import;

/// An option that only one format has.
const KEY_FILE: &str = "key_file";

/// A session.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct Session {
    context: SessionContext,
    /// The warnings of the files that the session has opened.
    opened: Vec<String>,
    /// The warnings of the files that statements open.
    opening: Arc<OpeningWarnings>,
}

impl Session {
    /// Returns the context of the session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }
}

#[pymethods]
impl Session {
    /// Opens files in a new session.
    #[new]
    fn new(
        py: Python<'_>,
        files: Vec<PathBuf>,
        threads: Option<usize>,
        memory_limit: Option<String>,
        settings: Vec<(String, String)>,
        options: Vec<(String, String)>,
        cluster: (Option<String>, Option<Vec<u8>>),
    ) -> PyResult<Self> {
        let warnings = Arc::new(OpeningWarnings::default());
        let extension = Arc::clone(&warnings);
        let opening = async move {
            let inputs = files.iter().map(|path| Input::resolve(path));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let access = Arc::new(cluster_access(cluster));
            let config = configured(threads, &settings)?;
            let config = config.with_extension(access).with_extension(extension);
            let options = opened_with(options)?;
            let memory_limit = match &memory_limit {
                Some(text) => Some(memory(text)?),
                None => None,
            };
            FileSession::open(config, &inputs, &options, memory_limit, None).await
        };
        let opened = wait(py, opening)?;
        Ok(Self {
            context: opened.context,
            opened: opened.warnings,
            opening: warnings,
        })
    }

    /// Problems of the session's files that do not prevent reading.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.opened.clone()
    }

    /// Problems of the files that statements have opened since the last call.
    fn take_warnings(&self) -> Vec<String> {
        self.opening.take()
    }

    /// Plans a query. Any other statement runs at once, and the query returns its result.
    #[pyo3(signature = (sql, params = None))]
    fn sql(
        &self,
        py: Python<'_>,
        sql: String,
        params: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Query> {
        let (sql, params) = match &params {
            None => (sql, None),
            Some(params) => (numbered(&sql), Some(parameters(params)?)),
        };
        let context = self.context.clone();
        let plan = wait(py, async move {
            let plan = planned(&context.state(), &sql, params).await?;
            if !runs_at_once(&plan) {
                return Ok(plan);
            }
            let is_execution = matches!(plan, LogicalPlan::Statement(Statement::Execute(_)));
            let frame = tet_sql::execute_logical_plan(&context, plan).await?;
            // A query, which runs when its result is read.
            if is_execution {
                return Ok(frame.logical_plan().clone());
            }
            let schema = Arc::clone(frame.schema().inner());
            let rows = MemTable::try_new(schema, vec![frame.collect().await?])?;
            let result = context.read_table(Arc::new(rows))?;
            Ok(result.logical_plan().clone())
        })?;
        Ok(Query::new(self.context.clone(), plan))
    }

    /// Returns a query for all rows of a table, whose name is written as in SQL.
    fn table(&self, py: Python<'_>, name: String) -> PyResult<Query> {
        let context = self.context.clone();
        let table = wait(py, async move { context.table(name).await })?;
        Ok(Query::new(
            self.context.clone(),
            table.logical_plan().clone(),
        ))
    }

    /// The names of the tables: of the default schema first, then of the others as `schema.table`.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let context = self.context.clone();
        wait(py, async move { Ok(table_names(&context)) })
    }

    /// Registers all batches of an object that exports an Arrow stream.
    fn register_batches(
        &self,
        py: Python<'_>,
        name: String,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (schema, batches) = import(object)?;
        let context = self.context.clone();
        wait(py, async move {
            let table = MemTable::try_new(schema, vec![batches])?;
            replace(&context, name, Arc::new(table))
        })
    }

    /// Registers variables over the same axes as one table.
    fn register_grid(
        &self,
        py: Python<'_>,
        name: String,
        axes: Vec<Py<Variable>>,
        variables: Vec<Py<Variable>>,
        chunks: Vec<u64>,
    ) -> PyResult<()> {
        let taken = |variables: Vec<Py<Variable>>| -> Vec<Variable> {
            variables
                .iter()
                .map(|variable| variable.get().clone())
                .collect()
        };
        let grid = MemoryGrid::new(&name, taken(axes), taken(variables), chunks);
        let grid = grid.map_err(|error| exception(&error))?;
        let context = self.context.clone();
        wait(py, async move {
            let table = Arc::new(GridTable::new(Arc::new(grid)));
            let table = ArrayTable::new(table, ArrayOptions::new());
            replace(&context, name, Arc::new(table))
        })
    }

    /// Removes a table or view that was registered. Returns `False` if there is none.
    fn deregister(&self, py: Python<'_>, name: String) -> PyResult<bool> {
        let context = self.context.clone();
        wait(py, async move {
            let removed = context.deregister_table(TableReference::bare(name))?;
            Ok(removed.is_some())
        })
    }
}

/// Returns the configuration of a session with these settings, as in `SET`.
fn configured(threads: Option<usize>, settings: &[(String, String)]) -> Result<SessionConfig> {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_option_extension(ArraySettings::default());
    if let Some(threads) = threads {
        config = config.with_target_partitions(threads.max(1));
    }
    for (name, value) in settings {
        let set = config.options_mut().set(name, value);
        set.map_err(|error| {
            DataFusionError::Configuration(format!("{name}={value}: {}", describe(&error)))
        })?;
    }
    Ok(config)
}

/// Returns how to reach the workers of `tet.cluster`, from their token and the authorities that signed
/// their certificates.
fn cluster_access((token, authorities): (Option<String>, Option<Vec<u8>>)) -> ClusterAccess {
    let mut access = ClusterAccess::new();
    if let Some(token) = token {
        access = access.with_token(token);
    }
    match authorities {
        Some(authorities) => access.with_authorities(authorities),
        None => access,
    }
}

/// Returns the options for opening files.
fn opened_with(options: Vec<(String, String)>) -> Result<ArrayOptions> {
    let mut opened_with = ArrayOptions::new();
    for (name, value) in options {
        match name.as_str() {
            KEY_FILE => opened_with = opened_with.with_format_option(KEY_FILE, value),
            _ => opened_with.set(&name, &value)?,
        }
    }
    Ok(opened_with)
}

/// Parses a number of bytes such as `2G` or `1000000`.
fn memory(text: &str) -> Result<u64> {
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    let bytes = SessionContext::parse_capacity_limit("memory_limit", text)?;
    Ok(bytes as u64)
}

/// Returns `true` if a statement changes something, and therefore runs at once.
fn runs_at_once(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    )
}

/// Registers a table in place of the one that was registered with the same name before.
fn replace(
    context: &SessionContext,
    name: String,
    table: Arc<dyn datafusion::catalog::TableProvider>,
) -> Result<()> {
    let name = TableReference::bare(name);
    // Fails for a dataset of a file, which the registered table hides.
    let _ = context.deregister_table(name.clone());
    context.register_table(name, table)?;
    Ok(())
}

/// Returns the names of the tables in the default catalog.
fn table_names(context: &SessionContext) -> Vec<String> {
    let names = context.copied_config().options().catalog.clone();
    let Some(catalog) = context.catalog(&names.default_catalog) else {
        return Vec::new();
    };
    let mut schemas = catalog.schema_names();
    schemas.retain(|name| name != "information_schema");
    schemas.sort_by_key(|name| (*name != names.default_schema, name.clone()));
    let mut tables = Vec::new();
    for schema in schemas {
        let Some(found) = catalog.schema(&schema) else {
            continue;
        };
        for table in found.table_names() {
            tables.push(match schema == names.default_schema {
                true => table,
                false => format!("{schema}.{table}"),
            });
        }
    }
    tables
}
