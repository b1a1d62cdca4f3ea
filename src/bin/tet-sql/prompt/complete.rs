//! Completes the word before the cursor of the prompt.

use crate::prompt::candidates::{Candidate, matching};
use crate::prompt::files;
use crate::prompt::keywords::KEYWORDS;
use crate::prompt::names::Names;
use crate::prompt::scope::{self, CursorContext};
use datafusion::sql::sqlparser::dialect::Dialect;

/// The maximum number of labels that are offered.
const MAX_LABELS: usize = 1000;
/// The maximum number of times that are listed one by one. More times are listed by their common
/// prefixes.
const MAX_TIMES: usize = 24;
/// The lengths of times that are cut after the year, month, day, hour, minute and second.
const TIME_LENGTHS: [usize; 6] = [4, 7, 10, 13, 16, 19];

impl Names {
    /// Returns the candidates for the word before the cursor, and the offset at which they begin.
    pub fn complete(
        &self,
        text: &str,
        cursor: usize,
        dialect: &dyn Dialect,
    ) -> (usize, Vec<Candidate>) {
        let (text, rest) = text.split_at(cursor);
        let (start, mut found) = self.candidates(text, dialect);
        found.retain(Candidate::is_visible);
        for candidate in &mut found {
            // Do not close a quote or parenthesis that is already closed after the cursor.
            if rest.starts_with(['\'', '(']) && candidate.text.ends_with(&rest[..1]) {
                candidate.text.pop();
            }
        }
        (start, found)
    }

    fn candidates(&self, text: &str, dialect: &dyn Dialect) -> (usize, Vec<Candidate>) {
        let line = text.trim_start();
        if line.starts_with(['.', '\\']) && !line.contains('\n') {
            return self.complete_meta(text, line);
        }
        let start = word_start(text);
        let word = &text[start..];
        match scope::place(text, dialect) {
            CursorContext::Text => (text.len(), Vec::new()),
            CursorContext::File(start) => {
                (start, quoted(files::beginning_with(&text[start..]), true))
            }
            CursorContext::Label(column, start) => (start, self.labels(&column, &text[start..])),
            CursorContext::Setting => {
                let settings = self.settings.iter().map(String::as_str);
                let lower = word.to_lowercase();
                let found = settings.filter(|name| name.starts_with(&lower));
                (start, found.map(Candidate::plain).collect())
            }
            CursorContext::Table => self.complete_table(start, word),
            CursorContext::Anywhere => match word.rfind('.') {
                Some(dot) => {
                    let members = self.members(&word[..dot]);
                    (start + dot + 1, matching(members, &word[dot + 1..]))
                }
                None => (start, self.words(word)),
            },
        }
    }

    /// Completes the name of a table with schemas, tables and table functions.
    pub(super) fn complete_table(&self, start: usize, word: &str) -> (usize, Vec<Candidate>) {
        match word.rfind('.') {
            Some(dot) => {
                let tables = self.tables_of(&word[..dot]);
                (start + dot + 1, matching(tables, &word[dot + 1..]))
            }
            None => {
                let mut found = matching(self.table_words(), word);
                if !word.is_empty() && !word.starts_with('"') {
                    let functions = matching(self.table_functions.iter().map(String::as_str), word);
                    found.extend(functions.into_iter().map(|function| Candidate {
                        shown: format!("{}(...)", function.text),
                        text: format!("{}(", function.text),
                    }));
                }
                (start, found)
            }
        }
    }

    /// Completes a word without a qualifier: columns first, then tables, functions and keywords. If
    /// the statement names tables, only these tables and their columns are offered.
    fn words(&self, word: &str) -> Vec<Candidate> {
        let (columns, tables): (Vec<_>, Vec<_>) = match self.scope.is_empty() {
            true => {
                let columns = self.tables.iter().flat_map(|table| &table.columns);
                (columns.collect(), self.table_words().collect())
            }
            false => {
                let columns = self.scope.iter().flat_map(|table| &table.columns);
                let names = self.scope.iter().map(|table| table.name.as_str());
                (columns.collect(), names.collect())
            }
        };
        let mut found = matching(columns.into_iter().map(String::as_str), word);
        for table in matching(tables, word) {
            if !found.contains(&table) {
                found.push(table);
            }
        }
        // A list of all functions and keywords would be too long to help, and a quoted word is
        // always the name of a table or column.
        if word.is_empty() || word.starts_with('"') {
            return found;
        }
        let lower = word.to_lowercase();
        let functions = self
            .functions
            .iter()
            .filter(|(name, _)| name.starts_with(&lower));
        found.extend(functions.map(|(name, signature)| Candidate {
            // An alias has the signature of the function that it stands for.
            shown: match signature.starts_with(name.as_str()) {
                true => signature.clone(),
                false => format!("{name}(...)"),
            },
            text: format!("{name}("),
        }));
        let upper = word.to_uppercase();
        let is_lower = word.chars().all(|c| !c.is_uppercase());
        let keywords = KEYWORDS.iter().filter(|key| key.starts_with(&upper));
        found.extend(keywords.map(|keyword| match is_lower {
            true => Candidate::plain(keyword.to_lowercase()),
            false => Candidate::plain(*keyword),
        }));
        found
    }

    fn table_words(&self) -> impl Iterator<Item = &str> {
        let names = self.tables.iter();
        names.flat_map(|names| [names.schema.as_str(), names.table.as_str()])
    }

    /// Returns the names that may follow a qualifier: columns of a table that the statement names,
    /// tables of a schema, or columns of any table with this name.
    fn members(&self, qualifier: &str) -> Vec<&str> {
        let scoped = self
            .scope
            .iter()
            .filter(|table| same(&table.name, qualifier));
        let mut found: Vec<&str> = scoped
            .flat_map(|table| table.columns.iter().map(String::as_str))
            .collect();
        if !found.is_empty() {
            return found;
        }
        found = self.tables_of(qualifier);
        let last = qualifier.rsplit('.').next().unwrap_or(qualifier);
        let tables = self.tables.iter().filter(|names| same(&names.table, last));
        found.extend(tables.flat_map(|names| names.columns.iter().map(String::as_str)));
        found
    }

    fn tables_of(&self, schema: &str) -> Vec<&str> {
        let names = self.tables.iter().filter_map(|names| {
            if same(&names.schema, schema) {
                return Some(names.table.as_str());
            }
            // The groups of a file are schemas.
            let (group, table) = names.table.rsplit_once('/')?;
            let qualified = format!("{}/{group}", names.schema);
            (same(group, schema) || same(&qualified, schema)).then_some(table)
        });
        names.collect()
    }

    fn labels(&self, column: &str, word: &str) -> Vec<Candidate> {
        let word = word.replace("''", "'").to_lowercase();
        let labels = self
            .scope
            .iter()
            .flat_map(|table| table.labels.iter())
            .filter(|(dimension, _)| same(dimension, column))
            .flat_map(|(_, labels)| labels)
            .filter(|label| label.to_lowercase().starts_with(&word));
        let mut labels: Vec<String> = labels.take(MAX_LABELS).cloned().collect();
        labels.sort();
        labels.dedup();
        let mut found = quoted(labels, true);
        found.extend(self.times(column, &word));
        found
    }

    /// Returns the times that begin with a word. Many times are reduced to their years, months,
    /// days or hours.
    fn times(&self, column: &str, word: &str) -> Vec<Candidate> {
        let word = word.to_uppercase().replace(' ', "T");
        let times = self.scope.iter().flat_map(|table| table.times.iter());
        let times = times.filter(|(dimension, _)| same(dimension, column));
        let mut times: Vec<&str> = times
            .flat_map(|(_, times)| times)
            .map(String::as_str)
            .filter(|time| time.starts_with(&word))
            .collect();
        times.sort_unstable();
        times.dedup();
        for length in TIME_LENGTHS
            .into_iter()
            .filter(|length| *length > word.len())
        {
            if times.len() <= MAX_TIMES {
                break;
            }
            let mut parts: Vec<&str> = times
                .iter()
                .map(|time| time.get(..length).unwrap_or(time))
                .collect();
            parts.dedup();
            if parts.len() > 1 {
                let are_cut = |part: &str| !times.contains(&part);
                let parts = parts.into_iter().map(|part| match are_cut(part) {
                    true => Candidate::plain(part),
                    false => Candidate {
                        shown: part.to_owned(),
                        text: format!("{part}'"),
                    },
                });
                return parts.collect();
            }
        }
        quoted(times.into_iter().map(str::to_owned).collect(), true)
    }
}

/// Returns candidates inside of quotes. In SQL, quotes within a text are doubled, and the closing
/// quote is added except after a directory.
pub(super) fn quoted(texts: Vec<String>, of_sql: bool) -> Vec<Candidate> {
    let texts = texts.into_iter().map(|shown| {
        let mut text = match of_sql {
            true => shown.replace('\'', "''"),
            false => shown.clone(),
        };
        if of_sql && !shown.ends_with('/') {
            text.push('\'');
        }
        Candidate { shown, text }
    });
    texts.collect()
}

/// Returns `true` if a word means a name, ignoring quotes and case.
fn same(name: &str, word: &str) -> bool {
    name.eq_ignore_ascii_case(&word.replace('"', ""))
}

/// Returns the offset of the word at the end of a text, including its qualifiers.
pub(super) fn word_start(text: &str) -> usize {
    // A quoted name may contain spaces.
    let is_open = text.matches('"').count() % 2 == 1;
    let end = match text.rfind('"').filter(|_| is_open) {
        Some(quote) if !text[..quote].ends_with('.') => return quote,
        Some(quote) => quote,
        None => text.len(),
    };
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$');
    let before = &text[..end];
    before.rfind(|c| !in_word(c)).map_or(0, |offset| {
        offset + before[offset..].chars().next().map_or(1, char::len_utf8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::names::{ScopedTable, TableNames};
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn names() -> Names {
        let table = |schema: &str, table: &str, columns: &[&str]| TableNames {
            schema: schema.to_owned(),
            table: table.to_owned(),
            columns: strings(columns),
        };
        let functions = [("lag", "lag(expression, offset)"), ("lower", "lower(str)")];
        Names {
            tables: vec![
                table("demo", "temperature", &["time", "lat", "Höhe"]),
                table("demo", "pressure", &["time", "station"]),
                table("other", "sea level", &["depth"]),
                table("other", "ocean/salt", &["depth"]),
            ],
            functions: functions
                .map(|(name, signature)| (name.to_owned(), signature.to_owned()))
                .into(),
            table_functions: strings(&["tet_chunks"]),
            settings: strings(&["tet.access", "tet.nan_as_null", "datafusion.x"]),
            scope: Vec::new(),
        }
    }

    /// Returns every hour of the first 28 days of three months.
    fn times() -> Vec<String> {
        let hours = |month: &str| {
            let days = (1..=28).flat_map(|day| (0..24).map(move |hour| (day, hour)));
            let times = days.map(|(day, hour)| format!("{month}-{day:02}T{hour:02}:00:00"));
            times.collect::<Vec<_>>()
        };
        ["2019-12", "2020-01", "2020-02"]
            .into_iter()
            .flat_map(hours)
            .collect()
    }

    fn scoped() -> Names {
        let labels = strings(&["KPDX", "KSEA", "O'Hare"]);
        Names {
            scope: vec![ScopedTable {
                name: "p".to_owned(),
                columns: strings(&["time", "station"]),
                labels: [("station".to_owned(), labels)].into(),
                times: [("time".to_owned(), times())].into(),
            }],
            ..names()
        }
    }

    /// Returns the offset and the texts of the candidates.
    fn completed(names: &Names, text: &str) -> (usize, Vec<String>) {
        let (start, found) = names.complete(text, text.len(), &GenericDialect {});
        (
            start,
            found.into_iter().map(|candidate| candidate.text).collect(),
        )
    }

    #[test]
    fn words_are_completed() {
        let names = names();
        assert_eq!(
            completed(&names, "SELECT la"),
            (7, strings(&["lat", "lag(", "last", "lateral"]))
        );
        assert_eq!(completed(&names, "SEL"), (0, strings(&["SELECT"])));
        assert_eq!(completed(&names, "x(sel"), (2, strings(&["select"])));
        assert_eq!(completed(&names, "SELECT \"H"), (7, strings(&["\"Höhe\""])));
        assert_eq!(
            completed(&names, "SELECT \"sea l"),
            (7, strings(&["\"sea level\""]))
        );
        assert_eq!(
            completed(&names, "FROM other.\"sea l"),
            (11, strings(&["\"sea level\""]))
        );
        let (_, found) = names.complete("SELECT lag", 10, &GenericDialect {});
        assert_eq!(found[0].shown, "lag(expression, offset)");
    }

    #[test]
    fn tables_are_completed_where_they_are_named() {
        let names = names();
        assert_eq!(
            completed(&names, "FROM se"),
            (5, strings(&["\"sea level\""]))
        );
        assert_eq!(
            completed(&names, "FROM demo.t"),
            (10, strings(&["temperature"]))
        );
        assert_eq!(
            completed(&names, "FROM tet"),
            (5, strings(&["tet_chunks("]))
        );
    }

    #[test]
    fn qualified_names_are_completed() {
        let names = names();
        assert_eq!(completed(&names, "SELECT pressure.").1, ["station", "time"]);
        assert_eq!(
            completed(&names, "SELECT demo.pressure.s"),
            (21, strings(&["station"]))
        );
        assert_eq!(
            completed(&scoped(), "SELECT p.st"),
            (9, strings(&["station"]))
        );
    }

    #[test]
    fn the_tables_of_the_statement_come_first() {
        assert_eq!(
            completed(&scoped(), "SELECT la").1,
            ["lag(", "last", "lateral"]
        );
        assert_eq!(completed(&scoped(), "SELECT sta").1, ["station"]);
    }

    #[test]
    fn tables_of_groups_are_completed() {
        for schema in ["ocean", "\"other/ocean\""] {
            assert_eq!(completed(&names(), &format!("FROM {schema}.s")).1, ["salt"]);
        }
    }

    #[test]
    fn labels_and_settings_are_completed() {
        let names = scoped();
        assert_eq!(
            completed(&names, "WHERE station = 'k"),
            (17, strings(&["KPDX'", "KSEA'"]))
        );
        assert_eq!(
            completed(&names, "WHERE station IN ('KSEA', 'O").1,
            ["O''Hare'"]
        );
        assert_eq!(
            completed(&names, "SET tet."),
            (4, strings(&["tet.access", "tet.nan_as_null"]))
        );
        assert!(completed(&names, "SELECT 'K").1.is_empty());
    }

    #[test]
    fn times_are_completed_step_by_step() {
        let names = scoped();
        let found = |typed: &str| completed(&names, &format!("WHERE time > '{typed}")).1;
        assert_eq!(found(""), ["2019", "2020"]);
        assert_eq!(found("2020"), ["2020-01", "2020-02"]);
        assert_eq!(found("2019")[0], "2019-12-01");
        assert_eq!(found("2020-01-0").len(), 9);
        assert_eq!(found("2020-01-05").len(), 24);
        assert_eq!(found("2020-01-05 07"), ["2020-01-05T07:00:00'"]);
    }

    #[test]
    fn columns_come_before_functions_and_tables() {
        let mut names = names();
        names.tables[0].columns.push("press".to_owned());
        names
            .functions
            .insert("prefix".to_owned(), "prefix(x)".to_owned());
        assert_eq!(
            completed(&names, "SELECT pre").1,
            ["press", "pressure", "prefix(", "preceding"]
        );
    }

    #[test]
    fn labels_that_a_terminal_would_obey_are_not_offered() {
        let mut names = scoped();
        let labels = strings(&["K\u{1b}[2J", "KPDX"]);
        names.scope[0].labels.insert("station".to_owned(), labels);
        assert_eq!(completed(&names, "WHERE station = 'k").1, ["KPDX'"]);
    }

    #[test]
    fn what_is_closed_is_not_closed_again() {
        let text = "WHERE station = 'KS'";
        let (_, found) = scoped().complete(text, text.len() - 1, &GenericDialect {});
        assert_eq!(found[0].text, "KSEA");
        let (_, found) = names().complete("SELECT low(x)", 10, &GenericDialect {});
        assert_eq!(found[0].text, "lower");
    }

    #[test]
    fn meta_commands_are_completed() {
        let names = names();
        assert_eq!(completed(&names, ".tab"), (0, strings(&[".tables"])));
        assert_eq!(
            completed(&names, "\\d"),
            (0, strings(&["\\d", "\\d+", "\\df", "\\dn", "\\dt"]))
        );
        assert_eq!(completed(&names, ".schema p"), (8, strings(&["pressure"])));
        assert_eq!(completed(&names, ".mode c"), (6, strings(&["csv"])));
        assert_eq!(completed(&names, "\\x a"), (3, strings(&["auto"])));
        assert_eq!(
            completed(&names, "\\pset format cs"),
            (13, strings(&["csv"]))
        );
        assert_eq!(completed(&names, ".help .on"), (6, strings(&[".once"])));
    }

    #[test]
    fn files_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("it's.tet"), "").unwrap();
        let path = format!("{}/it", folder.path().display());
        let (start, found) = completed(&names(), &format!("SELECT * FROM '{path}"));
        assert_eq!((start, found), (15, vec![format!("{path}''s.tet'")]));
        let (start, found) = completed(&names(), &format!(".read {path}"));
        assert_eq!((start, found), (6, vec![format!("{path}'s.tet")]));
    }

    #[test]
    fn wide_characters_do_not_confuse_it() {
        assert_eq!(completed(&names(), "SELECT '日本' §la").0, 18);
    }
}
