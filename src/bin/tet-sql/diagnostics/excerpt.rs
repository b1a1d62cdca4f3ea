//! Error messages of statements, with an excerpt that marks the faulty text and with suggestions.

use crate::diagnostics::advice::advised;
use crate::diagnostics::suggestion::nearest;
use crate::failure::{Failure, one_line};
use crate::output::formats::ELLIPSIS;
use crate::output::wrapping::fitting;
use crate::statement::dialect::dialect;
use crate::statement::tokens::{Tokens, offset};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use std::ops::Range;
use tet_sql::provider::error::describe;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width of the smallest part of a line that is shown.
const MIN_WIDTH: usize = 20;

/// Returns the message for a failed statement, with advice and an excerpt of the statement that is
/// at most `width` columns wide.
pub async fn failure(
    context: &SessionContext,
    sql: &str,
    error: &DataFusionError,
    width: usize,
) -> Failure {
    let mut message = one_line(&describe(error));
    if let Some(text) = unknown_field(&message) {
        message = text;
    }
    if let Some(text) = copy_format(&message) {
        message = text;
    }
    let place = place(context, sql, error, &mut message);
    let message = advised(context, sql, message).await;
    match place {
        Some(place) => Failure::Message(format!("{message}\n{}", excerpt(sql, place, width))),
        None => Failure::Message(message),
    }
}

/// Returns the message for an unknown column: with the column that DataFusion suggests if the names are
/// similar, else with all columns.
fn unknown_field(message: &str) -> Option<String> {
    let (unknown, rest) = message.split_once(" Did you mean '")?;
    let (suggested, rest) = rest.split_once("'?")?;
    let (before, columns) = rest.split_once(" Valid fields are")?;
    let (_, field) = unknown.split_once("No field named ")?;
    let name = |field: &str| {
        let name = field.rsplit('.').next().unwrap_or_default();
        name.trim_matches('"').to_owned()
    };
    let similar = name(suggested);
    let field = name(field.trim_end_matches('.'));
    Some(match nearest(&field, [similar.as_str()]) {
        Some(_) => format!("{unknown} Did you mean '{suggested}'?{before}"),
        None => format!("{unknown} Valid fields are{columns}"),
    })
}

/// Returns the message for a COPY whose target has an unknown format.
fn copy_format(message: &str) -> Option<String> {
    const ENDINGS: &str =
        ".tet, .zarr, .parquet, .csv, .tsv, .json, .ndjson, .jsonl, .arrow, .feather";
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
        if let Some((_, range)) = found {
            return Some(range.clone());
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

/// Returns the line that contains a range, with carets below the range. Shows only the part around
/// the range of a line that is wider than `width`.
fn excerpt(sql: &str, range: Range<usize>, width: usize) -> String {
    let start = sql[..range.start].rfind('\n').map_or(0, |end| end + 1);
    let number = sql[..start].matches('\n').count() + 1;
    let line = sql[start..].lines().next().unwrap_or_default();
    let line = line.replace('\t', " ");
    let from = (range.start - start).min(line.len());
    let to = (range.end - start).clamp(from, line.len());
    let margin = format!("LINE {number}: ");
    let width = width.saturating_sub(margin.len());
    let (first, last) = if line.width() < width {
        (0, line.len())
    } else {
        let width = width.saturating_sub(2 * ELLIPSIS.width()).max(MIN_WIDTH);
        let marked = line[from..to].width();
        let after = line[from..].width();
        let before = (width.saturating_sub(marked) / 2).max(width.saturating_sub(after));
        let first = suffix_start(&line[..from], before);
        (first, first + fitting(&line[first..], width))
    };
    let ellipsis = |is_cut| if is_cut { ELLIPSIS } else { "" };
    let (before, after) = (ellipsis(first > 0), ellipsis(last < line.len()));
    let indent = margin.len() + before.width() + line[first..from].width();
    let carets = "^".repeat(line[from..to.min(last).max(from)].width().max(1));
    format!(
        "{margin}{before}{}{after}\n{}{carets}",
        &line[first..last],
        " ".repeat(indent)
    )
}

/// Returns the start of the longest suffix that is at most `width` columns wide.
fn suffix_start(text: &str, width: usize) -> usize {
    let mut left = width;
    let mut start = text.len();
    for (offset, character) in text.char_indices().rev() {
        let wide = character.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        start = offset;
    }
    start
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
        match failure(&context, sql, &error, 80).await {
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
            told("SELECT laxy FROM temperature").await,
            "No field named laxy. Valid fields are temperature.lat, temperature.lon.\n\
             LINE 1: SELECT laxy FROM temperature\n               ^^^^"
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

    #[tokio::test]
    async fn subqueries_beside_a_table_are_explained() {
        for from in ["(SELECT t.lat)", "(SELECT t.lat FROM temperature)"] {
            let text = told(&format!("SELECT * FROM temperature AS t, {from} AS u")).await;
            assert!(
                text.starts_with(
                    "No field named t.lat: a subquery in FROM cannot refer to the table 't'"
                ),
                "{text}"
            );
        }
        for (sql, field) in [
            ("SELECT t.latt FROM temperature AS t", "t.latt"),
            (
                "SELECT t.latt FROM temperature AS t, LATERAL (SELECT t.latt FROM temperature) AS u",
                "t.latt",
            ),
            (
                "SELECT t.lat FROM (SELECT * FROM temperature AS t) AS u",
                "t.lat",
            ),
        ] {
            let text = told(sql).await;
            let expected = format!("No field named {field}. Did you mean");
            assert!(text.starts_with(&expected), "{text}");
        }
    }

    #[test]
    fn long_lines_are_shown_in_part() {
        let begin = format!("SELECT {}", "é, ".repeat(200));
        for (sql, start) in [
            (format!("{begin}nope, {}", "b, ".repeat(500)), begin.len()),
            (format!("{begin}日本, nope"), begin.len() + 8),
            (format!("nope, {begin}"), 0),
        ] {
            for width in [80, 100, 200] {
                let text = excerpt(&sql, start..start + 4, width);
                let lines: Vec<&str> = text.lines().collect();
                assert!(lines[0].width() <= width, "{text}");
                assert!(lines[0].width() >= width - 4, "{text}");
                let column = lines[1].find('^').unwrap();
                let shown = lines[0].split_once("nope").unwrap().0;
                assert_eq!(shown.width(), column, "{text}");
                assert_eq!(lines[1].matches('^').count(), 4);
            }
        }
        // A range that is wider than the screen.
        let text = excerpt(&begin, 7..begin.len(), 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        // An error may be at the end of the statement.
        assert!(excerpt("SELECT", 6..6, 80).ends_with("      ^"));
        let text = excerpt(&begin, begin.len()..begin.len(), 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }
}
