//! Walks over syntax trees that all visitors share.
//!
//! `sqlparser` compiles its walk over the types of syntax once per type of visitor, a third of a
//! megabyte each. The functions here take trait objects, and compile it once.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Query, Select, TableFactor};
use datafusion::sql::sqlparser::ast::{Expr, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut};

struct Shared<'a>(&'a mut dyn Visitor<Break = ()>);

struct SharedMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Passes the calls of a walk on to the visitor.
macro_rules! pass_on {
    ($($node:ident: $($hook:ident)+;)+) => {
        impl Visitor for Shared<'_> {
            type Break = ();

            $($(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$hook(node)
            })+)+
        }

        impl VisitorMut for SharedMut<'_> {
            type Break = ();

            $($(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$hook(node)
            })+)+
        }
    };
}

// The macro takes identifiers.
type SqlStatement = ast::Statement;

pass_on! {
    Query: pre_visit_query post_visit_query;
    Select: pre_visit_select post_visit_select;
    ObjectName: pre_visit_relation post_visit_relation;
    TableFactor: pre_visit_table_factor post_visit_table_factor;
    Expr: pre_visit_expr post_visit_expr;
    SqlStatement: pre_visit_statement post_visit_statement;
    ValueWithSpan: pre_visit_value post_visit_value;
}

/// Visits a node of the syntax tree and the nodes below it. Returns `Break` if the visitor breaks.
pub fn walk(node: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    node.visit(&mut Shared(visitor))
}

/// Visits a node of the syntax tree and the nodes below it, which the visitor may change. Returns `Break`
/// if the visitor breaks.
pub fn walk_mut(
    node: &mut impl VisitMut,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    node.visit(&mut SharedMut(visitor))
}

/// Visits a statement, or the query that it explains or copies, as [`walk`] does. `COPY` of a table,
/// `CREATE EXTERNAL TABLE` and `RESET` have nothing to visit.
pub fn walk_statement(
    statement: &Statement,
    visitor: &mut dyn Visitor<Break = ()>,
) -> ControlFlow<()> {
    match statement {
        Statement::Statement(statement) => walk(statement, visitor),
        Statement::Explain(explain) => walk_statement(&explain.statement, visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => walk(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Visits a statement, or the query that it explains or copies, as [`walk_mut`] does.
pub fn walk_statement_mut(
    statement: &mut Statement,
    visitor: &mut dyn VisitorMut<Break = ()>,
) -> ControlFlow<()> {
    match statement {
        Statement::Statement(statement) => walk_mut(statement, visitor),
        Statement::Explain(explain) => walk_statement_mut(&mut explain.statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk_mut(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}
