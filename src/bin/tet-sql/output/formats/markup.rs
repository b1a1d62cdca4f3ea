//! Writes results as tables in a markup language.

use crate::output::formats::cells::Cells;
use crate::output::formats::{ResultWriter, Style};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::arrow::error::ArrowError;
use std::io::{self, Write};

/// A markup language with tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// A table in GitHub's Markdown dialect.
    Markdown,
    /// A `table` element, for inclusion in a page.
    Html,
    /// A `tabular` environment, which needs no package.
    Latex,
}

impl Markup {
    /// Escapes characters that have a meaning in the language.
    pub fn escape(self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        let text = text.replace("\r\n", "\n");
        let mut characters = text.chars().peekable();
        let mut before = None;
        while let Some(character) = characters.next() {
            let is_word = |other: Option<char>| other.is_some_and(char::is_alphanumeric);
            let is_in_word =
                is_word(before.replace(character)) && is_word(characters.peek().copied());
            let replacement = match (self, character) {
                // An underscore within a word does not begin emphasis.
                (Self::Markdown, '_') if is_in_word => "_",
                (Self::Markdown, '\n' | '\r') | (Self::Html, '\n') => "<br>",
                (Self::Markdown | Self::Html, '&') => "&amp;",
                (Self::Html, '<') => "&lt;",
                (Self::Html, '>') => "&gt;",
                (Self::Html, '"') => "&quot;",
                (Self::Markdown, '\\' | '*' | '_' | '`' | '<' | '>' | '|')
                | (Self::Latex, '&' | '%' | '$' | '#' | '_' | '{' | '}') => {
                    escaped.push('\\');
                    escaped.push(character);
                    continue;
                }
                (Self::Latex, '\\') => "\\textbackslash{}",
                (Self::Latex, '~') => "\\textasciitilde{}",
                (Self::Latex, '^') => "\\textasciicircum{}",
                (Self::Latex, '\n') => " ",
                _ => {
                    escaped.push(character);
                    continue;
                }
            };
            escaped.push_str(replacement);
        }
        escaped
    }
}

/// Writes rows as they arrive, without aligning them: the program that renders the document does
/// so.
pub struct MarkupTable<W> {
    markup: Markup,
    schema: SchemaRef,
    null: String,
    headers: bool,
    sink: W,
    started: bool,
}

impl<W: Write> MarkupTable<W> {
    /// Creates a writer for rows of a schema.
    pub fn new(markup: Markup, style: &Style, schema: SchemaRef, sink: W) -> Self {
        let null = match markup {
            Markup::Markdown => "NULL",
            Markup::Html | Markup::Latex => "",
        };
        Self {
            markup,
            schema,
            null: markup.escape(style.null.as_deref().unwrap_or(null)),
            headers: style.headers,
            sink,
            started: false,
        }
    }

    /// Returns one of two texts for each column, depending on its alignment.
    fn aligned(&self, right: &str, left: &str) -> String {
        let is_right = |field: &Field| field.data_type().is_numeric();
        let fields = self.schema.fields().iter();
        fields
            .map(|field| if is_right(field) { right } else { left })
            .collect()
    }

    fn start(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let names = self.schema.fields().iter();
        let names: Vec<String> = names
            .map(|field| self.markup.escape(field.name()))
            .collect();
        match self.markup {
            Markup::Markdown if self.headers => {
                self.row(&names)?;
                writeln!(self.sink, "{}|", self.aligned("| ---: ", "| --- "))
            }
            Markup::Markdown => Ok(()),
            Markup::Html => {
                writeln!(self.sink, "<table>")?;
                if self.headers {
                    let names: String = names
                        .iter()
                        .map(|name| format!("<th>{name}</th>"))
                        .collect();
                    writeln!(self.sink, "<thead>\n<tr>{names}</tr>\n</thead>")?;
                }
                writeln!(self.sink, "<tbody>")
            }
            Markup::Latex => {
                let columns = self.aligned("r", "l");
                writeln!(self.sink, "\\begin{{tabular}}{{{columns}}}\n\\hline")?;
                match self.headers {
                    true => writeln!(self.sink, "{} \\\\\n\\hline", names.join(" & ")),
                    false => Ok(()),
                }
            }
        }
    }

    fn row(&mut self, values: &[String]) -> io::Result<()> {
        match self.markup {
            Markup::Markdown => {
                for value in values {
                    write!(self.sink, "| {value} ")?;
                }
                writeln!(self.sink, "|")
            }
            Markup::Html => {
                write!(self.sink, "<tr>")?;
                for (value, field) in values.iter().zip(self.schema.fields()) {
                    let start = match field.data_type().is_numeric() {
                        true => "<td align=\"right\">",
                        false => "<td>",
                    };
                    write!(self.sink, "{start}{value}</td>")?;
                }
                writeln!(self.sink, "</tr>")
            }
            Markup::Latex => {
                let row = values.join(" & ");
                // LaTeX would read a leading `[` or `*` as an argument of the `\\` that ends the
                // previous line.
                let start = if row.starts_with(['[', '*']) {
                    "{}"
                } else {
                    ""
                };
                writeln!(self.sink, "{start}{row} \\\\")
            }
        }
    }
}

impl<W: Write + Send> ResultWriter for MarkupTable<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.start()?;
        let cells = Cells::new(batch)?;
        for row in 0..cells.rows() {
            let values = cells.row(row).map(|value| {
                let value = value?.map(|value| self.markup.escape(&value));
                Ok(value.unwrap_or_else(|| self.null.clone()))
            });
            let values = values.collect::<Result<Vec<String>, ArrowError>>()?;
            self.row(&values)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        self.start()?;
        match self.markup {
            Markup::Markdown => {}
            Markup::Html => writeln!(self.sink, "</tbody>\n</table>")?,
            Markup::Latex => writeln!(self.sink, "\\hline\n\\end{{tabular}}")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_markup() {
        for (markup, text, expected) in [
            (Markup::Markdown, "a|b\r\nc\nd\\", "a\\|b<br>c<br>d\\\\"),
            (
                Markup::Markdown,
                "<b> &amp; *em* `x` [a] t2m_mean _em_",
                "\\<b\\> &amp;amp; \\*em\\* \\`x\\` [a] t2m_mean \\_em\\_",
            ),
            (Markup::Html, "<a & \"b\">", "&lt;a &amp; &quot;b&quot;&gt;"),
            (Markup::Latex, "a_b \\ 5%", "a\\_b \\textbackslash{} 5\\%"),
        ] {
            assert_eq!(markup.escape(text), expected);
        }
    }
}
