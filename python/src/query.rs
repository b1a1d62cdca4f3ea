//! A planned query, which runs when its result is needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned, displayable, execute_stream};
use datafusion::prelude::SessionContext;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::axis_order::AxisOrder;
use crate::columns::Column;
use crate::extension::table_capsule;
use crate::runtime::{Workers, wait};
use crate::streams::{Batches, QueryReader, export, schema_capsule};

/// A planned query of a session.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct Query {
    context: SessionContext,
    plan: LogicalPlan,
    /// The physical plan of the last execution, which has its metrics.
    executed: Arc<Executed>,
}

/// The physical plan of the last execution.
#[derive(Default)]
struct Executed(Mutex<Option<Arc<dyn ExecutionPlan>>>);

impl Executed {
    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn set(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(plan));
    }

    fn get(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Query {
    pub fn new(context: SessionContext, plan: LogicalPlan) -> Self {
        Self {
            context,
            plan,
            executed: Arc::default(),
        }
    }

    /// Plans an execution. Each execution has a plan of its own, because dynamic filters are part of
    /// the plan.
    fn planned(&self, py: Python<'_>, plan: LogicalPlan) -> PyResult<Arc<dyn ExecutionPlan>> {
        let context = self.context.clone();
        wait(py, async move {
            context.state().create_physical_plan(&plan).await
        })
    }

    /// Runs a plan, and returns its batches in the order of its partitions. `progress` is called every
    /// 100 ms.
    fn run(
        &self,
        py: Python<'_>,
        plan: LogicalPlan,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Batches> {
        let (context, executed) = (self.context.clone(), Arc::clone(&self.executed));
        executed.clear();
        let running = async move {
            let plan = context.state().create_physical_plan(&plan).await?;
            executed.set(&plan);
            let schema = plan.schema();
            let partitions = collect_partitioned(plan, context.task_ctx()).await?;
            Ok(Batches::new(schema, partitions.concat()))
        };
        Workers::current()?.wait_with(py, running, |_| match &progress {
            Some(progress) => progress.call0().map(|_| ()),
            None => Ok(()),
        })
    }
}

#[pymethods]
impl Query {
    /// Exports a stream of the batches of a new execution. The query runs as the stream is read, and
    /// is cancelled when the stream is dropped.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts the batches itself if they do not have the schema that it requested.
        drop(requested_schema);
        let plan = self.planned(py, self.plan.clone())?;
        self.executed.set(&plan);
        let (schema, context) = (plan.schema(), self.context.clone());
        let workers = Workers::current()?;
        let stream = workers.wait(py, async move { execute_stream(plan, context.task_ctx()) })?;
        export(py, Box::new(QueryReader::new(schema, stream, workers)))
    }

    /// Exports the schema of the result, without running the query.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let plan = self.planned(py, self.plan.clone())?;
        schema_capsule(py, &plan.schema())
    }

    /// Exports the query as a table of a context of the package `datafusion`.
    fn __datafusion_table_provider__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        table_capsule(py, table(&self.plan), &self.context, session)
    }

    /// Runs the query, or the first rows of it. `progress` is called every 100 ms.
    #[pyo3(signature = (limit = None, progress = None))]
    fn collect(
        &self,
        py: Python<'_>,
        limit: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Batches> {
        let plan = match limit {
            None => self.plan.clone(),
            Some(_) => {
                let limited = LogicalPlanBuilder::from(self.plan.clone());
                let limited = limited.limit(0, limit).and_then(LogicalPlanBuilder::build);
                limited.map_err(|error| crate::errors::exception(&error))?
            }
        };
        self.run(py, plan, progress)
    }

    /// The name, the type and the attributes of each column, without running the query.
    fn fields(&self) -> Vec<(String, String, HashMap<String, String>)> {
        let schema = tet_sql::result_schema(&self.plan);
        let fields = schema.fields().iter();
        let fields = fields.map(|field| {
            let name = field.name().clone();
            (
                name,
                field.data_type().to_string(),
                field.metadata().clone(),
            )
        });
        fields.collect()
    }

    /// Returns `(descends, coordinates)` for a column. `coordinates` is `None` if the order is ascending or
    /// descending. Returns `None` if the order is not known.
    fn order(&self, py: Python<'_>, column: usize) -> PyResult<Option<(bool, Option<Column>)>> {
        let plan = self.plan.clone();
        wait(py, async move {
            let Some(order) = AxisOrder::of(&plan, column)? else {
                return Ok(None);
            };
            let field = plan.schema().field(column);
            let coordinates = order.coordinates.as_ref();
            let coordinates = coordinates.map(|values| Column::new(field, values));
            Ok(Some((order.descends, coordinates.transpose()?)))
        })
    }

    /// The plan as text. `analyze` runs the query and adds its metrics.
    fn explain(&self, py: Python<'_>, analyze: bool, verbose: bool) -> PyResult<String> {
        let plan = LogicalPlanBuilder::from(self.plan.clone());
        let plan = plan.explain(verbose, analyze);
        let plan = plan.and_then(LogicalPlanBuilder::build);
        let plan = plan.map_err(|error| crate::errors::exception(&error))?;
        let context = self.context.clone();
        let batches = wait(py, async move {
            let plan = context.state().create_physical_plan(&plan).await?;
            datafusion::physical_plan::collect(plan, context.task_ctx()).await
        })?;
        Ok(explanation(&batches))
    }

    /// The operators of the last execution with their metrics, from the root of the plan. Empty if
    /// the query has not run.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let operators = PyList::empty(py);
        if let Some(plan) = self.executed.get() {
            add_metrics(&plan, 0, &operators)?;
        }
        Ok(operators)
    }

    /// Writes the result to a file, in the format of its extension. `progress` is called every 100 ms.
    #[pyo3(signature = (path, options, progress = None))]
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        options: HashMap<String, String>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let plan = copy(&self.context, self.plan.clone(), &path, options);
        let plan = plan.map_err(|error| crate::errors::exception(&error))?;
        let rows = self.run(py, plan, progress)?;
        let count = rows.batches().first().and_then(|rows| {
            let counts = rows.columns().first()?;
            let counts = counts.as_primitive_opt::<arrow::datatypes::UInt64Type>()?;
            (!counts.is_empty()).then(|| counts.value(0))
        });
        Ok(count.unwrap_or_default())
    }
}

/// Returns the table that a plan reads as a whole, or else a view of the plan.
fn table(plan: &LogicalPlan) -> Arc<dyn TableProvider> {
    if let LogicalPlan::TableScan(scan) = plan {
        let is_whole = scan.projection.is_none() && scan.filters.is_empty() && scan.fetch.is_none();
        if let (true, Ok(table)) = (is_whole, source_as_provider(&scan.source)) {
            return table;
        }
    }
    Arc::new(ViewTable::new(plan.clone(), None))
}

/// Returns the plan that writes the result of a plan to a file.
fn copy(
    context: &SessionContext,
    plan: LogicalPlan,
    path: &Path,
    options: HashMap<String, String>,
) -> Result<LogicalPlan> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let format = match extension {
        // Lines of JSON have several customary names.
        Some("ndjson" | "jsonl") => Some("json"),
        Some("feather") => Some("arrow"),
        extension => extension,
    };
    let factory = format.and_then(|format| context.state().get_file_format_factory(format));
    let Some(factory) = factory else {
        return plan_err!(
            "{}: cannot be written: expected a file name that ends in .tet, .zarr, .parquet, .csv, .json or .arrow",
            path.display()
        );
    };
    // DataFusion looks up options of a format under this prefix.
    let options = options.into_iter();
    let options = options.map(|(name, value)| (format!("format.{name}"), value));
    let target = path.to_string_lossy().into_owned();
    let file_type = format_as_file_type(factory);
    LogicalPlanBuilder::copy_to(plan, target, file_type, options.collect(), Vec::new())?.build()
}

/// Returns the plans in the result of EXPLAIN.
fn explanation(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    for batch in batches {
        let [kinds, plans] = batch.columns() else {
            continue;
        };
        let (kinds, plans) = (kinds.as_string::<i32>(), plans.as_string::<i32>());
        for (kind, plan) in kinds.iter().zip(plans.iter()) {
            text.push_str(kind.unwrap_or_default());
            text.push('\n');
            for line in plan.unwrap_or_default().lines() {
                text.push_str("  ");
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Appends an operator and its inputs to a list.
fn add_metrics(
    plan: &Arc<dyn ExecutionPlan>,
    depth: usize,
    operators: &Bound<'_, PyList>,
) -> PyResult<()> {
    let metrics = PyDict::new(operators.py());
    if let Some(found) = plan.metrics() {
        for metric in found.aggregate_by_name().iter() {
            let value = metric.value();
            metrics.set_item(value.name(), value.as_usize())?;
        }
    }
    let operator = PyDict::new(operators.py());
    operator.set_item("operator", plan.name())?;
    let line = displayable(plan.as_ref()).one_line().to_string();
    operator.set_item("description", line.trim_end())?;
    operator.set_item("depth", depth)?;
    operator.set_item("metrics", metrics)?;
    operators.append(operator)?;
    for child in plan.children() {
        add_metrics(child, depth + 1, operators)?;
    }
    Ok(())
}
