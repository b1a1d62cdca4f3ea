//! Arguments of table functions by name, as in `tatami_search('reports', 'rain', mode => 'all')`.
//!
//! DataFusion resolves the names of scalar functions' arguments, and refuses those of table functions.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, ObjectName, TableFactor, VisitorMut};

use crate::provider::sql::walk::walk_statement_mut;

/// The names of the arguments of table functions with more than one, in their order.
const ARGUMENTS: [(&str, &[&str]); 2] = [
    ("tatami_search", &["table", "words", "mode"]),
    ("tiledb_at", &["table", "timestamp"]),
];

/// Puts the named arguments of table functions in their places. Other functions are left to
/// DataFusion.
///
/// # Errors
/// Fails if there is no argument of a name, if an argument is given twice, or if one in front of a named
/// one is missing.
pub(crate) fn place(statement: &mut Statement) -> Result<()> {
    let mut arguments = NamedArguments { placed: Ok(()) };
    let _ = walk_statement_mut(statement, &mut arguments);
    arguments.placed
}

struct NamedArguments {
    placed: Result<()>,
}

impl VisitorMut for NamedArguments {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.placed = match factor {
            TableFactor::Table {
                name,
                args: Some(arguments),
                ..
            } => place_arguments(name, &mut arguments.args),
            TableFactor::Function { name, args, .. } => place_arguments(name, args),
            _ => Ok(()),
        };
        match self.placed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn place_arguments(function: &ObjectName, arguments: &mut Vec<FunctionArg>) -> Result<()> {
    let is_named = |argument: &FunctionArg| !matches!(argument, FunctionArg::Unnamed(_));
    let function = function.to_string().to_lowercase();
    let known = ARGUMENTS.iter().find(|(name, _)| *name == function);
    let Some((_, names)) = known.filter(|_| arguments.iter().any(is_named)) else {
        return Ok(());
    };
    let mut places: Vec<Option<FunctionArg>> = Vec::new();
    for argument in arguments.drain(..) {
        let (name, arg) = match argument {
            FunctionArg::Named { name, arg, .. }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg,
                ..
            } => (name, arg),
            argument => {
                places.push(Some(argument));
                continue;
            }
        };
        let index = names
            .iter()
            .position(|known| known.eq_ignore_ascii_case(&name.value));
        let Some(index) = index else {
            return Err(plan_datafusion_err!(
                "{function} has no argument {name}, expected one of {}",
                names.join(", ")
            ));
        };
        places.resize(places.len().max(index + 1), None);
        if places[index].replace(FunctionArg::Unnamed(arg)).is_some() {
            return Err(plan_datafusion_err!(
                "{function}: the argument {name} is given twice"
            ));
        }
    }
    let placed = places
        .into_iter()
        .zip(names.iter().chain(std::iter::repeat(&"next")));
    let placed = placed.map(|(argument, name)| {
        argument.ok_or_else(|| plan_datafusion_err!("{function}: the argument {name} is missing"))
    });
    *arguments = placed.collect::<Result<_>>()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn named_arguments_are_placed() {
        let placed = |sql: &str| {
            let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
            match place(&mut statement) {
                Ok(()) => statement.to_string(),
                Err(error) => error.strip_backtrace(),
            }
        };
        let search = |arguments: &str| format!("SELECT * FROM tatami_search({arguments})");
        let expected = search("'t', 'rain', 'all'");
        for arguments in [
            "'t', 'rain', 'all'",
            "'t', 'rain', mode => 'all'",
            "mode => 'all', words => 'rain', \"TABLE\" => 't'",
        ] {
            assert_eq!(placed(&search(arguments)), expected, "{arguments}");
        }
        let nested = "WITH a AS (SELECT * FROM tiledb_at('t', timestamp => 5)) SELECT * FROM a";
        assert_eq!(placed(nested), nested.replace("timestamp => ", ""));
        for (arguments, message) in [
            (
                "'t', mood => 'all'",
                "has no argument mood, expected one of table, words, mode",
            ),
            (
                "'t', \"table\" => 'u'",
                "the argument \"table\" is given twice",
            ),
            ("'t', mode => 'all'", "the argument words is missing"),
        ] {
            let found = placed(&search(arguments));
            assert!(found.contains(message), "{arguments}: {found}");
        }
        let other = "SELECT * FROM other(a => 1)";
        assert_eq!(placed(other), other);
    }
}
