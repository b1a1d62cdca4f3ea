//! What the prompt offers to complete a word with.

use crate::meta;
use crate::output::Format;
use crate::tables;
use clap::ValueEnum;
use datafusion::common::utils::quote_identifier;
use datafusion::prelude::SessionContext;
use std::collections::BTreeSet;

/// The keywords that are worth completing.
const KEYWORDS: &[&str] = &[
    "ALL",
    "ANALYZE",
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COLUMNS",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT",
    "DATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRECEDING",
    "RANGE",
    "RECURSIVE",
    "RESET",
    "RIGHT",
    "ROW",
    "ROWS",
    "SCHEMA",
    "SELECT",
    "SET",
    "SHOW",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "UNBOUNDED",
    "UNION",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// The names of a session.
#[derive(Debug, Default)]
pub struct Names {
    tables: Vec<TableNames>,
    functions: Vec<String>,
}

#[derive(Debug)]
struct TableNames {
    schema: String,
    table: String,
    columns: Vec<String>,
}

impl Names {
    /// The names a session has now. A table that cannot be opened has no columns to offer.
    pub async fn of(context: &SessionContext) -> Self {
        let mut names = Self::default();
        for listed in tables::list(context) {
            let columns = match context.table_provider(listed.reference).await {
                Ok(table) => {
                    let schema = table.schema();
                    let fields = schema.fields().iter();
                    fields.map(|field| field.name().clone()).collect()
                }
                Err(_) => Vec::new(),
            };
            names.tables.push(TableNames {
                schema: listed.schema,
                table: listed.table,
                columns,
            });
        }
        let state = context.state();
        names.functions = state
            .scalar_functions()
            .keys()
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys())
            .chain(state.table_functions().keys())
            .cloned()
            .collect();
        names
    }

    /// The candidates for the word at the end of a text, and where they begin.
    pub fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let line = text.trim_start();
        if line.starts_with(['.', '\\']) && !line.contains('\n') {
            return self.complete_meta(text, line);
        }
        let start = word_start(text);
        let word = &text[start..];
        match word.rfind('.') {
            Some(dot) => (
                start + dot + 1,
                matching(self.members(&word[..dot]), &word[dot + 1..]),
            ),
            None => (start, self.words(word)),
        }
    }

    fn complete_meta(&self, text: &str, line: &str) -> (usize, Vec<String>) {
        let Some((name, _)) = line.split_once(char::is_whitespace) else {
            let names = meta::NAMES.iter().filter(|name| name.starts_with(line));
            return (
                text.len() - line.len(),
                names.map(|name| (*name).to_owned()).collect(),
            );
        };
        match name {
            ".schema" | "\\d" => {
                let start = word_start(text);
                let word = &text[start..];
                match word.rfind('.') {
                    Some(dot) => (
                        start + dot + 1,
                        matching(self.tables_of(&word[..dot]), &word[dot + 1..]),
                    ),
                    None => (start, matching(self.table_words(), word)),
                }
            }
            ".mode" => {
                let start = word_start(text);
                let formats = Format::value_variants().iter();
                let names = formats.map(|format| format.name().to_owned());
                (start, matching(names, &text[start..]))
            }
            _ => (text.len(), Vec::new()),
        }
    }

    /// What may stand without a qualifier.
    fn words(&self, word: &str) -> Vec<String> {
        let columns = self.tables.iter().flat_map(|table| &table.columns).cloned();
        // The names of the data come first: there are some hundred functions.
        let mut found = matching(self.table_words().chain(columns), word);
        // A list of everything helps nobody, and what is quoted is the name of a table or column.
        if word.is_empty() || word.starts_with('"') {
            return found;
        }
        for function in matching(self.functions.iter().cloned(), word) {
            if !found.contains(&function) {
                found.push(function);
            }
        }
        let lower = word.chars().all(|c| !c.is_uppercase());
        let upper = word.to_uppercase();
        let keywords = KEYWORDS.iter().filter(|key| key.starts_with(&upper));
        found.extend(keywords.map(|keyword| {
            if lower {
                keyword.to_lowercase()
            } else {
                (*keyword).to_owned()
            }
        }));
        found
    }

    fn table_words(&self) -> impl Iterator<Item = String> {
        let names = self.tables.iter();
        names.flat_map(|names| [names.schema.clone(), names.table.clone()])
    }

    /// What may stand behind a qualifier: tables of a schema, columns of a table or, for an alias, any column.
    fn members(&self, qualifier: &str) -> Vec<String> {
        let tables = self.tables_of(qualifier);
        let last = qualifier.rsplit('.').next().unwrap_or(qualifier);
        let columns_of = |named: bool| -> Vec<String> {
            self.tables
                .iter()
                .filter(|names| !named || same(&names.table, last))
                .flat_map(|names| names.columns.iter().cloned())
                .collect()
        };
        let mut found = tables;
        found.extend(columns_of(true));
        if found.is_empty() {
            found = columns_of(false);
        }
        found
    }

    fn tables_of(&self, schema: &str) -> Vec<String> {
        let names = self.tables.iter();
        names
            .filter(|names| same(&names.schema, schema))
            .map(|names| names.table.clone())
            .collect()
    }
}

/// Whether a word means a name, whatever its quotes and case.
fn same(name: &str, word: &str) -> bool {
    name.eq_ignore_ascii_case(&word.replace('"', ""))
}

/// Where the word at the end of a text begins, with its qualifiers.
fn word_start(text: &str) -> usize {
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$');
    text.rfind(|c| !in_word(c)).map_or(0, |place| {
        place + text[place..].chars().next().map_or(1, char::len_utf8)
    })
}

/// The names that begin with a word, as they have to be written, without duplicates.
fn matching(names: impl IntoIterator<Item = String>, word: &str) -> Vec<String> {
    let (quoted, plain) = match word.strip_prefix('"') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let plain = plain.to_lowercase();
    let found: BTreeSet<String> = names
        .into_iter()
        .filter(|name| name.to_lowercase().starts_with(&plain))
        .map(|name| match quoted {
            true => format!("\"{}\"", name.replace('"', "\"\"")),
            false => quote_identifier(&name).into_owned(),
        })
        .collect();
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let table = |schema: &str, table: &str, columns: &[&str]| TableNames {
            schema: schema.to_owned(),
            table: table.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
        };
        Names {
            tables: vec![
                table("demo", "temperature", &["time", "lat", "Höhe"]),
                table("demo", "pressure", &["time", "station"]),
                table("other", "sea level", &["depth"]),
            ],
            functions: ["lag", "lower", "hex"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn words_are_completed() {
        let names = names();
        assert_eq!(
            names.complete("SELECT la"),
            (
                7,
                vec!["lat".into(), "lag".into(), "last".into(), "lateral".into()]
            )
        );
        assert_eq!(names.complete("SEL"), (0, vec!["SELECT".into()]));
        assert_eq!(names.complete("x(sel"), (2, vec!["select".into()]));
        assert_eq!(
            names.complete("FROM se"),
            (
                5,
                vec!["\"sea level\"".into(), "select".into(), "set".into()]
            )
        );
        assert_eq!(names.complete("SELECT \"H"), (7, vec!["\"Höhe\"".into()]));
    }

    #[test]
    fn qualified_names_are_completed() {
        let names = names();
        assert_eq!(
            names.complete("FROM demo.t"),
            (10, vec!["temperature".into()])
        );
        assert_eq!(names.complete("pressure.").1, ["station", "time"]);
        assert_eq!(
            names.complete("demo.pressure.s"),
            (14, vec!["station".into()])
        );
        assert_eq!(names.complete("t.dep"), (2, vec!["depth".into()]));
    }

    #[test]
    fn meta_commands_are_completed() {
        let names = names();
        assert_eq!(names.complete(".t"), (0, vec![".tables".into()]));
        assert_eq!(
            names.complete("\\d"),
            (0, vec!["\\d".into(), "\\dt".into()])
        );
        assert_eq!(names.complete(".schema p"), (8, vec!["pressure".into()]));
        assert_eq!(names.complete(".mode c"), (6, vec!["csv".into()]));
        assert_eq!(names.complete(".output x"), (9, vec![]));
    }

    #[test]
    fn wide_characters_do_not_confuse_it() {
        assert_eq!(names().complete("SELECT '日本' §la").0, 18);
    }
}
