//! Advice about statements that failed.

use crate::diagnostics::suggestion::nearest;
use crate::meta::tables::{self, Listed};
use datafusion::common::TableReference;
use datafusion::common::utils::quote_identifier;
use datafusion::execution::context::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor, Visitor,
};
use std::ops::ControlFlow;
use tet_sql::provider::sql::budget::parse;
use tet_sql::provider::sql::walk::walk;

/// The maximum number of tables of a schema that are listed.
const MAX_TABLES: usize = 12;

/// Functions of other systems and their equivalents here.
const EQUIVALENTS: [(&str, &str); 34] = [
    ("any_value", "first_value(x)"),
    ("argmax", "arg_max(x, value)"),
    ("argmin", "arg_min(x, value)"),
    ("date_diff", "time2 - time1"),
    ("datediff", "time2 - time1"),
    ("dayofweek", "date_part('dow', time)"),
    ("epoch", "date_part('epoch', time)"),
    ("great_circle_distance", "haversine(lat1, lon1, lat2, lon2)"),
    ("if", "CASE WHEN condition THEN x ELSE y END"),
    ("iff", "CASE WHEN condition THEN x ELSE y END"),
    ("iif", "CASE WHEN condition THEN x ELSE y END"),
    (
        "kurtosis",
        "avg(power((x - m) / s, 4)) - 3, with m the mean and s the stddev_pop of a subquery",
    ),
    ("mod", "x % y"),
    (
        "mode",
        "SELECT x FROM ... GROUP BY x ORDER BY count(*) DESC LIMIT 1",
    ),
    ("nanmax", "max(x)"),
    ("nanmean", "avg(x)"),
    ("nanmedian", "median(x)"),
    ("nanmin", "min(x)"),
    ("nanstd", "stddev_pop(x)"),
    ("nansum", "sum(x)"),
    ("percentile", "quantile(x, 0.9)"),
    ("prod", "product(x)"),
    ("quantile_cont", "quantile(x, 0.9)"),
    ("sign", "signum(x)"),
    (
        "skewness",
        "avg(power((x - m) / s, 3)), with m the mean and s the stddev_pop of a subquery",
    ),
    (
        "st_distance",
        "haversine(lat1, lon1, lat2, lon2), in kilometres",
    ),
    (
        "st_distance_sphere",
        "haversine(lat1, lon1, lat2, lon2), in kilometres",
    ),
    ("std", "stddev_pop(x), or stddev_samp(x)"),
    ("strftime", "to_char(time, '%Y-%m-%d')"),
    ("strptime", "to_timestamp(text, '%d.%m.%Y')"),
    ("time_bucket", "date_bin(INTERVAL '6 hours', time)"),
    ("variance", "var(x), the same as var_samp(x), or var_pop(x)"),
    ("weekday", "date_part('isodow', time)"),
    ("weekofyear", "week(time)"),
];

/// Functions of DataFusion's feature `crypto_expressions`, which is off.
const HASHES: [&str; 6] = ["digest", "md5", "sha224", "sha256", "sha384", "sha512"];

/// Adds advice to the message of a failed statement, or replaces an unclear message.
pub async fn advised(context: &SessionContext, sql: &str, message: String) -> String {
    if let Some(name) = quoted_after(&message, "Invalid function ") {
        return format!(
            "Invalid function '{name}'{}",
            function_advice(context, name)
        );
    }
    if let Some(name) = quoted_after(&message, "Table ")
        && message.ends_with("doesn't exist.")
        && context.table_exist(name).unwrap_or(false)
    {
        return format!(
            "'{name}' belongs to a file and cannot be dropped; DROP TABLE only drops tables made by CREATE TABLE"
        );
    }
    if let Some(advice) = grouping_advice(context, sql) {
        return advice;
    }
    if let Some(advice) = lateral_advice(context, sql, &message) {
        return advice;
    }
    if message.ends_with("not found")
        && let Some(advice) = table_advice(context, sql).await
    {
        return message + &advice;
    }
    message
}

/// Returns the quoted text that follows `start` at the beginning of a message.
fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(start)?.strip_prefix('\'')?;
    Some(rest.split_once('\'')?.0)
}

/// Finds a subquery in FROM that refers to a table beside it, and is not LATERAL.
struct BesideSubquery<'a> {
    /// The name of the table.
    table: &'a str,
}

impl BesideSubquery<'_> {
    fn is_table(&self, factor: &TableFactor) -> bool {
        let TableFactor::Table { name, alias, .. } = factor else {
            return false;
        };
        let last = name.0.last().and_then(|part| part.as_ident());
        let name = alias.as_ref().map(|alias| &alias.name).or(last);
        name.is_some_and(|name| name.value.eq_ignore_ascii_case(self.table))
    }
}

impl Visitor for BesideSubquery<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let factors = || {
            let tables = select.from.iter();
            tables.flat_map(|table| {
                let joined = table.joins.iter().map(|join| &join.relation);
                std::iter::once(&table.relation).chain(joined)
            })
        };
        let refers = |factor: &TableFactor| match factor {
            TableFactor::Derived {
                lateral: false,
                subquery,
                ..
            } => walk(subquery, &mut Reference { table: self.table }).is_break(),
            _ => false,
        };
        match factors().any(|factor| self.is_table(factor)) && factors().any(refers) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Finds a column that is qualified with the name of a table.
struct Reference<'a> {
    table: &'a str,
}

impl Visitor for Reference<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts)
                if parts.len() == 2 && parts[0].value.eq_ignore_ascii_case(self.table) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns an explanation if a subquery in FROM refers to a table beside it.
fn lateral_advice(context: &SessionContext, sql: &str, message: &str) -> Option<String> {
    let rest = message.strip_prefix("No field named ")?;
    let field = rest.split_once(". ").map_or(rest, |(field, _)| field);
    let field = field.trim_end_matches('.');
    let (table, _) = field.split_once('.')?;
    let Statement::Statement(statement) = parse(&context.state(), sql).ok()? else {
        return None;
    };
    walk(&statement, &mut BesideSubquery { table }).is_break().then(|| {
        format!(
            "No field named {field}: a subquery in FROM cannot refer to the table '{table}' beside it; join on its columns, or \
             write the expression in the SELECT list"
        )
    })
}

/// Returns an explanation if a statement groups by an aggregate, which is an error.
fn grouping_advice(context: &SessionContext, sql: &str) -> Option<String> {
    let state = context.state();
    let Statement::Statement(statement) = parse(&state, sql).ok()? else {
        return None;
    };
    let mut visitor = AggregateGroups {
        state: &state,
        found: None,
    };
    let _ = walk(&statement, &mut visitor);
    visitor.found
}

/// A visitor that finds a GROUP BY of an aggregate.
struct AggregateGroups<'a> {
    state: &'a SessionState,
    found: Option<String>,
}

/// A visitor that stops at an aggregate function.
struct Aggregate<'a>(&'a SessionState);

impl Visitor for Aggregate<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Function(function) if function.over.is_none() => {
                let name = function.name.to_string().to_lowercase();
                match self.0.aggregate_functions().contains_key(&name) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for AggregateGroups<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let GroupByExpr::Expressions(groups, _) = &select.group_by else {
            return ControlFlow::Continue(());
        };
        for group in groups {
            // A number or an alias refers to an item of the SELECT list.
            let text = group.to_string();
            let number = text
                .parse()
                .ok()
                .and_then(|number: usize| number.checked_sub(1));
            let item = select
                .projection
                .iter()
                .enumerate()
                .find_map(|(index, item)| match item {
                    SelectItem::UnnamedExpr(expression) if number == Some(index) => {
                        Some(expression)
                    }
                    SelectItem::ExprWithAlias { expr, alias }
                        if number == Some(index) || alias.to_string() == text =>
                    {
                        Some(expr)
                    }
                    _ => None,
                });
            let expression = item.unwrap_or(group);
            if walk(expression, &mut Aggregate(self.state)).is_break() {
                let is = match item {
                    Some(_) => format!("GROUP BY {group} stands for {expression}, which is"),
                    None => format!("GROUP BY {group} is"),
                };
                self.found = Some(format!(
                    "{is} an aggregate; group by the columns that are not aggregated, or leave GROUP BY out for one row"
                ));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Suggests a replacement for a function that does not exist.
fn function_advice(context: &SessionContext, name: &str) -> String {
    let lower = name.to_lowercase();
    if let Some((_, other)) = EQUIVALENTS.iter().find(|(other, _)| *other == lower) {
        return format!("; write {other}");
    }
    if HASHES.contains(&lower.as_str()) {
        return "; this program is built without DataFusion's hash functions".to_owned();
    }
    let state = context.state();
    let scalars = state.scalar_functions().keys();
    let names = scalars
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys());
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    match nearest(&lower, names) {
        Some(meant) => format!(". Did you mean '{meant}'?"),
        None => "; SHOW FUNCTIONS lists all that exist".to_owned(),
    }
}

/// Suggests a replacement for the first table of a statement that does not exist.
async fn table_advice(context: &SessionContext, sql: &str) -> Option<String> {
    let state = context.state();
    let statement = parse(&state, sql).ok()?;
    let references = state.resolve_table_references(&statement).ok()?;
    let missing = references
        .into_iter()
        .find(|reference| !context.table_exist(reference.clone()).unwrap_or(false))?;
    let listed = tables::list(context);
    if let Some(advice) = schema_advice(&missing, &listed) {
        return Some(advice);
    }
    let name = nearest(
        missing.table(),
        listed.iter().map(|listed| listed.table.as_str()),
    )?;
    let config = context.copied_config();
    let default = &config.options().catalog.default_schema;
    // Several tables may have this name. Prefer the one in the schema that was meant, then the one
    // in the default schema.
    let wanted = missing.schema().unwrap_or(default);
    let found = listed
        .iter()
        .filter(|listed| listed.table == name)
        .min_by_key(|listed| {
            let is_meant = nearest(wanted, [listed.schema.as_str()]).is_some();
            (!is_meant, listed.schema != *default)
        })?;
    Some(match found.schema == *default {
        true => format!("; did you mean '{name}'?"),
        false => format!("; did you mean '{}.{name}'?", found.schema),
    })
}

/// Lists the tables of a schema whose name was used as that of a table.
fn schema_advice(missing: &TableReference, listed: &[Listed]) -> Option<String> {
    let TableReference::Bare { table } = missing else {
        return None;
    };
    let is_schema = |listed: &&Listed| listed.schema.eq_ignore_ascii_case(table);
    let tables: Vec<String> = listed
        .iter()
        .filter(is_schema)
        .map(|listed| {
            format!(
                "{}.{}",
                quote_identifier(&listed.schema),
                quote_identifier(&listed.table)
            )
        })
        .collect();
    if tables.is_empty() {
        return None;
    }
    let more = if tables.len() > MAX_TABLES {
        ", ..."
    } else {
        ""
    };
    let shown = tables[..tables.len().min(MAX_TABLES)].join(", ");
    Some(format!(
        "; {table} is a schema with the tables {shown}{more}"
    ))
}
