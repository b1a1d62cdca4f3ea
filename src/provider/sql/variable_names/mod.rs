//! Plans statements that refer to the values of an array by the name of the array.

mod qualified;

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, SchemaError, Span, TableReference, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut,
    VisitorMut,
};

use crate::provider::catalog::table::ArrayTable;
use crate::provider::source::VALUE;
use crate::provider::sql::walk::{walk_mut, walk_statement_mut};

/// Maximum number of clauses in which names are replaced. Each one plans the statement again.
const MAX_CLAUSES: usize = 64;

/// Plans a parsed statement as [`SessionState::statement_to_plan`] does, and also resolves array
/// names: the values of a table over one array, whose column is `value`, can be referred to by the
/// name of the array, as in `SELECT avg(t2m) FROM t2m`. Columns and aliases with that name take
/// precedence, and `SELECT *` is not changed.
///
/// # Errors
/// Fails if the statement cannot be planned.
pub(crate) async fn plan_statement(
    state: &SessionState,
    mut statement: Statement,
) -> Result<LogicalPlan> {
    match state.statement_to_plan(statement.clone()).await {
        Err(error) if is_about_columns(&error) => {}
        result => return result,
    }
    // Errors locate a missing column in the statement only if spans are collected.
    let mut state = state.clone();
    state.config_mut().options_mut().sql_parser.collect_spans = true;
    let variables = Variables::of(&state, &statement).await?;
    qualified::replace(&variables, &mut statement);
    for _ in 0..MAX_CLAUSES {
        let error = match state.statement_to_plan(statement.clone()).await {
            Err(error) => error,
            result => return result,
        };
        let Some((column, span)) = missing_column(&error) else {
            return Err(error);
        };
        if !Replacement::new(&variables, column, span).apply(&mut statement)? {
            return Err(error);
        }
    }
    state.statement_to_plan(statement).await
}

/// Returns `true` if the name of an array may be the cause of an error.
fn is_about_columns(error: &DataFusionError) -> bool {
    matches!(
        error.find_root(),
        DataFusionError::SchemaError(..) | DataFusionError::Plan(_)
    )
}

/// Returns the unqualified column that is missing according to an error, and its location in the statement.
fn missing_column(error: &DataFusionError) -> Option<(String, Span)> {
    let DataFusionError::SchemaError(inner, _) = error.find_root() else {
        return None;
    };
    let SchemaError::FieldNotFound { field: column, .. } = inner.as_ref() else {
        return None;
    };
    let diagnosed = || error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let span = column.spans().first().or_else(diagnosed)?;
    let is_qualified = column.relation.is_some();
    (!is_qualified).then(|| (column.name.clone(), span))
}

/// The array behind a table.
struct Variable {
    /// The name of the array in its file.
    name: String,
    /// The columns of the table.
    schema: SchemaRef,
}

impl Variable {
    /// Returns `true` if a column name stands for the values of the array.
    fn is_called(&self, column: &str) -> bool {
        let name = self.name.to_lowercase();
        let wanted = column.to_lowercase();
        let is_name = name == wanted || name.rsplit('/').next() == Some(&wanted);
        is_name && self.schema.column_with_name(column).is_none()
    }
}

/// The arrays behind the tables of a statement.
struct Variables {
    /// The array of every table over one array.
    arrays: HashMap<TableReference, Variable>,
    normalizes: bool,
}

impl Variables {
    async fn of(state: &SessionState, statement: &Statement) -> Result<Self> {
        let normalizes = state.config_options().sql_parser.enable_ident_normalization;
        let (references, ctes) = resolve_table_references(statement, normalizes)?;
        let mut arrays = HashMap::new();
        for reference in references {
            // In some part of the statement, the name may refer to the common table expression.
            if ctes.contains(&reference) {
                continue;
            }
            let Ok(schema) = state.schema_for_ref(reference.clone()) else {
                continue;
            };
            if let Ok(Some(table)) = schema.table(reference.table()).await
                && let Some(table) = table.downcast_ref::<ArrayTable>()
                && let Some(name) = table.variable()
            {
                let name = name.to_string();
                let schema = table.schema();
                arrays.insert(reference, Variable { name, schema });
            }
        }
        Ok(Self { arrays, normalizes })
    }

    fn normalize(&self, ident: &Ident) -> String {
        IdentNormalizer::new(self.normalizes).normalize(ident.clone())
    }

    /// Returns the array behind a table in a FROM clause, unless the clause renames the columns.
    fn of_table(&self, factor: &TableFactor) -> Option<&Variable> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return None;
        };
        if alias
            .as_ref()
            .is_some_and(|alias| !alias.columns.is_empty())
        {
            return None;
        }
        let reference = object_name_to_table_reference(name.clone(), self.normalizes).ok()?;
        self.arrays.get(&reference)
    }

    /// The qualifiers of those tables in a FROM clause whose array has the name of the column.
    fn qualifiers(&self, from: &[TableWithJoins], column: &str) -> Vec<Vec<Ident>> {
        let mut found = Vec::new();
        for table in from {
            let joined = table.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&table.relation).chain(joined) {
                match factor {
                    TableFactor::NestedJoin {
                        table_with_joins, ..
                    } => found.extend(
                        self.qualifiers(std::slice::from_ref(table_with_joins.as_ref()), column),
                    ),
                    _ => found.extend(self.qualifier(factor, column)),
                }
            }
        }
        found
    }

    fn qualifier(&self, factor: &TableFactor, column: &str) -> Option<Vec<Ident>> {
        let TableFactor::Table { name, alias, .. } = factor else {
            return None;
        };
        if !self.of_table(factor)?.is_called(column) {
            return None;
        }
        match alias {
            Some(alias) => Some(vec![alias.name.clone()]),
            None => name.0.iter().map(|part| part.as_ident().cloned()).collect(),
        }
    }

    /// Returns the name of an item's column in the result.
    fn name_of(&self, item: &SelectItem) -> String {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => self.normalize(ident),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => idents
                .last()
                .map(|ident| self.normalize(ident))
                .unwrap_or_default(),
            other => other.to_string(),
        }
    }
}

/// Gives an item of a SELECT list a name, unless it has one.
fn name(item: &mut SelectItem, name: String) {
    if let SelectItem::UnnamedExpr(expr) = item {
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', name),
        };
    }
}

/// Replaces a missing column by the `value` column of the table whose array has the same name.
///
/// The replacement happens in one clause of a SELECT: the innermost SELECT around the column whose
/// FROM clause has such a table.
struct Replacement<'a> {
    variables: &'a Variables,
    column: String,
    span: Span,
    /// The candidates, if several tables match.
    ambiguous: Vec<String>,
}

impl<'a> Replacement<'a> {
    fn new(variables: &'a Variables, column: String, span: Span) -> Self {
        Self {
            variables,
            column,
            span,
            ambiguous: Vec::new(),
        }
    }

    /// Applies the replacement. Returns `true` if the statement has changed.
    fn apply(mut self, statement: &mut Statement) -> Result<bool> {
        let found = walk_statement_mut(statement, &mut self);
        if self.ambiguous.is_empty() {
            return Ok(found.is_break());
        }
        plan_err!(
            "'{}' is ambiguous: it could be any of {}",
            self.column,
            self.ambiguous.join(", ")
        )
    }

    /// Replaces the column in the first clause that contains the reported location, if the FROM
    /// clause has a table whose array has the column's name.
    fn replace(
        &mut self,
        from: &[TableWithJoins],
        mut in_clauses: impl FnMut(&Self, &[Ident]) -> bool,
    ) -> ControlFlow<()> {
        let qualifiers = self.variables.qualifiers(from, &self.column);
        let Some(first) = qualifiers.first() else {
            return ControlFlow::Continue(());
        };
        if !in_clauses(self, first) {
            return ControlFlow::Continue(());
        }
        if qualifiers.len() > 1 {
            let column = &self.column;
            let names = qualifiers.iter().filter_map(|qualifier| qualifier.last());
            self.ambiguous = names.map(|table| format!("{table}.{column}")).collect();
        }
        ControlFlow::Break(())
    }

    /// Replaces the column in a clause that contains the reported location. The column is then
    /// missing everywhere in the clause, except in subqueries, whose tables may have a column with
    /// that name.
    fn replace_in(&self, clause: &mut impl VisitMut, qualifier: &[Ident]) -> bool {
        let is_here = self.visit(clause, None).is_here;
        if is_here {
            self.visit(clause, Some(qualifier));
        }
        is_here
    }

    fn replace_in_projection(&self, items: &mut Vec<SelectItem>, qualifier: &[Ident]) -> bool {
        let is_here = self.visit(items, None).is_here;
        for item in items.iter_mut().filter(|_| is_here) {
            let written = self.variables.name_of(item);
            if self.visit(item, Some(qualifier)).is_changed {
                name(item, written);
            }
        }
        is_here
    }

    fn visit(&self, clause: &mut impl VisitMut, qualifier: Option<&[Ident]>) -> Mentions<'_> {
        let mut mentions = Mentions {
            replacement: self,
            qualifier: qualifier.map(<[Ident]>::to_vec),
            depth: 0,
            is_here: false,
            is_changed: false,
        };
        let _ = walk_mut(clause, &mut mentions);
        mentions
    }
}

impl VisitorMut for Replacement<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let from = select.from.clone();
        self.replace(&from, |this, qualifier| {
            this.replace_in_projection(&mut select.projection, qualifier)
                || this.replace_in(&mut select.from, qualifier)
                || this.replace_in(&mut select.selection, qualifier)
                || this.replace_in(&mut select.group_by, qualifier)
                || this.replace_in(&mut select.having, qualifier)
                || this.replace_in(&mut select.qualify, qualifier)
                || this.replace_in(&mut select.named_window, qualifier)
                || this.replace_in(&mut select.distinct, qualifier)
        })
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        self.replace(&select.from, |this, qualifier| {
            this.replace_in(&mut query.order_by, qualifier)
        })
    }
}

/// A visitor that finds the mentions of a column, and replaces them if there is a qualifier.
struct Mentions<'a> {
    replacement: &'a Replacement<'a>,
    qualifier: Option<Vec<Ident>>,
    /// The number of subqueries around the visited expression.
    depth: usize,
    /// `true` if one of the mentions is at the reported location.
    is_here: bool,
    is_changed: bool,
}

impl VisitorMut for Mentions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(ident) = expr else {
            return ControlFlow::Continue(());
        };
        let Replacement {
            variables,
            column,
            span,
            ..
        } = self.replacement;
        if variables.normalize(ident) != *column {
            return ControlFlow::Continue(());
        }
        let is_here = Span::try_from_sqlparser_span(ident.span) == Some(*span);
        self.is_here |= is_here;
        if let Some(qualifier) = &self.qualifier
            && (is_here || self.depth == 0)
        {
            let mut column = qualifier.clone();
            column.push(Ident::new(VALUE));
            *expr = Expr::CompoundIdentifier(column);
            self.is_changed = true;
        }
        ControlFlow::Continue(())
    }
}
