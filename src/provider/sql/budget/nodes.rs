//! Estimates the nodes of a statement's plan from the parsed statement.
//!
//! A common table expression is planned once and inlined wherever it is used. A short chain of
//! them, in which each uses the previous one twice, has a plan of astronomic size. The estimate
//! takes linear time: a query is counted once, and its count is added at each use.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, GroupByExpr, Ident, ObjectName, Query, Select, TableFactor, Visitor,
};

use crate::provider::sql::walk::walk_statement;

/// The error for a statement whose plan has too many nodes.
pub fn too_many_nodes<T>(limit: usize) -> Result<T> {
    plan_err!(
        "the statement's plan has more than {limit} nodes, counting WITH queries and views at each use; \
         simplify it, or raise tet.max_plan_nodes"
    )
}

/// Checks the size of the plan that a statement will have.
///
/// # Errors
/// Fails if the plan will have more than `limit` nodes.
pub fn check_statement(statement: &Statement, limit: usize) -> Result<()> {
    let mut nodes = Nodes {
        limit: limit as u64,
        ctes: Vec::new(),
        queries: vec![OpenQuery::default()],
    };
    match walk_statement(statement, &mut nodes) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => too_many_nodes(limit),
    }
}

/// A visitor that counts the nodes of a statement.
struct Nodes {
    limit: u64,
    /// The common table expressions in scope, with their sizes.
    ctes: Vec<(String, Size)>,
    /// The queries being visited, outermost first.
    queries: Vec<OpenQuery>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Size {
    /// The nodes of the plan.
    nodes: u64,
    /// The nodes that DataFusion visits to find the tables of a statement. It visits the queries of
    /// a WITH twice for each WITH around them.
    visits: u64,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.visits = self.visits.saturating_add(other.visits);
    }
}

#[derive(Default)]
struct OpenQuery {
    size: Size,
    /// Names of the queries in the WITH clause, by address.
    with: HashMap<usize, String>,
    /// The number of common table expressions in scope outside the query.
    outer: usize,
}

impl Nodes {
    fn add(&mut self, nodes: u64) -> ControlFlow<()> {
        let size = Size {
            nodes,
            visits: nodes,
        };
        self.add_size(size)
    }

    fn add_size(&mut self, size: Size) -> ControlFlow<()> {
        let Some(query) = self.queries.last_mut() else {
            return ControlFlow::Continue(());
        };
        query.size.add(size);
        match query.size.nodes.max(query.size.visits) > self.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Nodes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.push(OpenQuery {
            size: Size::default(),
            with: with
                .map(|cte| (address(&*cte.query), name(&cte.alias.name)))
                .collect(),
            outer: self.ctes.len(),
        });
        let sorts = u64::from(query.order_by.is_some());
        let limits = u64::from(query.limit_clause.is_some() || query.fetch.is_some());
        self.add(sorts + limits + query.pipe_operators.len() as u64)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(closed) = self.queries.pop() else {
            return ControlFlow::Continue(());
        };
        self.ctes.truncate(closed.outer);
        let around = self.queries.last_mut();
        let Some(name) = around.and_then(|around| around.with.remove(&address(query))) else {
            return self.add_size(closed.size);
        };
        self.ctes.push((name, closed.size));
        let visits = closed.size.visits.saturating_mul(2);
        self.add_size(Size { nodes: 0, visits })
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let groups = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(expressions, _) => !expressions.is_empty(),
        };
        let distinct = matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)));
        let further = [
            select.selection.is_some(),
            groups,
            select.having.is_some(),
            select.qualify.is_some(),
            distinct,
        ];
        self.add(1 + further.into_iter().filter(|is_there| *is_there).count() as u64)
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
        // One node for the alias, or for the join with the previous table.
        self.add(1)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let cte = match relation.0.as_slice() {
            [part] => part.as_ident().map(name),
            _ => None,
        };
        let mut ctes = self.ctes.iter().rev();
        match cte.and_then(|cte| ctes.find(|(name, _)| *name == cte)) {
            // The query was visited at its definition, and a reference does not visit it again.
            Some(&(_, Size { nodes, .. })) => self.add_size(Size { nodes, visits: 1 }),
            None => self.add(1),
        }
    }
}

/// The lookup name of a common table expression. Unquoted names are case-insensitive.
fn name(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The address of a syntax node, which identifies the node during the visit.
fn address<T>(node: &T) -> usize {
    std::ptr::from_ref(node) as usize
}
