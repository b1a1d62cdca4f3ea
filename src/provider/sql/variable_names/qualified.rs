//! Array names with a qualifier, as in `SELECT p.t2m FROM t2m AS p`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitorMut,
};

use crate::provider::source::VALUE;
use crate::provider::sql::variable_names::{Variable, Variables, name};
use crate::provider::sql::walk::walk_statement_mut;

/// Replaces each array name that is qualified with a table over one array by the column `value` of this
/// table, unless the table has a column with that name.
///
/// DataFusion reports such a name in different ways, or takes `t2m.t2m` for a field of the column `t2m`.
pub(super) fn replace(variables: &Variables, statement: &mut Statement) {
    let mut names = QualifiedNames {
        variables,
        scopes: Vec::new(),
        lists: Vec::new(),
    };
    // The visitor never breaks.
    let _ = walk_statement_mut(statement, &mut names);
}

struct QualifiedNames<'a> {
    variables: &'a Variables,
    /// The FROM clauses around the visited expression, innermost last.
    scopes: Vec<Vec<Table<'a>>>,
    /// The SELECT lists around the visited expression, as written.
    lists: Vec<Vec<SelectItem>>,
}

/// A table in a FROM clause.
struct Table<'a> {
    /// The alias, or else the parts of the name.
    qualifier: Vec<String>,
    /// The array, for tables over one array.
    variable: Option<&'a Variable>,
}

impl<'a> QualifiedNames<'a> {
    fn add_tables(&self, from: &[TableWithJoins], tables: &mut Vec<Table<'a>>) {
        for table in from {
            let joined = table.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&table.relation).chain(joined) {
                self.add_table(factor, tables);
            }
        }
    }

    fn add_table(&self, factor: &TableFactor, tables: &mut Vec<Table<'a>>) {
        let (name, alias) = match factor {
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => return self.add_tables(std::slice::from_ref(table_with_joins), tables),
            TableFactor::Table { name, alias, .. } => (Some(name), alias.as_ref()),
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => (None, alias.as_ref()),
            _ => return,
        };
        let qualifier = match (alias, name) {
            (Some(alias), _) => vec![self.variables.normalize(&alias.name)],
            (None, Some(name)) => {
                let parts = name.0.iter().filter_map(|part| part.as_ident());
                parts.map(|part| self.variables.normalize(part)).collect()
            }
            (None, None) => return,
        };
        tables.push(Table {
            qualifier,
            variable: self.variables.of_table(factor),
        });
    }

    /// Returns `true` if the identifiers are an array name with the qualifier of its table.
    fn is_array(&self, idents: &[Ident]) -> bool {
        let Some((column, qualifier)) = idents.split_last() else {
            return false;
        };
        let names = qualifier.iter().map(|part| self.variables.normalize(part));
        let names: Vec<_> = names.collect();
        let mut tables = self.scopes.iter().rev().flatten();
        tables
            .find(|table| table.qualifier.ends_with(&names))
            .and_then(|table| table.variable)
            .is_some_and(|variable| variable.is_called(&self.variables.normalize(column)))
    }
}

impl VisitorMut for QualifiedNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // ORDER BY refers to the tables of the SELECT before it.
        let mut tables = Vec::new();
        if let SetExpr::Select(select) = query.body.as_ref() {
            self.add_tables(&select.from, &mut tables);
        }
        self.scopes.push(tables);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut tables = Vec::new();
        self.add_tables(&select.from, &mut tables);
        self.scopes.push(tables);
        self.lists.push(select.projection.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        let list = self.lists.pop().unwrap_or_default();
        for (item, written) in select.projection.iter_mut().zip(list) {
            if *item != written {
                name(item, self.variables.name_of(&written));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(idents) = expr
            && self.is_array(idents)
            && let Some(last) = idents.last_mut()
        {
            *last = Ident::with_span(last.span, VALUE);
        }
        ControlFlow::Continue(())
    }
}
