//! Advice about subqueries that DataFusion cannot turn into joins.

use datafusion::error::DataFusionError;

/// Advice about a scalar subquery that may return several values.
const VALUE: &str = "a subquery that refers to the query around it must return one value here, by an aggregate without GROUP BY or by \
                     LIMIT 1; otherwise, write a join with GROUP BY";
/// Advice about a subquery of EXISTS or IN that cannot be turned into a join.
const CONDITION: &str = "EXISTS or IN with a subquery cannot be turned into a join here: in the ON of an outer join, it must refer to \
                         one side only; write a LEFT JOIN with (SELECT DISTINCT key, true AS found FROM ...), and found IS NOT NULL";

/// Advice about `NOT IN` with a subquery that cannot be turned into a join.
const NOT_IN: &str = "NOT IN with a subquery that refers to the query around it cannot be turned into a join here; write NOT EXISTS \
                      (SELECT 1 ... WHERE y = x) instead of x NOT IN (SELECT y ...)";

/// Returns advice that replaces the message of an error, if the message is about a subquery that DataFusion cannot turn into a
/// join. Such messages consist of the plan.
pub(super) fn advice(message: &str) -> Option<String> {
    match message.contains("OuterReferenceColumn(") {
        true => Some(outer_reference_advice(message)),
        false => reason(message).map(str::to_owned),
    }
}

/// Returns advice that replaces the message of an error of a rule of DataFusion that turns subqueries into joins, or about a column
/// of the table that such a rule makes of a subquery.
pub(super) fn failed_rule(error: &DataFusionError) -> Option<String> {
    let is_of_planning = matches!(
        error.find_root(),
        DataFusionError::SchemaError(..) | DataFusionError::Plan(_)
    );
    let text = error.to_string();
    let rules = [
        ("'scalar_subquery_to_join' failed", VALUE),
        ("'decorrelate_predicate_subquery' failed", CONDITION),
        ("__correlated_sq_", CONDITION),
        ("__scalar_sq_", VALUE),
        ("null_aware anti join only supports", NOT_IN),
    ];
    let failed = rules.into_iter().find(|(rule, _)| text.contains(rule));
    failed
        .filter(|_| is_of_planning)
        .map(|(_, advice)| advice.to_owned())
}

/// Suggests a rewrite of a subquery that DataFusion cannot turn into a join.
fn outer_reference_advice(message: &str) -> String {
    // The last name in the message is that of the column.
    let name = message.rsplit("name: \"").next().unwrap_or_default();
    let name = name.split('"').next().unwrap_or_default();
    format!(
        "a subquery refers to '{name}' of the query around it in a way that cannot be turned into a join; \
         write a join with GROUP BY, or a window function, instead"
    )
}

/// Explains why a subquery cannot be planned, and what to write instead.
fn reason(message: &str) -> Option<&'static str> {
    const PLACE: &str = "a subquery that refers to the query around it must refer to one side only in the ON of an outer join, and \
                         cannot be in ORDER BY here; give it a name in the SELECT list of a subquery in FROM, and use this name";
    if let Some((_, expression)) =
        message.split_once("Physical plan does not support logical expression ")
    {
        return match expression.split_once('(')?.0 {
            "ScalarSubquery" => Some(VALUE),
            "Exists" | "InSubquery" | "SetComparison" => Some(CONDITION),
            _ => None,
        };
    }
    [
        (
            "In/Exist/SetComparison subquery can only be used in ",
            CONDITION,
        ),
        ("Correlated scalar subquery can only be used in ", PLACE),
        ("Correlated scalar subquery must be aggregated", VALUE),
        ("A GROUP BY clause in a scalar correlated subquery ", VALUE),
    ]
    .into_iter()
    .find_map(|(start, advice)| message.contains(start).then_some(advice))
}
