//! The columns of `USING` and `NATURAL` joins, as defined by the SQL standard.

mod syntax;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Cte, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut,
    WildcardAdditionalOptions, With,
};
use futures::FutureExt;
use futures::future::BoxFuture;

#[cfg(feature = "remote")]
use crate::provider::sql::urls::hide_secrets;
use crate::provider::sql::using_keys::syntax::{
    Column, Keys, PreservedSide, binary, coalesce, column, constraint, exchange, has_keys, named,
    normalize, replace_in, unique_index,
};
use crate::provider::sql::variable_names::plan_statement;
use crate::provider::sql::{budget, cast_names, copied_types, groups, many_columns};

/// Plans a statement as [`SessionState::create_logical_plan`] does, with these differences:
///
/// - A statement that exceeds the session's [budget] is rejected, and long chains of AND and OR are
///   balanced.
/// - The key of a `USING` or `NATURAL` join is one column, as in the SQL standard. An unqualified
///   key is the right table's key in a RIGHT join, the first non-null key of both tables in a FULL
///   join, and the left table's key otherwise. Keys that are qualified with a table's name are not
///   affected.
/// - The values of a table over one array, whose column is `value`, can be referred to by the name
///   of the array: `SELECT avg(t2m) FROM t2m`. Columns and aliases with that name take precedence,
///   and `SELECT *` is not changed.
/// - `CREATE SCHEMA` and `SHOW COLUMNS` know that the groups of files are schemas.
/// - Passwords and signatures in URLs that stand for tables are kept out of the plan.
/// - If two selected expressions have the same name, as a cast has that of its operand, casts without an alias are named
///   after their text.
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
/// let keys = ctx.execute_logical_plan(plan).await?.to_string().await?;
/// assert!(keys.contains("| 3 |"), "{keys}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the statement exceeds its budget, or cannot be parsed or planned.
pub async fn create_logical_plan(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    match plan(state, sql, false).await {
        Err(error) if cast_names::has_duplicate_names(&error) => {
            plan(state, sql, true).await.map_err(|_| error)
        }
        planned => planned,
    }
}

/// Plans a statement. With `names_casts`, selected casts are named after their text.
async fn plan(state: &SessionState, sql: &str, names_casts: bool) -> Result<LogicalPlan> {
    let mut statement = budget::parse(state, sql)?;
    if names_casts {
        cast_names::name_casts(&mut statement);
    }
    #[cfg(feature = "remote")]
    hide_secrets(state, &mut statement);
    groups::show_columns_of_file(state, &mut statement);
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
    let plan = budget::with_stack(plan).await?;
    budget::check_plan(state.config_options(), &plan)?;
    copied_types::check(&plan)?;
    Ok(groups::create_beside_groups(state, plan))
}

/// The common table expressions that a query can refer to.
#[derive(Debug, Clone, Default)]
struct Scope {
    ctes: Vec<Cte>,
    is_recursive: bool,
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
            let mut queries = Vec::new();
            exchange(node, &mut |query| {
                queries.push(std::mem::replace(query, self.template.clone()));
            });
            for query in &mut queries {
                self.query(query, scope).await;
            }
            let mut queries = queries.into_iter();
            exchange(node, &mut |query| {
                if let Some(rewritten) = queries.next() {
                    *query = rewritten;
                }
            });
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
        self.nested_queries(select, scope).await;
        if !select.from.iter().any(has_keys) {
            return;
        }
        let mut from = select.from.clone();
        let mut columns = Vec::new();
        for tables in &mut from {
            match self.joined(tables, scope).await {
                Some(more) => columns.extend(more),
                None => return,
            }
        }
        let Some(projection) = self.projection(&select.projection, &columns) else {
            return;
        };
        select.projection = projection;
        select.from = Vec::new();
        let keys = self.keys(&columns);
        replace_in(select, &keys);
        select.from = from;

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
                replace_in(&mut sort.expr, &keys);
            }
        }
    }

    /// Rewrites the joins of tables and returns their columns; `None` if a join cannot be
    /// rewritten.
    fn joined<'b>(
        &'b self,
        tables: &'b mut TableWithJoins,
        scope: &'b Scope,
    ) -> BoxFuture<'b, Option<Vec<Column>>> {
        async move {
            let mut columns = self.table(&mut tables.relation, scope).await?;
            for Join {
                relation,
                join_operator,
                ..
            } in &mut tables.joins
            {
                let right = self.table(relation, scope).await?;
                let (kept, constraint) = constraint(join_operator)?;
                columns = self.join(columns, right, kept, constraint)?;
            }
            Some(columns)
        }
        .boxed()
    }

    async fn table(&self, table: &mut TableFactor, scope: &Scope) -> Option<Vec<Column>> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = table
        {
            return self.joined(table_with_joins, scope).await;
        }
        let mut query = self.template.clone();
        if !scope.ctes.is_empty() {
            query.with = Some(With {
                with_token: AttachedToken::empty(),
                recursive: scope.is_recursive,
                cte_tables: scope.ctes.clone(),
            });
        }
        let SetExpr::Select(select) = query.body.as_mut() else {
            return None;
        };
        select.from = vec![TableWithJoins {
            relation: table.clone(),
            joins: Vec::new(),
        }];
        let statement = Statement::Statement(Box::new(query.into()));
        let plan = self.state.statement_to_plan(statement).await.ok()?;
        let columns = plan.schema().iter().map(|(table, field)| Column {
            name: field.name().clone(),
            expr: column(table, field.name()),
            is_key: false,
        });
        Some(columns.collect())
    }

    fn join(
        &self,
        mut left: Vec<Column>,
        mut right: Vec<Column>,
        kept: PreservedSide,
        constraint: &mut JoinConstraint,
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
                replace_in(condition, &self.keys(&both));
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

    /// Rewrites the items of a SELECT: expands `*` to all columns, and makes keys one column under
    /// their own name. Returns `None` if an item cannot be rewritten.
    fn projection(&self, items: &[SelectItem], columns: &[Column]) -> Option<Vec<SelectItem>> {
        let mut projection = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(options) => {
                    projection.extend(self.wildcard(options, columns)?);
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    let name = self.normalize(name);
                    let keys = columns.iter().filter(|column| column.name == name);
                    match keys.collect::<Vec<_>>().as_slice() {
                        [key] if key.is_key => projection.push(named(key)),
                        _ => projection.push(item.clone()),
                    }
                }
                item => projection.push(item.clone()),
            }
        }
        for key in columns.iter().filter(|column| column.is_key) {
            let item = named(key);
            let has_its_name = |other: &SelectItem| match other {
                SelectItem::QualifiedWildcard(..) => true,
                other => *other != item && self.name_of(other).as_ref() == Some(&key.name),
            };
            // DataFusion rejects `a.k` beside an unqualified `k`, so the key is named by its
            // expression.
            if projection.iter().any(has_its_name) {
                for other in projection.iter_mut().filter(|other| **other == item) {
                    *other = SelectItem::UnnamedExpr(key.expr.clone());
                }
            }
        }
        Some(projection)
    }

    fn wildcard(
        &self,
        options: &WildcardAdditionalOptions,
        columns: &[Column],
    ) -> Option<Vec<SelectItem>> {
        if options.opt_ilike.is_some()
            || options.opt_rename.is_some()
            || options.opt_alias.is_some()
        {
            return None;
        }
        let mut left_out = Vec::new();
        match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => left_out.push(name),
            Some(ExcludeSelectItem::Multiple(names)) => left_out.extend(names),
            None => {}
        }
        let left_out = left_out.into_iter().map(|name| match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        });
        let mut left_out: Vec<&Ident> = left_out.collect::<Option<_>>()?;
        if let Some(except) = &options.opt_except {
            left_out.push(&except.first_element);
            left_out.extend(&except.additional_elements);
        }
        let left_out: Vec<_> = left_out.iter().map(|name| self.normalize(name)).collect();
        // DataFusion reports unknown names.
        if !left_out
            .iter()
            .all(|name| unique_index(columns, name).is_some())
        {
            return None;
        }
        let mut items: Vec<_> = columns
            .iter()
            .filter(|column| !left_out.contains(&column.name))
            .map(|column| (column.name.clone(), named(column)))
            .collect();
        for replaced in options
            .opt_replace
            .iter()
            .flat_map(|replace| &replace.items)
        {
            let name = self.normalize(&replaced.column_name);
            let mut same = items.iter_mut().filter(|(other, _)| *other == name);
            let (Some((_, item)), None) = (same.next(), same.next()) else {
                return None;
            };
            *item = SelectItem::ExprWithAlias {
                expr: replaced.expr.clone(),
                alias: replaced.column_name.clone(),
            };
        }
        Some(items.into_iter().map(|(_, item)| item).collect())
    }

    /// The keys that are identified by their name alone.
    fn keys(&self, columns: &[Column]) -> Keys {
        let is_key =
            |column: &&Column| column.is_key && unique_index(columns, &column.name).is_some();
        let columns = columns.iter().filter(is_key).cloned();
        Keys {
            columns: columns.collect(),
            normalizes: self.normalizes(),
            depth: 0,
        }
    }

    fn name_of(&self, item: &SelectItem) -> Option<String> {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(self.normalize(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(self.normalize(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                names.last().map(|name| self.normalize(name))
            }
            _ => None,
        }
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
