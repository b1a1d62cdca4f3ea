//! Runs statements that DataFusion would not run as written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::FieldRef;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, Result, exec_err, not_impl_err};
use datafusion::execution::SessionState;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    DdlStatement, Execute, Expr, LogicalPlan, LogicalPlanBuilder, PlanType, Prepare, Statement,
    ToStringifiedPlan,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::{DataFrame, SessionConfig};

use crate::provider::rules::order::analyze_as_written;
use crate::provider::sql::memory_tables::{change_tables, create_memory_table};

/// The name in `DEALLOCATE ALL`.
const ALL: &str = "all";

/// Runs a statement as [`SessionContext::execute_logical_plan`] does, with these differences in sessions of
/// [`enable_arrays`](crate::enable_arrays):
///
/// - `PREPARE` keeps the plan as it was written. DataFusion 55 optimizes it before types are coerced, so that `EXECUTE`
///   may give wrong answers.
/// - `DEALLOCATE ALL` removes all prepared statements of the session.
/// - `CREATE TABLE` reserves the memory of the rows, and fails if they do not fit in the memory limit.
/// - Views and prepared statements with a table that `DROP TABLE` or `CREATE OR REPLACE TABLE` removed fail.
/// - `CREATE VIEW` applies the session's rules for plans as written. DataFusion 55 coerces types before them.
///
/// # Errors
/// Fails as [`SessionContext::execute_logical_plan`] does.
pub async fn execute_logical_plan(
    context: &SessionContext,
    plan: LogicalPlan,
) -> Result<DataFrame> {
    let prepared = PreparedStatements::of(context);
    let session = context.session_id();
    match (plan, prepared) {
        (LogicalPlan::Statement(Statement::Prepare(statement)), Some(prepared)) => {
            prepared.add(session, statement)?;
            nothing(context)
        }
        (LogicalPlan::Statement(Statement::Execute(statement)), Some(prepared)) => {
            match prepared.get(session, &statement.name) {
                Some(prepared) => {
                    let state = context.state();
                    let plan = with_parameters(&state, &prepared, statement)?;
                    Ok(DataFrame::new(state, plan))
                }
                None => {
                    let plan = LogicalPlan::Statement(Statement::Execute(statement));
                    context.execute_logical_plan(plan).await
                }
            }
        }
        (LogicalPlan::Statement(Statement::Deallocate(statement)), Some(prepared))
            if prepared.remove(session, &statement.name) =>
        {
            nothing(context)
        }
        (LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)), _) => {
            // Boxed to keep the future small.
            Box::pin(create_memory_table(context, command)).await?;
            nothing(context)
        }
        (LogicalPlan::Ddl(DdlStatement::CreateView(mut view)), _) => {
            let input = Arc::unwrap_or_clone(view.input);
            view.input = Arc::new(analyze_as_written(&context.state(), input)?);
            Box::pin(change_tables(context, DdlStatement::CreateView(view))).await
        }
        (LogicalPlan::Ddl(statement), _) => Box::pin(change_tables(context, statement)).await,
        (other, _) => context.execute_logical_plan(other).await,
    }
}

/// Puts the plan of the prepared statement into an `EXPLAIN EXECUTE`, which DataFusion 55 cannot plan.
///
/// # Errors
/// Fails if there is no such statement, or the parameters do not fit.
pub(super) fn explain_prepared(state: &SessionState, mut plan: LogicalPlan) -> Result<LogicalPlan> {
    let explained = match &mut plan {
        LogicalPlan::Explain(explain) => &mut explain.plan,
        LogicalPlan::Analyze(analyze) => &mut analyze.input,
        _ => return Ok(plan),
    };
    let LogicalPlan::Statement(Statement::Execute(statement)) = explained.as_ref() else {
        return Ok(plan);
    };
    let Some(all) = state.config().get_extension::<PreparedStatements>() else {
        return Ok(plan);
    };
    let Some(prepared) = all.get(state.session_id().to_owned(), &statement.name) else {
        return exec_err!("Prepared statement '{}' does not exist", statement.name);
    };
    *explained = Arc::new(with_parameters(state, &prepared, statement.clone())?);
    if let LogicalPlan::Explain(explain) = &mut plan {
        let initial = explain.plan.to_stringified(PlanType::InitialLogicalPlan);
        explain.stringified_plans = vec![initial];
    }
    Ok(plan)
}

/// Returns the result of a statement without rows.
fn nothing(context: &SessionContext) -> Result<DataFrame> {
    let plan = LogicalPlanBuilder::empty(false).build()?;
    Ok(DataFrame::new(context.state(), plan))
}

/// The prepared statements of the sessions that share a configuration.
#[derive(Debug, Default)]
pub(crate) struct PreparedStatements(Mutex<HashMap<(String, String), Arc<PreparedStatement>>>);

#[derive(Debug)]
struct PreparedStatement {
    plan: LogicalPlan,
    /// The number of parameters.
    parameters: usize,
    /// The types of the parameters, if the statement has them.
    fields: Vec<FieldRef>,
}

impl PreparedStatements {
    /// Adds the prepared statements of a session, unless it has them.
    pub fn install(config: &mut SessionConfig) {
        if config.get_extension::<Self>().is_none() {
            config.set_extension(Arc::new(Self::default()));
        }
    }

    fn of(context: &SessionContext) -> Option<Arc<Self>> {
        let state = context.state_ref();
        let state = state.read();
        state.config().get_extension::<Self>()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<PreparedStatement>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, session: String, statement: Prepare) -> Result<()> {
        let Prepare {
            name,
            input,
            fields,
        } = statement;
        let parameters = input.get_parameter_names()?.len();
        if !fields.is_empty() && fields.len() != parameters {
            return exec_err!(
                "Prepare specifies {} data types but query has {parameters} parameters",
                fields.len()
            );
        }
        let mut all = self.all();
        let key = (session, name);
        if all.contains_key(&key) {
            return exec_err!("Prepared statement '{}' already exists", key.1);
        }
        let statement = PreparedStatement {
            plan: Arc::unwrap_or_clone(input),
            parameters,
            fields,
        };
        all.insert(key, Arc::new(statement));
        Ok(())
    }

    fn get(&self, session: String, name: &str) -> Option<Arc<PreparedStatement>> {
        self.all().get(&(session, name.to_string())).map(Arc::clone)
    }

    /// Removes a statement, or with the name `all` those of the session. Returns `false` if there is none of this name.
    fn remove(&self, session: String, name: &str) -> bool {
        let mut all = self.all();
        if name == ALL {
            all.retain(|(other, _), _| *other != session);
            return true;
        }
        all.remove(&(session, name.to_string())).is_some()
    }
}

/// Returns the query of a prepared statement with the values of its parameters.
fn with_parameters(
    state: &SessionState,
    prepared: &PreparedStatement,
    statement: Execute,
) -> Result<LogicalPlan> {
    let Execute {
        name, parameters, ..
    } = statement;
    if parameters.len() != prepared.parameters {
        return exec_err!(
            "Prepared statement '{name}' expects {} parameters, but {} provided",
            prepared.parameters,
            parameters.len()
        );
    }
    let known = SimplifyContext::builder()
        .with_schema(Arc::clone(prepared.plan.schema()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(known);
    let mut fields = prepared.fields.iter();
    let values = parameters.into_iter().map(|value| {
        let value = match simplifier.simplify(value)? {
            Expr::Literal(value, metadata) => ScalarAndMetadata::new(value, metadata),
            other => return not_impl_err!("Unsupported parameter type: {other}"),
        };
        match fields.next() {
            Some(field) => value.cast_storage_to(field.data_type()),
            None => Ok(value),
        }
    });
    let values = ParamValues::List(values.collect::<Result<_>>()?);
    prepared.plan.clone().replace_params_with_values(&values)
}
