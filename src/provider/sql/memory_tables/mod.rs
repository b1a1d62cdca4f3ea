//! Tables of `CREATE TABLE`, whose rows count towards the memory limit as long as the table exists.

mod changes;

use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::memory::PartitionData;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{
    Constraint, DataFusionError, Result, SchemaReference, TableReference, exec_err, not_impl_err,
    plan_err, resources_datafusion_err,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, Expr, LogicalPlan, TableType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, execute_stream_partitioned,
};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;

use crate::provider::sql::memory_tables::changes::MemoryChange;

/// Runs `CREATE TABLE` as DataFusion does, and reserves the memory of the rows. The table that `OR REPLACE` replaces stays
/// until the rows of the new one are known.
pub(super) async fn create_memory_table(
    context: &SessionContext,
    command: CreateMemoryTable,
) -> Result<()> {
    if command.temporary {
        return not_impl_err!("Temporary tables not supported");
    }
    let name = command.name;
    // Rows are not checked, but DataFusion would plan GROUP BY for unique ones.
    if let Some(constraint) = command.constraints.first() {
        let constraint = match constraint {
            Constraint::PrimaryKey(_) => "PRIMARY KEY",
            Constraint::Unique(_) => "UNIQUE",
        };
        return not_impl_err!(
            "table '{name}': {constraint} is not supported, because rows of tables in memory are not checked; leave it out"
        );
    }
    let state = context.state();
    let is_query = !matches!(command.input.as_ref(), LogicalPlan::EmptyRelation(_));
    let input = state.optimize(&command.input)?;
    let exists = context.table(name.clone()).await.is_ok();
    match (command.if_not_exists, command.or_replace, exists) {
        (true, true, true) => return exec_err!("'IF NOT EXISTS' cannot coexist with 'REPLACE'"),
        (true, false, true) => return Ok(()),
        (false, false, true) => return exec_err!("Table '{name}' already exists"),
        _ => {}
    }
    let defaults = command.column_defaults.into_iter().collect();
    let complete = |rows: MemTable| rows.with_column_defaults(defaults);
    let table = MemoryTable::collect(state, input, is_query, complete);
    let table = table.await?;
    if exists && let Some(old) = context.deregister_table(name.clone())? {
        mark_dropped(old.as_ref(), name.table());
    }
    context.register_table(name, Arc::new(table))?;
    Ok(())
}

/// Runs a statement that may drop or replace tables.
pub(super) async fn change_tables(
    context: &SessionContext,
    statement: DdlStatement,
) -> Result<DataFrame> {
    let names = match &statement {
        DdlStatement::DropTable(command) => vec![command.name.clone()],
        DdlStatement::CreateView(command) => vec![command.name.clone()],
        DdlStatement::CreateExternalTable(command) => vec![command.name.clone()],
        DdlStatement::DropCatalogSchema(command) => {
            let name = &command.name;
            let table = |table: String| match name {
                SchemaReference::Bare { schema } => TableReference::partial(&**schema, table),
                SchemaReference::Full { schema, catalog } => {
                    TableReference::full(&**catalog, &**schema, table)
                }
            };
            let schema = context.state().schema_for_ref(table(String::new()));
            let tables = schema.map_or_else(|_| Vec::new(), |schema| schema.table_names());
            tables.into_iter().map(table).collect()
        }
        _ => Vec::new(),
    };
    let mut before = Vec::with_capacity(names.len());
    for name in names {
        if let Ok(table) = context.table_provider(name.clone()).await
            && table.downcast_ref::<MemoryTable>().is_some()
        {
            before.push((name, table));
        }
    }
    let plan = LogicalPlan::Ddl(statement);
    let changed = context.execute_logical_plan(plan).await?;
    for (name, table) in before {
        let now = context.table_provider(name.clone()).await;
        if !now.is_ok_and(|now| Arc::ptr_eq(&now, &table)) {
            mark_dropped(table.as_ref(), name.table());
        }
    }
    Ok(changed)
}

/// Lets the plans of views and prepared statements fail that still have a table in memory of this name.
fn mark_dropped(table: &dyn TableProvider, name: &str) {
    if let Some(table) = table.downcast_ref::<MemoryTable>() {
        // A table has one name.
        let _ = table.dropped.set(name.to_string());
    }
}

/// A table in memory with a reservation for its rows.
#[derive(Debug)]
struct MemoryTable {
    rows: MemTable,
    memory: Arc<MemoryReservation>,
    /// The name of the table, once it is dropped or replaced.
    dropped: OnceLock<String>,
}

impl MemoryTable {
    /// Creates a table of the rows of an optimized plan. Those of a query may be followed by rows with nulls.
    async fn collect(
        state: SessionState,
        plan: LogicalPlan,
        is_query: bool,
        complete: impl FnOnce(MemTable) -> MemTable,
    ) -> Result<Self> {
        // Rules that expect a plan as written must not see the optimized one, so that it is not optimized again.
        let plan = state.query_planner().create_physical_plan(&plan, &state);
        let plan = plan.await?;
        let schema = match is_query {
            true => nullable(&plan.schema()),
            false => plan.schema(),
        };
        let mut names = HashSet::new();
        if let Some(field) = schema
            .fields()
            .iter()
            .find(|field| !names.insert(field.name()))
        {
            return plan_err!("the table would have two columns named {:?}", field.name());
        }
        let context = state.task_ctx();
        let pool = context.memory_pool();
        let rows = Arc::new(Reserved::new(
            MemoryConsumer::new("rows of a table").register(pool),
            pool,
        ));
        let partitions = execute_stream_partitioned(plan, context)?;
        let tasks: Vec<_> = partitions
            .into_iter()
            .map(|partition| {
                let rows = Arc::clone(&rows);
                SpawnedTask::spawn(async move { rows.collect(partition).await })
            })
            .collect();
        let mut partitions = Vec::with_capacity(tasks.len());
        for task in tasks {
            let batches = task.join_unwind().await;
            let batches = batches.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)));
            let batches = batches??.into_iter();
            let batches = batches.map(|batch| batch.with_schema(Arc::clone(&schema)));
            partitions.push(batches.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            rows: complete(MemTable::try_new(schema, partitions)?),
            memory: Arc::new(rows.memory.split(rows.memory.size())),
            dropped: OnceLock::new(),
        })
    }

    fn check_exists(&self) -> Result<()> {
        match self.dropped.get() {
            Some(name) => plan_err!(
                "table '{name}' was dropped or replaced after the view or the prepared statement with it was made; make that again"
            ),
            None => Ok(()),
        }
    }

    /// Plans a DELETE, or an UPDATE with assignments.
    fn change(
        &self,
        state: &dyn Session,
        filters: Vec<Expr>,
        assignments: Option<Vec<(String, Expr)>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.check_exists()?;
        let memory = Arc::clone(&self.memory);
        let change = MemoryChange::new(&self.rows, memory, state, filters, assignments)?;
        Ok(change.into_plan())
    }
}

/// Returns a schema whose columns may all be null.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        self.rows.table_type()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.rows.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.check_exists()?;
        self.rows.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.check_exists()?;
        // Checks the columns and the operation.
        let checked = self.rows.insert_into(state, Arc::clone(&input), operation);
        checked.await?;
        let sink = MemorySink {
            schema: self.rows.schema(),
            partitions: self.rows.batches.clone(),
            memory: Arc::clone(&self.memory),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }

    async fn delete_from(
        &self,
        state: &dyn Session,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.change(state, filters, None)
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.change(state, filters, Some(assignments))
    }
}

/// Adds rows to a table in memory. If the rows do not fit in the memory limit, none is added.
#[derive(Debug)]
struct MemorySink {
    schema: SchemaRef,
    partitions: Vec<PartitionData>,
    memory: Arc<MemoryReservation>,
}

impl DisplayAs for MemorySink {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTable (partitions={})", self.partitions.len())
    }
}

#[async_trait]
impl DataSink for MemorySink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let added = Reserved::new(self.memory.new_empty(), context.memory_pool());
        let batches = added.collect(rows).await?;
        self.check(&batches)?;
        let count = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        // All locks are held until the memory is accounted for, as by the other changes of rows.
        let mut partitions = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            partitions.push(partition.write().await);
        }
        let all = partitions.len().max(1);
        for (number, batch) in batches.into_iter().enumerate() {
            partitions[number % all].push(batch);
        }
        self.memory.grow(added.memory.free());
        Ok(count as u64)
    }
}

impl MemorySink {
    /// Checks that batches have the types of the table. A batch with another one would make the table unreadable.
    fn check(&self, batches: &[RecordBatch]) -> Result<()> {
        for batch in batches {
            let columns = batch.columns().iter().zip(self.schema.fields());
            for (column, field) in columns {
                if column.data_type() != field.data_type() {
                    return exec_err!(
                        "column {}: found rows of type {}, expected {}; cast them",
                        field.name(),
                        column.data_type(),
                        field.data_type()
                    );
                }
            }
        }
        Ok(())
    }
}

/// Rows in memory, each buffer of which is reserved once.
#[derive(Debug)]
struct Reserved {
    memory: MemoryReservation,
    /// The pool of the reservation.
    pool: Arc<dyn MemoryPool>,
    counter: Mutex<RecordBatchMemoryCounter>,
}

impl Reserved {
    fn new(memory: MemoryReservation, pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            memory,
            pool: Arc::clone(pool),
            counter: Mutex::default(),
        }
    }

    /// Collects the batches of a stream.
    async fn collect(&self, mut rows: SendableRecordBatchStream) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            self.reserve(&batch)?;
            batches.push(batch);
        }
        Ok(batches)
    }

    fn reserve(&self, batch: &RecordBatch) -> Result<()> {
        let mut counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = counter.count_batch(batch);
        self.memory.try_grow(bytes).map_err(|_| {
            let limit = match self.pool.memory_limit() {
                MemoryLimit::Finite(limit) => format!("limit of {limit} bytes"),
                _ => "limit".to_string(),
            };
            let others = self.pool.reserved().saturating_sub(self.memory.size());
            resources_datafusion_err!(
                "the rows of a table are kept in memory, and {} or more bytes of new rows do not fit in the memory {limit}, \
                 of which tables and queries hold {others} bytes; write a file with COPY instead, create a view, drop \
                 other tables, or raise the memory limit",
                counter.memory_usage()
            )
        })
    }
}
