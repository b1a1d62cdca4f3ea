//! Plans and runs statements that only read.

use crate::dialect::{Dialect, Session};
use crate::execution::cancellation::Cancellation;
use crate::execution::interruptible::interruptible;
use crate::execution::parameters::{self, Parameters};
use crate::panics::untrusted;
use crate::protocol::wire::result_schema;
use crate::status::{of_datafusion, of_statement, status, wrong};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use std::fmt;
use std::sync::Arc;
use tonic::{Code, Status};

/// A planned statement.
#[derive(Clone)]
pub struct Statement {
    sql: Arc<str>,
    plan: LogicalPlan,
    /// The schema of the result, as sent to clients.
    schema: SchemaRef,
    parameters: Parameters,
    dialect: Arc<dyn Dialect>,
}

impl Statement {
    /// Plans a query, EXPLAIN, SHOW or DESCRIBE. Fails for all other statements.
    pub async fn plan(session: &Session, sql: &str) -> Result<Self, Status> {
        let Session { context, dialect } = session;
        let plan = match dialect.plan(&context.state(), sql).await {
            Ok(plan) => plan,
            Err(error) => return Err(of_statement(session, sql, &error).await),
        };
        let only_reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false)
            .verify_plan(&plan);
        only_reads.map_err(|error| refused(&dialect.describe(&error)))?;
        let parameters =
            Parameters::of(&plan).map_err(|error| of_datafusion(dialect.as_ref(), &error))?;
        Ok(Self {
            sql: sql.into(),
            schema: result_schema(&dialect.result_schema(&plan)),
            plan,
            parameters,
            dialect: Arc::clone(dialect),
        })
    }

    /// Returns the logical plan.
    pub fn logical_plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// Returns `true` if the statement has no parameters.
    pub fn has_no_parameters(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Returns the schema of the result, as sent to clients.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the names and types of the parameters.
    pub fn parameter_schema(&self) -> Schema {
        self.parameters.schema(&self.plan)
    }

    /// Decodes rows of parameters. The statement runs once per row, or once if it has no
    /// parameters.
    pub fn rows(&self, bound: Option<&[u8]>) -> Result<Vec<ParamValues>, Status> {
        match bound {
            _ if self.parameters.is_empty() => Ok(vec![ParamValues::List(Vec::new())]),
            None => {
                let schema = self.parameter_schema();
                let names: Vec<_> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                let names = names.join(", ");
                Err(wrong(format!(
                    "no values are bound to the parameters of the statement: {names}"
                )))
            }
            Some(bytes) => {
                let batches = parameters::decode(bytes)?;
                untrusted(|| self.parameters.rows(&batches))
            }
        }
    }

    /// Replaces the parameters with values.
    pub fn bind(mut self, values: &ParamValues) -> Result<Self, Status> {
        if !self.parameters.is_empty() {
            let plan = self.plan.replace_params_with_values(values);
            self.plan = plan.map_err(|error| of_datafusion(self.dialect.as_ref(), &error))?;
            self.schema = result_schema(&self.dialect.result_schema(&self.plan));
        }
        Ok(self)
    }

    /// Runs the statement until it ends or is cancelled. It gets a session state of its own, so it
    /// cannot affect other statements.
    pub async fn stream(
        self,
        session: &Session,
        cancellation: Cancellation,
    ) -> Result<SendableRecordBatchStream, Status> {
        let frame = DataFrame::new(session.context.state(), self.plan);
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await;
        let stream = plan
            .and_then(|plan| interruptible(plan, &cancellation))
            .and_then(|plan| execute_stream(plan, task));
        match stream {
            Ok(stream) => Ok(stream),
            Err(error) => Err(of_statement(session, &self.sql, &error).await),
        }
    }
}

/// Returns the error for requests that write.
pub fn refused(what: &str) -> Status {
    status(
        Code::PermissionDenied,
        &format!("the server is read-only: {what}"),
    )
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement")
            .field("sql", &self.sql)
            .finish_non_exhaustive()
    }
}
