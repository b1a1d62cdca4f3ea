//! Writes results as Markdown tables.

use crate::output::formats::markup::Markup;
use datafusion::arrow::datatypes::Fields;
use std::io::{self, Write};

/// A table in GitHub's Markdown dialect.
pub struct Markdown;

impl Markup for Markdown {
    const NULL: &'static str = "NULL";

    /// Escapes a value so that it stays within its table cell.
    fn escape(text: &str) -> String {
        text.replace('\\', "\\\\")
            .replace('|', "\\|")
            .replace("\r\n", "<br>")
            .replace(['\n', '\r'], "<br>")
    }

    fn begin(sink: &mut impl Write, fields: &Fields, names: Option<&[String]>) -> io::Result<()> {
        let Some(names) = names else {
            return Ok(());
        };
        Self::row(sink, fields, names)?;
        for field in fields {
            let rule = if field.data_type().is_numeric() {
                "| ---: "
            } else {
                "| --- "
            };
            write!(sink, "{rule}")?;
        }
        writeln!(sink, "|")
    }

    fn row(sink: &mut impl Write, _fields: &Fields, values: &[String]) -> io::Result<()> {
        for value in values {
            write!(sink, "| {value} ")?;
        }
        writeln!(sink, "|")
    }

    fn end(_sink: &mut impl Write) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_cells() {
        assert_eq!(Markdown::escape("a|b\r\nc\nd\\"), "a\\|b<br>c<br>d\\\\");
    }
}
