//! Plans statements with the values of their parameters.

use datafusion::common::{ParamValues, Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::placeholders::replaced;

/// Plans a statement with the values of its parameters, if it has any.
///
/// # Errors
/// Fails if the statement cannot be planned, if a parameter has no value, or if the statement does not use
/// a parameter that has a value.
pub async fn planned(
    state: &SessionState,
    sql: &str,
    values: Option<ParamValues>,
) -> Result<LogicalPlan> {
    let Some(values) = values else {
        return tet_sql::create_logical_plan(state, sql).await;
    };
    let untyped = match tet_sql::create_logical_plan(state, sql).await {
        Ok(plan) => {
            check_used(&plan, &values)?;
            plan.with_param_values(values.clone())
        }
        error => error,
    };
    let error = match untyped {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    // DataFusion cannot plan `time + $1` without the type of `$1`, so the second attempt adds the types. The
    // first attempt has none, because DataFusion then infers the type that `lat > $1` needs, and names
    // columns after the text of the user.
    match tet_sql::create_logical_plan(state, &typed(sql, &values)).await {
        Ok(plan) => {
            check_used(&plan, &values)?;
            plan.with_param_values(values)
        }
        Err(_) => Err(error),
    }
}

/// Returns a statement in which placeholders are cast to the Arrow types of their values. `CAST` would not
/// do: SQL has no name for durations.
///
/// Nulls stay without a type, which DataFusion infers.
fn typed(sql: &str, values: &ParamValues) -> String {
    replaced(sql, |name| {
        // Replacing the parameters reports a placeholder without a value.
        let value = values.get_placeholders_with_values(name).ok()?.value;
        (!value.is_null()).then(|| format!("arrow_cast({name}, '{}')", value.data_type()))
    })
}

/// Checks that a plan uses all parameters that have values.
fn check_used(plan: &LogicalPlan, values: &ParamValues) -> Result<()> {
    let used = plan.get_parameter_names()?;
    let unused = match values {
        ParamValues::List(listed) => (1..=listed.len())
            .map(|number| format!("${number}"))
            .find(|name| !used.contains(name)),
        ParamValues::Map(named) => named
            .keys()
            .map(|name| format!("${name}"))
            .find(|name| !used.contains(name)),
    };
    match unused {
        Some(name) => {
            plan_err!(
                "parameter {name} has a value, but the statement does not use it: remove the value, or write {name} in the statement"
            )
        }
        None => Ok(()),
    }
}
