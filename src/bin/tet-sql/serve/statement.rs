//! Statements that only read.

use crate::serve::panics::untrusted;
use crate::serve::parameters::{self, Parameters};
use crate::serve::status::{of_engine, of_statement, status, wrong};
use crate::serve::wire::result_schema;
use crate::session::interruptible::interruptible;
use crate::session::worker_threads::Cancellation;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use tet_sql::error::describe;
use tonic::{Code, Status};

/// A planned statement.
#[derive(Debug, Clone)]
pub struct Statement {
    sql: Arc<str>,
    plan: LogicalPlan,
    parameters: Parameters,
}

impl Statement {
    /// Plans a statement: a query, EXPLAIN, SHOW or DESCRIBE. All others are refused.
    pub async fn plan(context: &SessionContext, sql: &str) -> Result<Self, Status> {
        let plan = match tet_sql::create_logical_plan(&context.state(), sql).await {
            Ok(plan) => plan,
            Err(error) => return Err(of_statement(context, sql, &error).await),
        };
        let only_reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false)
            .verify_plan(&plan);
        only_reads.map_err(|error| refused(&describe(&error)))?;
        let parameters = Parameters::of(&plan).map_err(|error| of_engine(&error))?;
        Ok(Self {
            sql: sql.into(),
            plan,
            parameters,
        })
    }

    /// The plan.
    pub fn logical_plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// Returns `true` if the statement has no parameters.
    pub fn has_no_parameters(&self) -> bool {
        self.parameters.is_empty()
    }

    /// The schema of its result, as it is sent.
    pub fn schema(&self) -> SchemaRef {
        result_schema(&tet_sql::result_schema(&self.plan))
    }

    /// The parameters that it wants.
    pub fn parameter_schema(&self) -> Schema {
        self.parameters.schema(&self.plan)
    }

    /// The executions that packed rows of parameters make of it: one, if it has no parameters.
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
                    "the statement has parameters that have no values: {names}"
                )))
            }
            Some(bytes) => {
                let batches = parameters::decode(bytes)?;
                untrusted(|| self.parameters.rows(&batches))
            }
        }
    }

    /// The statement with values in place of its parameters.
    pub fn bind(mut self, values: &ParamValues) -> Result<Self, Status> {
        if !self.parameters.is_empty() {
            let plan = self.plan.replace_params_with_values(values);
            self.plan = plan.map_err(|error| of_engine(&error))?;
        }
        Ok(self)
    }

    /// Runs the statement until it is cancelled, with a state of its own: nothing that it does is seen by others.
    pub async fn stream(
        self,
        context: &SessionContext,
        cancellation: Cancellation,
    ) -> Result<SendableRecordBatchStream, Status> {
        let frame = DataFrame::new(context.state(), self.plan);
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await;
        let stream = plan
            .and_then(|plan| interruptible(plan, &cancellation))
            .and_then(|plan| execute_stream(plan, task));
        match stream {
            Ok(stream) => Ok(stream),
            Err(error) => Err(of_statement(context, &self.sql, &error).await),
        }
    }
}

/// What those are told who want to write.
pub fn refused(what: &str) -> Status {
    status(
        Code::PermissionDenied,
        &format!("the server is read-only: {what}"),
    )
}
