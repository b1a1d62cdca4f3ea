//! Rewrites statements that DataFusion does not support as queries that it supports.

use crate::statement::outcome::Error;
use crate::statement::summarize;
use crate::statement::tokens::word;
use datafusion::prelude::SessionContext;
use std::borrow::Cow;

/// Returns the statement itself, or a query that answers it.
///
/// Rewrites `SUMMARIZE t` and `SUMMARIZE SELECT ...`. Also rewrites `SHOW FUNCTIONS`, because
/// DataFusion's leaves out functions that take arguments of any type.
pub async fn rewritten<'a>(context: &SessionContext, sql: &'a str) -> Result<Cow<'a, str>, Error> {
    let (first, rest) = word(sql);
    if first.eq_ignore_ascii_case("SUMMARIZE") && !rest.trim().is_empty() {
        return Ok(Cow::Owned(summarize::query(context, rest).await?));
    }
    if first.eq_ignore_ascii_case("SHOW") {
        let (second, rest) = word(rest);
        if second.eq_ignore_ascii_case("FUNCTIONS") {
            return Ok(Cow::Owned(functions(rest)));
        }
    }
    Ok(Cow::Borrowed(sql))
}

/// Returns a query for functions by name. `filter` is `LIKE 'a%'`, `WHERE` with a predicate, or
/// empty.
fn functions(filter: &str) -> String {
    let (word, condition) = word(filter);
    let filter = match word.to_ascii_uppercase().as_str() {
        "" => String::new(),
        "WHERE" => format!("WHERE {condition}"),
        _ => format!("WHERE function_name {filter}"),
    };
    format!(
        "SELECT function_name, function_type, syntax_example, description FROM tet_functions() {filter}\n\
         ORDER BY function_name, function_type"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_statements_stay_as_they_are() {
        let context = SessionContext::new();
        for sql in ["SELECT 1", "SHOW TABLES", "SUMMARIZE", "summarized"] {
            match rewritten(&context, sql).await {
                Ok(Cow::Borrowed(same)) => assert_eq!(same, sql),
                _ => panic!("{sql}"),
            }
        }
    }
}
