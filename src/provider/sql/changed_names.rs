//! Names in DELETE and UPDATE that DataFusion 55 does not resolve: aliases of tables in `DELETE FROM t AS x WHERE x.lat = 0`, and capitals
//! in `UPDATE t SET Value = 0`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectNamePart, TableFactor, VisitorMut,
};

use crate::provider::sql::walk::{walk_mut, walk_statement_mut};

/// Qualifies the columns in the predicate of a DELETE with the name of the table instead of its alias, and writes the columns that an
/// UPDATE sets in lower case, unless they are quoted. Names keep their capitals unless `normalizes` is true, as in the rest of the
/// statement.
pub(crate) fn resolve(statement: &mut Statement, normalizes: bool) {
    let _ = walk_statement_mut(statement, &mut Changes { normalizes });
}

struct Changes {
    normalizes: bool,
}

impl VisitorMut for Changes {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        match statement {
            ast::Statement::Delete(delete) => resolve_alias(delete, self.normalizes),
            ast::Statement::Update(update) => {
                for assignment in &mut update.assignments {
                    if let AssignmentTarget::ColumnName(name) = &mut assignment.target
                        && let Some(ObjectNamePart::Identifier(column)) = name.0.last_mut()
                    {
                        column.value = normalized(column, self.normalizes);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn resolve_alias(delete: &mut Delete, normalizes: bool) {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let ([table], Some(predicate)) = (tables.as_slice(), &mut delete.selection) else {
        return;
    };
    let TableFactor::Table {
        name,
        alias: Some(alias),
        ..
    } = &table.relation
    else {
        return;
    };
    let table = name.0.iter().map(|part| part.as_ident().cloned());
    let Some(table) = table.collect::<Option<Vec<_>>>() else {
        return;
    };
    let alias = normalized(&alias.name, normalizes);
    let _ = walk_mut(
        predicate,
        &mut Qualifiers {
            alias,
            table,
            normalizes,
        },
    );
}

/// Replaces an alias by the name of its table.
struct Qualifiers {
    alias: String,
    table: Vec<Ident>,
    normalizes: bool,
}

impl VisitorMut for Qualifiers {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expression
            && let [first, _, ..] = parts.as_slice()
            && normalized(first, self.normalizes) == self.alias
        {
            parts.splice(0..1, self.table.iter().cloned());
        }
        ControlFlow::Continue(())
    }
}

fn normalized(name: &Ident, normalizes: bool) -> String {
    match normalizes && name.quote_style.is_none() {
        true => name.value.to_ascii_lowercase(),
        false => name.value.clone(),
    }
}
