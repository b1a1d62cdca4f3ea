//! Writes result batches in the chosen format.

mod canvas;
mod cells;
mod json;
mod line;
mod markup;
mod separated;
mod table;
mod text;
mod visible;
mod widths;

use crate::output::appearance::{Expanded, Format};
use crate::output::formats::line::Line;
use crate::output::formats::markup::MarkupTable;
use crate::output::formats::separated::Separated;
use crate::output::formats::table::Table;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use std::io::Write;
use std::sync::Arc;

pub use crate::output::formats::cells::READABLE;
pub use crate::output::formats::markup::Markup;
pub use crate::output::formats::visible::Visible;
pub use crate::output::formats::widths::{ELLIPSIS, shortened};

/// The number of rows from which tables compute column widths. Later rows are written as they
/// arrive.
pub const MEASURED_ROWS: usize = 10_000;

/// The style that one result is written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// The format of the result.
    pub format: Format,
    /// The text that stands for null; `None` means the default of the format.
    pub null: Option<String>,
    /// `true` to write the column names above the columns.
    pub headers: bool,
    /// The setting for one value per line in tables.
    pub expanded: Expanded,
    /// The width of the terminal in characters; `None` if the result does not go to a terminal.
    pub width: Option<usize>,
    /// `true` if text may be dimmed or bold.
    pub styled: bool,
}

impl Style {
    /// Returns `true` if the first rows are buffered to compute column widths.
    pub fn is_measured(&self) -> bool {
        let is_table = matches!(self.format, Format::Box | Format::Table);
        is_table && self.expanded != Expanded::On
    }

    /// Returns the default style of a format.
    #[cfg(test)]
    pub fn plain(format: Format) -> Self {
        Self {
            format,
            null: None,
            headers: true,
            expanded: Expanded::Off,
            width: None,
            styled: false,
        }
    }
}

/// A writer of one result.
pub trait ResultWriter: Send {
    /// Writes rows, or buffers them.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError>;

    /// Marks that rows are left out between the previous rows and the next. The default does
    /// nothing, because only formats for people are ever cut.
    fn skip(&mut self) -> Result<(), ArrowError> {
        Ok(())
    }

    /// Writes the buffered rows and the end of the result.
    fn finish(&mut self) -> Result<(), ArrowError>;
}

/// Returns a writer for a result. Tables buffer up to [`MEASURED_ROWS`] rows, other formats at most
/// one batch.
pub fn writer<'a, W: Write + Send + 'a>(
    style: &Style,
    schema: &SchemaRef,
    sink: W,
) -> Box<dyn ResultWriter + 'a> {
    match style.format {
        Format::Box | Format::Table if !style.is_measured() => {
            Box::new(Line::records(style, schema, sink))
        }
        Format::Box => Box::new(Table::boxed(style, Arc::clone(schema), sink)),
        Format::Table => Box::new(Table::ascii(style, Arc::clone(schema), sink)),
        Format::Line => Box::new(Line::new(style, schema, sink)),
        // The other formats write values unchanged, so control characters are escaped for a
        // terminal.
        format if style.width.is_some() => {
            let is_json = matches!(format, Format::Json | Format::Ndjson);
            for_programs(style, schema, Visible::new(sink, is_json))
        }
        _ => for_programs(style, schema, sink),
    }
}

fn for_programs<'a, W: Write + Send + 'a>(
    style: &Style,
    schema: &SchemaRef,
    sink: W,
) -> Box<dyn ResultWriter + 'a> {
    let schema = Arc::clone(schema);
    match style.format {
        Format::Tsv => Box::new(Separated::new(b'\t', style, schema, sink)),
        Format::Json => json::array(&schema, sink),
        Format::Ndjson => json::lines(&schema, sink),
        Format::Markdown => Box::new(MarkupTable::new(Markup::Markdown, style, schema, sink)),
        Format::Html => Box::new(MarkupTable::new(Markup::Html, style, schema, sink)),
        Format::Latex => Box::new(MarkupTable::new(Markup::Latex, style, schema, sink)),
        _ => Box::new(Separated::new(b',', style, schema, sink)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float16Array, Int64Array, ListArray};
    use arrow::datatypes::{DataType, Int64Type};
    use clap::ValueEnum;

    fn written(style: &Style, batches: &[RecordBatch], schema: &SchemaRef) -> String {
        let mut bytes = Vec::new();
        let mut writer = writer(style, schema, &mut bytes);
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        String::from_utf8(bytes).unwrap()
    }

    fn sample() -> RecordBatch {
        let list = vec![Some(vec![Some(1), None]), None];
        RecordBatch::try_from_iter([
            (
                "n",
                Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
            ),
            ("h", {
                let halves = arrow::compute::cast(
                    &arrow::array::Float32Array::from(vec![1.5, f32::NAN]),
                    &DataType::Float16,
                );
                let halves = halves.unwrap();
                assert!(halves.as_any().is::<Float16Array>());
                halves
            }),
            (
                "l",
                Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(list)),
            ),
        ])
        .unwrap()
    }

    #[test]
    fn every_format_writes_every_type() {
        let batch = sample();
        let expected = [
            (Format::Csv, "n,h,l\n1,1.5,\"[1, NULL]\"\n,NaN,\n"),
            (Format::Tsv, "n\th\tl\n1\t1.5\t[1, NULL]\n\tNaN\t\n"),
            (
                Format::Json,
                "[{\"n\":1,\"h\":1.5,\"l\":[1,null]},{\"n\":null,\"h\":null,\"l\":null}]\n",
            ),
            (
                Format::Ndjson,
                "{\"n\":1,\"h\":1.5,\"l\":[1,null]}\n{\"n\":null,\"h\":null,\"l\":null}\n",
            ),
            (
                Format::Markdown,
                "| n | h | l |\n| ---: | ---: | --- |\n| 1 | 1.5 | [1, NULL] |\n| NULL | NaN | NULL |\n",
            ),
            (
                Format::Line,
                "n = 1\nh = 1.5\nl = [1, NULL]\n\nn = NULL\nh = NaN\nl = NULL\n",
            ),
            (
                Format::Box,
                "┌──────┬─────┬───────────┐\n\
                 │    n │   h │ l         │\n\
                 ├──────┼─────┼───────────┤\n\
                 │    1 │ 1.5 │ [1, NULL] │\n\
                 │ NULL │ NaN │ NULL      │\n\
                 └──────┴─────┴───────────┘\n",
            ),
            (
                Format::Table,
                "+------+-----+-----------+\n\
                 | n    | h   | l         |\n\
                 +------+-----+-----------+\n\
                 | 1    | 1.5 | [1, NULL] |\n\
                 | NULL | NaN | NULL      |\n\
                 +------+-----+-----------+\n",
            ),
            (
                Format::Html,
                "<table>\n<thead>\n<tr><th>n</th><th>h</th><th>l</th></tr>\n</thead>\n<tbody>\n\
                 <tr><td align=\"right\">1</td><td align=\"right\">1.5</td><td>[1, NULL]</td></tr>\n\
                 <tr><td align=\"right\"></td><td align=\"right\">NaN</td><td></td></tr>\n\
                 </tbody>\n</table>\n",
            ),
            (
                Format::Latex,
                "\\begin{tabular}{rrl}\n\\hline\nn & h & l \\\\\n\\hline\n1 & 1.5 & [1, NULL] \\\\\n & NaN &  \\\\\n\
                 \\hline\n\\end{tabular}\n",
            ),
        ];
        for (format, text) in expected {
            let style = Style::plain(format);
            let schema = batch.schema();
            assert_eq!(written(&style, std::slice::from_ref(&batch), &schema), text);
        }
    }

    #[test]
    fn no_format_tells_a_terminal_what_to_do() {
        let text = "x\u{1b}]0;title\u{7}\u{9b}2J";
        let values = Arc::new(arrow::array::StringArray::from(vec![text])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("n\u{1b}[31m", values)]).unwrap();
        for format in Format::value_variants() {
            let style = Style {
                width: Some(80),
                ..Style::plain(*format)
            };
            let text = written(&style, std::slice::from_ref(&batch), &batch.schema());
            let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!text.contains(is_obeyed), "{format:?}: {text:?}");
        }
    }

    #[test]
    fn names_and_nulls_are_chosen() {
        let batch = sample();
        let batch = batch.project(&[0]).unwrap();
        let expected = [
            (Format::Csv, "1\n-\n"),
            (Format::Tsv, "1\n-\n"),
            (Format::Markdown, "| 1 |\n| - |\n"),
            (Format::Line, "n = 1\n\nn = -\n"),
            (Format::Box, "┌───┐\n│ 1 │\n│ - │\n└───┘\n"),
            (Format::Table, "+---+\n| 1 |\n| - |\n+---+\n"),
            (
                Format::Html,
                "<table>\n<tbody>\n<tr><td align=\"right\">1</td></tr>\n<tr><td align=\"right\">-</td></tr>\n\
                 </tbody>\n</table>\n",
            ),
            (
                Format::Latex,
                "\\begin{tabular}{r}\n\\hline\n1 \\\\\n- \\\\\n\\hline\n\\end{tabular}\n",
            ),
        ];
        for (format, text) in expected {
            let style = Style {
                null: Some("-".to_owned()),
                headers: false,
                ..Style::plain(format)
            };
            let schema = batch.schema();
            assert_eq!(written(&style, std::slice::from_ref(&batch), &schema), text);
        }
    }

    #[test]
    fn records_have_a_value_a_line() {
        let style = Style {
            expanded: Expanded::On,
            ..Style::plain(Format::Box)
        };
        let batch = sample().project(&[0, 1]).unwrap();
        assert_eq!(
            written(&style, std::slice::from_ref(&batch), &batch.schema()),
            "-[ RECORD 1 ]\nn = 1\nh = 1.5\n-[ RECORD 2 ]\nn = NULL\nh = NaN\n"
        );
    }

    #[test]
    fn results_without_rows_have_their_names() {
        let schema = sample().schema();
        let expected = [
            (Format::Csv, "n,h,l\n"),
            (Format::Json, "[]\n"),
            (Format::Ndjson, ""),
            (Format::Line, ""),
            (Format::Markdown, "| n | h | l |\n| ---: | ---: | --- |\n"),
            (
                Format::Html,
                "<table>\n<thead>\n<tr><th>n</th><th>h</th><th>l</th></tr>\n</thead>\n<tbody>\n</tbody>\n</table>\n",
            ),
        ];
        for (format, text) in expected {
            assert_eq!(written(&Style::plain(format), &[], &schema), text);
        }
        let table = written(&Style::plain(Format::Table), &[], &schema);
        assert!(table.contains("| n | h | l |"));
    }
}
