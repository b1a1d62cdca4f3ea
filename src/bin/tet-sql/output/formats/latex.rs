//! Writes results as LaTeX tables.

use crate::output::formats::markup::Markup;
use datafusion::arrow::datatypes::Fields;
use std::io::{self, Write};

/// A `tabular` environment, which needs no package.
pub struct Latex;

impl Markup for Latex {
    const NULL: &'static str = "";

    fn escape(text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                    escaped.push('\\');
                    escaped.push(character);
                }
                '\\' => escaped.push_str("\\textbackslash{}"),
                '~' => escaped.push_str("\\textasciitilde{}"),
                '^' => escaped.push_str("\\textasciicircum{}"),
                '\n' => escaped.push(' '),
                _ => escaped.push(character),
            }
        }
        escaped
    }

    fn begin(sink: &mut impl Write, fields: &Fields, names: Option<&[String]>) -> io::Result<()> {
        let columns = fields.iter();
        let columns = columns.map(|field| match field.data_type().is_numeric() {
            true => 'r',
            false => 'l',
        });
        let columns: String = columns.collect();
        writeln!(sink, "\\begin{{tabular}}{{{columns}}}\n\\hline")?;
        match names {
            Some(names) => writeln!(sink, "{} \\\\\n\\hline", names.join(" & ")),
            None => Ok(()),
        }
    }

    fn row(sink: &mut impl Write, _fields: &Fields, values: &[String]) -> io::Result<()> {
        let row = values.join(" & ");
        // LaTeX would read a leading `[` or `*` as an argument of the `\\` that ends the previous
        // line.
        let start = if row.starts_with(['[', '*']) {
            "{}"
        } else {
            ""
        };
        writeln!(sink, "{start}{row} \\\\")
    }

    fn end(sink: &mut impl Write) -> io::Result<()> {
        writeln!(sink, "\\hline\n\\end{{tabular}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_commands() {
        assert_eq!(Latex::escape("a_b \\ 5%"), "a\\_b \\textbackslash{} 5\\%");
    }
}
