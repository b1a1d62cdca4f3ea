//! Error messages of statements, with an excerpt that marks the faulty text and with suggestions.

use crate::diagnostics::advice::advised;
use crate::failure::{Failure, one_line};
use crate::statement::dialect::dialect;
use crate::statement::tokens::{Tokens, offset};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use std::ops::Range;
use tet_sql::provider::error::describe;
use unicode_width::UnicodeWidthStr;

/// The width above which only part of a line is shown.
const WIDTH: usize = 100;

/// Returns the message for a failed statement, with advice and an excerpt of the statement.
pub async fn failure(context: &SessionContext, sql: &str, error: &DataFusionError) -> Failure {
    let mut message = one_line(&describe(error));
    if message.contains("Did you mean")
        && let Some((short, _)) = message.split_once(" Valid fields are")
    {
        message.truncate(short.len());
    }
    if let Some(text) = copy_format(&message) {
        message = text;
    }
    let place = place(context, sql, error, &mut message);
    let message = advised(context, sql, message).await;
    match place {
        Some(place) => Failure::Message(format!("{message}\n{}", excerpt(sql, place))),
        None => Failure::Message(message),
    }
}

/// Returns the message for a COPY whose target has an unknown format.
fn copy_format(message: &str) -> Option<String> {
    const ENDINGS: &str = ".tet, .zarr, .parquet, .csv, .json, .ndjson, .jsonl, .arrow, .feather";
    const UNKNOWN: &str = "There is no registered file format with ext ";
    if message.contains("unable to get file extension!") {
        return Some(format!(
            "the target of COPY has no file extension that selects a format: use one of {ENDINGS}, or STORED AS"
        ));
    }
    let (_, ending) = message.split_once(UNKNOWN)?;
    let instead = match ending {
        "npy" | "npz" => {
            "; to get NumPy files, use tet convert on a .tet file or a .zarr directory"
        }
        "png" | "svg" | "html" => "; -o FILE, .once FILE and .plot FILE draw pictures",
        _ => "",
    };
    Some(format!(
        "COPY cannot write .{ending} files: expected one of {ENDINGS}{instead}"
    ))
}

/// Returns the range of bytes of the statement that caused the error. Removes the location from the
/// message.
fn place(
    context: &SessionContext,
    sql: &str,
    error: &DataFusionError,
    message: &mut String,
) -> Option<Range<usize>> {
    if let Some((start, location)) = parsed_location(message) {
        message.truncate(start);
        let start = offset(sql, location);
        return Some(start..word_end(sql, start));
    }
    if message.ends_with("found: EOF") {
        let end = sql.trim_end().len();
        return Some(end..end);
    }
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    if let Some(span) = span.filter(|span| span.start.line > 0) {
        let at = |location: datafusion::common::Location| Location {
            line: location.line,
            column: location.column,
        };
        let (start, end) = (offset(sql, at(span.start)), offset(sql, at(span.end)));
        return (start < end).then_some(start..end);
    }
    named(context, sql, message)
}

/// Parses ` at Line: 1, Column: 8` at the end of a message. Returns the offset of this text and the
/// location.
fn parsed_location(message: &str) -> Option<(usize, Location)> {
    let start = message.rfind(" at Line: ")?;
    let (line, column) = message[start + 10..].split_once(", Column: ")?;
    let location = Location {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    };
    Some((start, location))
}

/// Returns the range of the first word in the statement that the message quotes or reports as an
/// unknown field.
fn named(context: &SessionContext, sql: &str, message: &str) -> Option<Range<usize>> {
    let (_, dialect) = dialect(context);
    let tokens = Tokens::of(sql, dialect.as_ref()).tokens;
    let quoted = message.split('\'').skip(1).step_by(2);
    let field = message.strip_prefix("No field named ");
    let field = field.and_then(|rest| rest.split(['.', ' ']).next());
    for name in field.into_iter().chain(quoted) {
        let name = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        let found = tokens.iter().find(|(token, _)| match token {
            Token::Word(word) => word.value.eq_ignore_ascii_case(name),
            Token::SingleQuotedString(text) => text == name,
            _ => false,
        });
        if let Some((_, place)) = found {
            return Some(place.clone());
        }
    }
    None
}

fn word_end(sql: &str, start: usize) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let rest = &sql[start..];
    let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    let first = rest.chars().next().map_or(0, char::len_utf8);
    start + end.max(first)
}

/// Returns the line that contains a range, with carets below the range.
fn excerpt(sql: &str, place: Range<usize>) -> String {
    let start = sql[..place.start].rfind('\n').map_or(0, |end| end + 1);
    let number = sql[..start].matches('\n').count() + 1;
    let line = sql[start..].lines().next().unwrap_or_default();
    let (from, to) = (place.start - start, (place.end - start).min(line.len()));
    // Show only the part of a long line around the range.
    let first = match line.width() > WIDTH {
        true => char_start(line, from.saturating_sub(WIDTH / 2)),
        false => 0,
    };
    let last = match line.len() - first > 2 * WIDTH {
        true => char_start(line, (first + WIDTH).max(to.min(first + 2 * WIDTH))),
        false => line.len(),
    };
    let to = to.clamp(from, last.max(from));
    let shown = line[first..last].replace('\t', " ");
    let (before, after) = (
        if first > 0 { "…" } else { "" },
        if last < line.len() { "…" } else { "" },
    );
    let margin = format!("LINE {number}: ");
    let indent = margin.len() + before.width() + line[first..from.min(last)].width();
    let carets = "^".repeat(line[from.min(last)..to.min(last)].width().max(1));
    format!(
        "{margin}{before}{shown}{after}\n{}{carets}",
        " ".repeat(indent)
    )
}

/// Returns the start of the character at or before an offset.
fn char_start(text: &str, place: usize) -> usize {
    let mut place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(sql: &str) -> String {
        let mut config = datafusion::prelude::SessionConfig::new();
        config.options_mut().sql_parser.collect_spans = true;
        let context = SessionContext::new_with_config(config);
        let table = "CREATE TABLE temperature AS SELECT 1 AS lat, 2 AS lon";
        context.sql(table).await.unwrap().collect().await.unwrap();
        let error = match context.sql(sql).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.unwrap_err(),
        };
        match failure(&context, sql, &error).await {
            Failure::Message(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_place_is_shown() {
        assert_eq!(
            told("SELECT latt\nFROM temperature").await,
            "No field named latt. Did you mean 'temperature.lat'?\nLINE 1: SELECT latt\n               ^^^^"
        );
        assert_eq!(
            told("SELECT *\nFORM temperature").await,
            "syntax error: Expected: end of statement, found: FORM\nLINE 2: FORM temperature\n        ^^^^"
        );
        assert_eq!(
            told("SELECT 'é', flor(lat) FROM temperature").await,
            "Invalid function 'flor'. Did you mean 'floor'?\n\
             LINE 1: SELECT 'é', flor(lat) FROM temperature\n                    ^^^^"
        );
    }

    #[tokio::test]
    async fn tables_are_suggested() {
        assert_eq!(
            told("SELECT * FROM temprature").await,
            "table 'datafusion.public.temprature' not found; did you mean 'temperature'?\n\
             LINE 1: SELECT * FROM temprature\n                      ^^^^^^^^^^"
        );
        let text = told("SELECT * FROM publik.temperature").await;
        assert!(text.contains("; did you mean 'temperature'?"), "{text}");
    }

    #[test]
    fn long_lines_are_shown_in_part() {
        let sql = format!("SELECT {}nope, {}", "é, ".repeat(200), "b, ".repeat(500));
        let start = sql.find("nope").unwrap();
        let text = excerpt(&sql, start..start + 4);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].width() < 220, "{text}");
        let column = lines[1].find('^').unwrap();
        let under: String = lines[0].chars().skip(column).take(4).collect();
        assert_eq!(under, "nope");
        assert_eq!(lines[1].matches('^').count(), 4);
        // An error may be at the end of the statement.
        assert!(excerpt("SELECT", 6..6).ends_with("      ^"));
    }
}
