//! The SQL dialect of a session.

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};

/// Returns the name of the session's SQL dialect, which `SET` may change.
pub fn dialect_name(context: &SessionContext) -> String {
    let state = context.state_ref();
    let state = state.read();
    state.config_options().sql_parser.dialect.to_string()
}

/// Returns the session's SQL dialect and its name.
pub fn dialect(context: &SessionContext) -> (String, Box<dyn Dialect>) {
    let name = dialect_name(context);
    let dialect = dialect_from_str(&name).unwrap_or_else(|| Box::new(GenericDialect {}));
    (name, dialect)
}
