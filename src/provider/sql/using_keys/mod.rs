//! The columns of `USING` and `NATURAL` joins, as defined by the SQL standard.

mod projection;
mod scope;
mod syntax;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlannedStatement};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Ident, JoinConstraint, OrderBy, OrderByKind, Query,
    Select, SetExpr, TableFactor, TableWithJoins, VisitMut, With,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::provider::sql::execution::explain_prepared;
use crate::provider::sql::rewrites::{column_lists, grouping_sets};
#[cfg(feature = "remote")]
use crate::provider::sql::urls::hide_secrets;
use crate::provider::sql::using_keys::scope::{FromClause, Scope};
use crate::provider::sql::using_keys::syntax::{
    Column, PreservedSide, binary, coalesce, column, constraint, has_keys, is_lateral, last_joined,
    mentions, normalize, put_queries, replace_in, take_queries, unique_index,
};
use crate::provider::sql::variable_names::plan_statement;
use crate::provider::sql::{budget, cast_names, copied_types, groups, many_columns, resets};

/// Plans a statement as [`SessionState::create_logical_plan`] does, with these differences:
///
/// - A statement that exceeds the session's [budget] is rejected, and long chains of AND and OR are
///   balanced.
/// - The key of a `USING` or `NATURAL` join is one column, as in the SQL standard. An unqualified
///   key is the right table's key in a RIGHT join, the first non-null key of both tables in a FULL
///   join, and the left table's key otherwise, also in correlated subqueries. Keys that are qualified
///   with a table's name are not affected.
/// - The values of a table over one array, whose column is `value`, can be referred to by the name
///   of the array: `SELECT avg(t2m) FROM t2m`. Columns and aliases with that name take precedence,
///   and `SELECT *` is not changed.
/// - `CREATE SCHEMA` and `SHOW COLUMNS` know that the groups of files are schemas.
/// - Passwords and signatures in URLs that stand for tables are kept out of the plan.
/// - If two selected expressions have the same name, as a cast has that of its operand, casts without an alias are named
///   after their text. A list of column names, as in `WITH t(a, b) AS (SELECT 0, 0)`, names them, too.
/// - `EXPLAIN EXECUTE` explains the plan of the prepared statement.
/// - Parameters of `PREPARE` without types have the types of their values.
/// - ROLLUP, CUBE and GROUPING SETS may contain parameters, and positions of selected columns.
/// - `IS DISTINCT FROM` binds more strongly than AND, and tuples in IN lists may contain any
///   expressions.
///
/// DataFusion 55.2 uses the left table's key in all joins, which is NULL in rows of a RIGHT or FULL
/// join without a partner. `SELECT *` returns the key of the table whose name sorts first, and in
/// WHERE the key is ambiguous.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # #[tokio::main]
/// # async fn main() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new();
/// let sql = "SELECT k FROM (VALUES (1), (2)) a(k) FULL JOIN (VALUES (2), (3)) b(k) USING (k) ORDER BY k";
/// let plan = tet_sql::create_logical_plan(&ctx.state(), sql).await?;
/// let keys = tet_sql::execute_logical_plan(&ctx, plan).await?.to_string().await?;
/// assert!(keys.contains("| 3 |"), "{keys}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the statement exceeds its budget, or cannot be parsed or planned.
pub async fn create_logical_plan(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    match plan(state, sql, false).await {
        Err(error) if column_lists::has_duplicate_names(&error) => {
            plan(state, sql, true).await.map_err(|_| error)
        }
        planned => planned,
    }
}

/// Plans a statement. With `names_items`, selected casts are named after their text, and items below a list of column names have
/// names of their own.
async fn plan(state: &SessionState, sql: &str, names_items: bool) -> Result<LogicalPlan> {
    let mut statement = budget::parse(state, sql)?;
    resets::check(&statement)?;
    if names_items {
        cast_names::name_casts(&mut statement);
        column_lists::name_items(&mut statement);
    }
    #[cfg(feature = "remote")]
    hide_secrets(state, &mut statement);
    groups::show_columns_of_file(state, &mut statement);
    let has_untyped_parameters = matches!(
        &statement,
        Statement::Statement(statement)
            if matches!(statement.as_ref(), ast::Statement::Prepare { data_types, .. } if data_types.is_empty())
    );
    let upper = sql.to_ascii_uppercase();
    if (upper.contains("USING") || upper.contains("NATURAL"))
        && let Statement::Statement(template) = budget::parse(state, "SELECT * FROM t")?
        && let ast::Statement::Query(template) = *template
    {
        let template = *template;
        let rewriter = Rewriter { state, template };
        budget::with_stack(rewriter.statement(&mut statement)).await;
    }
    let plan = async {
        // `unnest` names its columns after the alias of its argument.
        if !upper.contains("UNNEST")
            && let Some(plan) = many_columns::plan(state, &statement).await
        {
            return Ok(plan);
        }
        plan_statement(state, statement).await
    };
    let mut plan = budget::with_stack(plan).await?;
    if has_untyped_parameters
        && let LogicalPlan::Statement(PlannedStatement::Prepare(prepare)) = &mut plan
    {
        // DataFusion has inferred these types from other operands: in `lat > $1`, that of `lat`. EXECUTE would cast 0.5 to it.
        prepare.fields.clear();
    }
    let plan = explain_prepared(state, plan)?;
    budget::check_plan(state.config_options(), &plan)?;
    copied_types::check(&plan)?;
    let plan = grouping_sets::name_parameters(plan)?;
    Ok(groups::create_beside_groups(state, plan))
}

/// Rewrites `USING` and `NATURAL` joins as `ON` joins, and every reference to one of their keys as
/// an expression over the joined tables. Joins whose tables or keys cannot be resolved are left for
/// DataFusion to report.
struct Rewriter<'a> {
    state: &'a SessionState,
    /// The parsed query `SELECT * FROM t`, from which other queries are made.
    template: Query,
}

impl Rewriter<'_> {
    async fn statement(&self, mut statement: &mut Statement) {
        while let Statement::Explain(explain) = statement {
            statement = &mut explain.statement;
        }
        match statement {
            Statement::Statement(statement) => {
                let statement = statement.as_mut();
                self.nested_queries(statement, &Scope::default()).await;
            }
            Statement::CopyTo(copy) => {
                if let CopyToSource::Query(query) = &mut copy.source {
                    self.query(query, &Scope::default()).await;
                }
            }
            _ => {}
        }
    }

    /// Rewrites the queries nested in a node of the syntax tree, at any depth.
    fn nested_queries<'b>(
        &'b self,
        node: &'b mut (impl VisitMut + Send),
        scope: &'b Scope,
    ) -> BoxFuture<'b, ()> {
        async move {
            // The queries are taken out and put back, because planning is asynchronous and visitors
            // are not.
            let mut queries = take_queries(node, &self.template);
            for query in &mut queries {
                self.query(query, scope).await;
            }
            put_queries(node, queries);
        }
        .boxed()
    }

    fn query<'b>(&'b self, query: &'b mut Query, scope: &'b Scope) -> BoxFuture<'b, ()> {
        async move {
            let mut scope = scope.clone();
            if let Some(with) = &mut query.with {
                scope.is_recursive |= with.recursive;
                for cte in &mut with.cte_tables {
                    self.query(&mut cte.query, &scope).await;
                    scope.ctes.push(cte.clone());
                }
            }
            self.body(&mut query.body, query.order_by.as_mut(), &scope)
                .await;
        }
        .boxed()
    }

    fn body<'b>(
        &'b self,
        body: &'b mut SetExpr,
        order_by: Option<&'b mut OrderBy>,
        scope: &'b Scope,
    ) -> BoxFuture<'b, ()> {
        async move {
            match body {
                SetExpr::Select(select) => self.select(select, order_by, scope).await,
                SetExpr::SetOperation { left, right, .. } => {
                    self.body(left, None, scope).await;
                    self.body(right, None, scope).await;
                }
                other => self.nested_queries(other, scope).await,
            }
        }
        .boxed()
    }

    async fn select(&self, select: &mut Select, order_by: Option<&mut OrderBy>, scope: &Scope) {
        let is_resolved =
            select.from.iter().any(has_keys) || mentions(select, &scope.keys, self.normalizes());
        let original = std::mem::take(&mut select.from);
        let mut from = FromClause {
            tables: Vec::new(),
            columns: is_resolved.then(Vec::new),
        };
        for tables in &original {
            let mut tables = tables.clone();
            let columns = self.joined(&mut tables, scope, &from).await;
            from.push(tables, columns);
        }
        let columns = from.columns.as_ref();
        let projection = columns.and_then(|columns| self.projection(&select.projection, columns));
        let (Some(columns), Some(projection)) = (&from.columns, projection) else {
            // The joins stay as they were, with the nested queries rewritten.
            let queries = take_queries(&mut from.tables, &self.template);
            from.tables = original;
            put_queries(&mut from.tables, queries);
            from.columns = None;
            self.nested_queries(select, &scope.with(&from)).await;
            select.from = from.tables;
            return;
        };
        select.projection = projection;
        let inside = scope.with(&from);
        // In GROUP BY, HAVING and QUALIFY, a name refers to an output column before a column of the
        // queries around the query.
        let is_output = |key: &&Column| {
            let is_own = columns.iter().any(|column| column.name == key.name);
            let mut outputs = select.projection.iter();
            !is_own && outputs.any(|item| self.is_alias(item, &key.name))
        };
        let grouped = inside.keys.iter().filter(|key| !is_output(key));
        let grouped: Vec<_> = grouped.cloned().collect();
        let no_groups = GroupByExpr::Expressions(Vec::new(), Vec::new());
        let mut group_by = std::mem::replace(&mut select.group_by, no_groups);
        let (mut having, mut qualify) = (select.having.take(), select.qualify.take());
        self.replace_in(&mut group_by, &grouped);
        self.replace_in(&mut having, &grouped);
        self.replace_in(&mut qualify, &grouped);
        self.replace_in(select, &inside.keys);
        (select.group_by, select.having, select.qualify) = (group_by, having, qualify);
        self.nested_queries(select, &inside).await;
        select.from = from.tables;

        let Some(OrderBy {
            kind: OrderByKind::Expressions(sorts),
            ..
        }) = order_by
        else {
            return;
        };
        for sort in sorts {
            // In ORDER BY, a name refers to an output column first.
            let is_output = matches!(&sort.expr, Expr::Identifier(name) if {
                let name = self.normalize(name);
                select.projection.iter().any(|item| self.name_of(item).as_ref() == Some(&name))
            });
            if !is_output {
                self.replace_in(&mut sort.expr, &inside.keys);
            }
        }
    }

    /// Rewrites an item of a FROM clause, which follows `earlier` items, and the queries nested in
    /// it. Returns the columns of its tables; `None` if those of the earlier items are not known,
    /// or if a join cannot be rewritten.
    fn joined<'b>(
        &'b self,
        tables: &'b mut TableWithJoins,
        scope: &'b Scope,
        earlier: &'b FromClause,
    ) -> BoxFuture<'b, Option<Vec<Column>>> {
        async move {
            let TableWithJoins { relation, joins } = tables;
            let mut columns = self.table(relation, scope, earlier).await;
            let mut done = TableWithJoins {
                relation: relation.clone(),
                joins: Vec::new(),
            };
            for join in joins {
                let relation = &mut join.relation;
                let right = if is_lateral(relation) {
                    let earlier = earlier.with(&done, columns.clone());
                    self.table(relation, scope, &earlier).await
                } else {
                    self.table(relation, scope, earlier).await
                };
                let both = columns.zip(right);
                let mut queries = take_queries(&mut join.join_operator, &self.template);
                if !queries.is_empty() {
                    let both = both.as_ref();
                    let both = both.map(|(left, right)| [left.as_slice(), right].concat());
                    let inside = scope.with(&earlier.with(&done, both));
                    for query in &mut queries {
                        self.query(query, &inside).await;
                    }
                    put_queries(&mut join.join_operator, queries);
                }
                let constraint = constraint(&mut join.join_operator);
                columns = both
                    .zip(constraint)
                    .and_then(|((left, right), (kept, constraint))| {
                        self.join(left, right, kept, constraint, scope)
                    });
                done.joins.push(join.clone());
            }
            columns
        }
        .boxed()
    }

    /// Rewrites the queries and joins nested in a table, which follows `earlier` items of a FROM
    /// clause. Returns the columns of the table; `None` if they cannot be resolved, or if those of
    /// the earlier items are not known.
    async fn table(
        &self,
        table: &mut TableFactor,
        scope: &Scope,
        earlier: &FromClause,
    ) -> Option<Vec<Column>> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias,
        } = table
        {
            if alias.is_none() {
                return self.joined(table_with_joins, scope, earlier).await;
            }
            let unresolved = FromClause {
                tables: earlier.tables.clone(),
                columns: None,
            };
            self.joined(table_with_joins, scope, &unresolved).await;
            return self.columns(table, scope, earlier).await;
        }
        let with_earlier = is_lateral(table).then(|| scope.with(earlier));
        let scope = with_earlier.as_ref().unwrap_or(scope);
        if with_earlier.is_some() {
            // The arguments of a lateral function can refer to keys of earlier tables.
            self.replace_in(table, &scope.keys);
        }
        self.nested_queries(table, scope).await;
        self.columns(table, scope, earlier).await
    }

    /// Returns the columns of a table, whose nested queries are rewritten; `None` if they cannot be
    /// resolved, or if those of the earlier items are not known.
    async fn columns(
        &self,
        table: &TableFactor,
        scope: &Scope,
        earlier: &FromClause,
    ) -> Option<Vec<Column>> {
        earlier.columns.as_ref()?;
        let plan = match self.plan_tables(Vec::new(), table.clone(), scope).await {
            Ok(plan) => plan,
            Err(_) if scope.tables.is_empty() => return None,
            Err(_) => {
                // The table may refer to the tables around it.
                let mut table = table.clone();
                match &mut table {
                    TableFactor::Derived { lateral, .. } => *lateral = true,
                    table if is_lateral(table) => {}
                    _ => return None,
                }
                let plan = self.plan_tables(scope.tables.clone(), table, scope).await;
                last_joined(&plan.ok()?)?.clone()
            }
        };
        let columns = plan.schema().iter().map(|(table, field)| Column {
            name: field.name().clone(),
            expr: column(table, field.name()),
            is_key: false,
        });
        Some(columns.collect())
    }

    /// Plans `SELECT *` from a table after other tables.
    async fn plan_tables(
        &self,
        mut from: Vec<TableWithJoins>,
        table: TableFactor,
        scope: &Scope,
    ) -> Result<LogicalPlan> {
        let mut query = self.template.clone();
        if !scope.ctes.is_empty() {
            query.with = Some(With {
                with_token: AttachedToken::empty(),
                recursive: scope.is_recursive,
                cte_tables: scope.ctes.clone(),
            });
        }
        from.push(TableWithJoins {
            relation: table,
            joins: Vec::new(),
        });
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = from;
        }
        let statement = Statement::Statement(Box::new(query.into()));
        plan_statement(self.state, statement).await
    }

    fn join(
        &self,
        mut left: Vec<Column>,
        mut right: Vec<Column>,
        kept: PreservedSide,
        constraint: &mut JoinConstraint,
        scope: &Scope,
    ) -> Option<Vec<Column>> {
        let keys: Vec<String> = match constraint {
            JoinConstraint::Using(names) => names
                .iter()
                .map(|name| match name.0.as_slice() {
                    [part] => part.as_ident().map(|ident| self.normalize(ident)),
                    _ => None,
                })
                .collect::<Option<_>>()?,
            JoinConstraint::Natural => left
                .iter()
                .filter(|column| right.iter().any(|other| other.name == column.name))
                .map(|column| column.name.clone())
                .collect(),
            JoinConstraint::On(condition) => {
                let both: Vec<_> = left.iter().chain(&right).cloned().collect();
                self.replace_in(condition, &scope.keys_with(&both));
                Vec::new()
            }
            JoinConstraint::None => Vec::new(),
        };
        let mut condition: Option<Expr> = None;
        for key in &keys {
            let of_right = unique_index(&right, key)?;
            let of_right = right.remove(of_right).expr;
            let of_left = unique_index(&left, key)?;
            let column = &mut left[of_left];
            let equal = binary(column.expr.clone(), BinaryOperator::Eq, of_right.clone());
            condition = Some(match condition {
                Some(condition) => binary(condition, BinaryOperator::And, equal),
                None => equal,
            });
            column.is_key = true;
            column.expr = match kept {
                PreservedSide::Left | PreservedSide::OnlyLeft => column.expr.clone(),
                PreservedSide::Right | PreservedSide::OnlyRight => of_right,
                PreservedSide::Both => coalesce(column.expr.clone(), of_right),
            };
        }
        // A NATURAL join without common columns is not rewritten.
        if let Some(condition) = condition {
            *constraint = JoinConstraint::On(condition);
        }
        match kept {
            PreservedSide::OnlyLeft => {}
            PreservedSide::OnlyRight => {
                left.retain(|column| keys.contains(&column.name));
                left.extend(right);
            }
            PreservedSide::Left | PreservedSide::Right | PreservedSide::Both => left.extend(right),
        }
        Some(left)
    }

    fn replace_in(&self, node: &mut impl VisitMut, keys: &[Column]) {
        replace_in(node, keys, self.normalizes());
    }

    fn normalizes(&self) -> bool {
        let options = self.state.config_options();
        options.sql_parser.enable_ident_normalization
    }

    fn normalize(&self, ident: &Ident) -> String {
        normalize(ident, self.normalizes())
    }
}

#[cfg(test)]
mod tests;
