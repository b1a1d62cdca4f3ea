//! The names that a query can refer to.

use datafusion::sql::sqlparser::ast::{Cte, TableWithJoins};

use crate::provider::sql::using_keys::syntax::{Column, unique_index};

/// The names from outside a query that the query can refer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub ctes: Vec<Cte>,
    pub is_recursive: bool,
    /// The tables of the queries around the query and, if the query is LATERAL, those before it.
    pub tables: Vec<TableWithJoins>,
    /// The keys of these tables that are identified by their name alone.
    pub keys: Vec<Column>,
}

impl Scope {
    /// Returns the scope of a query that can also refer to the tables of a FROM clause.
    pub fn with(&self, from: &FromClause) -> Self {
        Self {
            ctes: self.ctes.clone(),
            is_recursive: self.is_recursive,
            tables: [self.tables.as_slice(), &from.tables].concat(),
            // Without its columns, every name could be a column of the FROM clause.
            keys: from
                .columns
                .as_ref()
                .map_or_else(Vec::new, |columns| self.keys_with(columns)),
        }
    }

    /// Returns the keys that are identified by their name alone beside these columns, which take
    /// precedence.
    pub fn keys_with(&self, columns: &[Column]) -> Vec<Column> {
        let is_hidden = |key: &&Column| columns.iter().any(|column| column.name == key.name);
        let is_key =
            |column: &&Column| column.is_key && unique_index(columns, &column.name).is_some();
        let outer = self.keys.iter().filter(|key| !is_hidden(key));
        outer
            .chain(columns.iter().filter(is_key))
            .cloned()
            .collect()
    }
}

/// The first tables of a FROM clause.
#[derive(Debug, Clone)]
pub(super) struct FromClause {
    pub tables: Vec<TableWithJoins>,
    /// The columns of the tables; `None` if they are not needed or cannot be resolved.
    pub columns: Option<Vec<Column>>,
}

impl FromClause {
    /// Returns the FROM clause with another item.
    pub fn with(&self, tables: &TableWithJoins, columns: Option<Vec<Column>>) -> Self {
        let mut from = self.clone();
        from.push(tables.clone(), columns);
        from
    }

    /// Adds an item to the FROM clause.
    pub fn push(&mut self, tables: TableWithJoins, columns: Option<Vec<Column>>) {
        self.tables.push(tables);
        self.columns = self.columns.take().zip(columns).map(|(mut all, more)| {
            all.extend(more);
            all
        });
    }
}
