//! Writes results as HTML tables.

use crate::output::formats::markup::Markup;
use datafusion::arrow::datatypes::Fields;
use std::io::{self, Write};

/// A `table` element, for inclusion in a page.
pub struct Html;

impl Markup for Html {
    const NULL: &'static str = "";

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\n', "<br>")
    }

    fn begin(sink: &mut impl Write, _fields: &Fields, names: Option<&[String]>) -> io::Result<()> {
        writeln!(sink, "<table>")?;
        if let Some(names) = names {
            writeln!(sink, "<thead>")?;
            write!(sink, "<tr>")?;
            for name in names {
                write!(sink, "<th>{name}</th>")?;
            }
            writeln!(sink, "</tr>\n</thead>")?;
        }
        writeln!(sink, "<tbody>")
    }

    fn row(sink: &mut impl Write, fields: &Fields, values: &[String]) -> io::Result<()> {
        write!(sink, "<tr>")?;
        for (value, field) in values.iter().zip(fields) {
            let start = match field.data_type().is_numeric() {
                true => "<td align=\"right\">",
                false => "<td>",
            };
            write!(sink, "{start}{value}</td>")?;
        }
        writeln!(sink, "</tr>")
    }

    fn end(sink: &mut impl Write) -> io::Result<()> {
        writeln!(sink, "</tbody>\n</table>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_no_elements() {
        assert_eq!(Html::escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
