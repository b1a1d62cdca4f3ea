//! Helpers for the syntax trees of joins.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem,
    TableFactor, TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::provider::sql::walk::{walk, walk_mut};

/// A column of joined tables.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub name: String,
    /// The value of the column, in terms of the columns of single tables.
    pub expr: Expr,
    /// `true` for the key of a `USING` or `NATURAL` join.
    pub is_key: bool,
}

/// The table of which a join keeps every row, and whose key is therefore never NULL-padded. Inner
/// joins count as `Left`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreservedSide {
    Left,
    Right,
    Both,
    /// The left table; the join has no columns of the right table.
    OnlyLeft,
    /// The right table; the join has no columns of the left table.
    OnlyRight,
}

/// A visitor that replaces the names of keys by their values.
struct Keys<'a> {
    columns: &'a [Column],
    normalizes: bool,
    /// The number of queries around the visited expression. Names in nested queries refer to the
    /// tables of the nested query first.
    depth: usize,
}

impl VisitorMut for Keys<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && self.depth == 0
        {
            let name = normalize(name, self.normalizes);
            if let Some(key) = self.columns.iter().find(|key| key.name == name) {
                *expr = key.expr.clone();
            }
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the names of keys by their values, except in nested queries.
pub(super) fn replace_in(node: &mut impl VisitMut, keys: &[Column], normalizes: bool) {
    let mut visitor = Keys {
        columns: keys,
        normalizes,
        depth: 0,
    };
    let _ = walk_mut(node, &mut visitor);
}

/// A visitor that stops at an unqualified name of a key.
struct Mention<'a> {
    keys: &'a [Column],
    normalizes: bool,
}

impl Visitor for Mention<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => {
                let name = normalize(name, self.normalizes);
                match self.keys.iter().any(|key| key.name == name) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns `true` if a node, or a query nested in it, has the unqualified name of a key.
pub(super) fn mentions(node: &impl Visit, keys: &[Column], normalizes: bool) -> bool {
    !keys.is_empty() && walk(node, &mut Mention { keys, normalizes }).is_break()
}

/// Calls a function for each outermost query of a node, before the contents of the query are
/// visited.
struct Outermost<'a> {
    change: &'a mut dyn FnMut(&mut Query),
    depth: usize,
}

impl VisitorMut for Outermost<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.change)(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn exchange(node: &mut impl VisitMut, change: &mut dyn FnMut(&mut Query)) {
    let _ = walk_mut(node, &mut Outermost { change, depth: 0 });
}

/// Takes the outermost queries out of a node, and leaves the template in their places.
pub(super) fn take_queries(node: &mut impl VisitMut, template: &Query) -> Vec<Query> {
    let mut queries = Vec::new();
    exchange(node, &mut |query| {
        queries.push(std::mem::replace(query, template.clone()));
    });
    queries
}

/// Replaces the outermost queries of a node, in the order of [`take_queries`].
pub(super) fn put_queries(node: &mut impl VisitMut, queries: Vec<Query>) {
    let mut queries = queries.into_iter();
    exchange(node, &mut |query| {
        if let Some(other) = queries.next() {
            *query = other;
        }
    });
}

/// Returns `true` if a table can refer to the tables before it, or contains tables that can.
pub(super) fn is_lateral(table: &TableFactor) -> bool {
    match table {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } | TableFactor::NestedJoin { .. } => true,
        _ => false,
    }
}

/// Returns the last table of a plan that selects all columns of two or more tables.
pub(super) fn last_joined(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => last_joined(&projection.input),
        LogicalPlan::Join(join) => Some(join.right.as_ref()),
        _ => None,
    }
}

pub(super) fn has_keys(tables: &TableWithJoins) -> bool {
    let is_nested = |table: &TableFactor| matches!(table, TableFactor::NestedJoin { table_with_joins, alias: None } if has_keys(table_with_joins));
    is_nested(&tables.relation)
        || tables.joins.iter().any(|join| {
            let mut operator = join.join_operator.clone();
            let constraint = constraint(&mut operator).map(|(_, constraint)| constraint.clone());
            is_nested(&join.relation)
                || matches!(
                    constraint,
                    Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
                )
        })
}

pub(super) fn constraint(
    operator: &mut JoinOperator,
) -> Option<(PreservedSide, &mut JoinConstraint)> {
    Some(match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::CrossJoin(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on) => (PreservedSide::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (PreservedSide::Right, on),
        JoinOperator::FullOuter(on) => (PreservedSide::Both, on),
        JoinOperator::LeftSemi(on) | JoinOperator::LeftAnti(on) => (PreservedSide::OnlyLeft, on),
        JoinOperator::RightSemi(on) | JoinOperator::RightAnti(on) => (PreservedSide::OnlyRight, on),
        _ => return None,
    })
}

/// Returns the index of the column with this name, if there is exactly one.
pub(super) fn unique_index(columns: &[Column], name: &str) -> Option<usize> {
    let mut same = columns.iter().enumerate();
    let mut same = same.by_ref().filter(|(_, column)| column.name == name);
    match (same.next(), same.next()) {
        (Some((index, _)), None) => Some(index),
        _ => None,
    }
}

pub(super) fn normalize(ident: &Ident, normalizes: bool) -> String {
    if normalizes && ident.quote_style.is_none() {
        ident.value.to_ascii_lowercase()
    } else {
        ident.value.clone()
    }
}

/// A column as an item of a SELECT, under its own name.
pub(super) fn named(column: &Column) -> SelectItem {
    match &column.expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            SelectItem::UnnamedExpr(column.expr.clone())
        }
        expr => SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: quoted(&column.name),
        },
    }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A reference to a column, qualified with its table.
pub(super) fn column(table: Option<&TableReference>, name: &str) -> Expr {
    let Some(table) = table else {
        return Expr::Identifier(quoted(name));
    };
    let parts = [table.catalog(), table.schema(), Some(table.table())];
    let parts = parts.into_iter().flatten().chain([name]);
    Expr::CompoundIdentifier(parts.map(quoted).collect())
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

pub(super) fn coalesce(one: Expr, other: Expr) -> Expr {
    let args = [one, other].map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
