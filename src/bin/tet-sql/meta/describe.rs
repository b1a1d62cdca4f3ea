//! Describes tables for `.schema`.

use crate::failure::Failure;
use crate::meta::tables::{self, Listed};
use crate::output::formats::READABLE;
use crate::output::wrapping::{aligned, wrapped};
use crate::size::human_size;
use crate::terminal::escape_controls;
use arrow::util::display::ArrayFormatter;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::prelude::SessionContext;
use std::fmt::Write;
use tet_sql::grid::Monotonicity;
use tet_sql::{ArrayTable, AttributeDescription, DimensionDescription, TableDescription};

/// The width of the labels in front of the properties of a table.
const LABEL: usize = 13;
/// The indentation of the rows of a section.
const INDENT: usize = 4;

/// Returns the description of one table, or of those that match a pattern, with lines of at most
/// `width` columns.
pub async fn named(
    context: &SessionContext,
    name: &str,
    width: Option<usize>,
) -> Result<String, Failure> {
    let reference = TableReference::from(name);
    if context.table_exist(reference.clone()).unwrap_or(false) {
        return describe(context, name, reference, width).await;
    }
    // Also accept the exact name in the file, which SQL would require in quotes.
    let listed = tables::list(context);
    let mut exact = listed.iter().filter(|listed| {
        listed.table == name || format!("{}.{}", listed.schema, listed.table) == name
    });
    if let Some(listed) = exact.next() {
        return describe(context, name, listed.reference.clone(), width).await;
    }
    if !name.contains(['*', '?', '%']) {
        return describe(context, name, reference, width).await;
    }
    let matching = tables::matching(listed, Some(name))?;
    match matching.is_empty() {
        true => Err(Failure::message(format!(
            "no table matches {name}; .tables lists all"
        ))),
        false => each(context, matching, width).await,
    }
}

/// Returns the descriptions of all tables, with lines of at most `width` columns.
pub async fn all(context: &SessionContext, width: Option<usize>) -> Result<String, Failure> {
    each(context, tables::list(context), width).await
}

async fn each(
    context: &SessionContext,
    tables: Vec<Listed>,
    width: Option<usize>,
) -> Result<String, Failure> {
    let mut text = String::new();
    for listed in tables {
        if !text.is_empty() {
            text.push('\n');
        }
        let name = format!("{}.{}", listed.schema, listed.table);
        text.push_str(&describe(context, &name, listed.reference, width).await?);
    }
    Ok(text)
}

async fn describe(
    context: &SessionContext,
    name: &str,
    reference: TableReference,
    width: Option<usize>,
) -> Result<String, Failure> {
    let table = context.table_provider(reference).await?;
    let mut text = format!("{}\n", escape_controls(name));
    match table.downcast_ref::<ArrayTable>() {
        Some(array) if array.source().grids().is_empty() => {
            let table = array.describe()?;
            blocks_text(&mut text, &table, array.source().schema(), width);
        }
        Some(array) => array_text(&mut text, &in_order(array)?, width),
        None => text.push_str(&columns(&table.schema(), width)),
    }
    Ok(text)
}

/// Returns the description of an array. The range of a descending axis runs from its first
/// coordinate to its last.
fn in_order(array: &ArrayTable) -> Result<TableDescription, Failure> {
    let mut table = array.describe()?;
    let grids = array.source().grids();
    for dimension in &mut table.dimensions {
        let mut axes = grids.iter().flat_map(|grid| grid.axes());
        let is_descending = axes.any(|axis| {
            // Coordinates that cannot be read are listed among the problems of the table.
            axis.name() == dimension.name
                && matches!(axis.monotonicity(), Ok(Monotonicity::Descending))
        });
        if let Some((min, max)) = dimension.range.take() {
            dimension.range = Some(match is_descending {
                true => (max, min),
                false => (min, max),
            });
        }
    }
    Ok(table)
}

/// Returns the columns of a table that is not an array.
fn columns(schema: &Schema, width: Option<usize>) -> String {
    let mut rows = vec![row(["column", "type", "null"])];
    rows.extend(schema.fields().iter().map(|field| {
        row([
            field.name().as_str(),
            &field.data_type().to_string(),
            if field.is_nullable() { "yes" } else { "no" },
        ])
    }));
    aligned(&rows, INDENT, width)
}

fn write_line(text: &mut String, label: &str, value: &str, width: Option<usize>) {
    let line = format!("  {label:<LABEL$}{}", escape_controls(value));
    text.push_str(&wrapped(&line, width, LABEL));
    text.push('\n');
}

/// Writes the description of a table that consists of blocks without axes.
fn blocks_text(text: &mut String, table: &TableDescription, schema: &Schema, width: Option<usize>) {
    let mut line = |label: &str, value: &str| write_line(text, label, value, width);
    line("table", &table.name);
    line("file", &format!("{} ({})", table.location, table.format));
    for problem in &table.problems {
        line("problem", problem);
    }
    section(text, "columns", &columns(schema, width));
}

/// Writes everything known about an array, section by section.
fn array_text(text: &mut String, table: &TableDescription, width: Option<usize>) {
    let mut line = |label: &str, value: &str| write_line(text, label, value, width);
    line("array", &table.name);
    line("file", &format!("{} ({})", table.location, table.format));
    let chunks = match table.chunks {
        Some(chunks) => chunks.to_string(),
        None => format!("more than {}", u64::MAX),
    };
    line("chunk shape", &shape(&table.chunk_shape));
    line("chunks", &chunks);
    line("codec", &table.codecs.join(", "));
    line("stored size", &bytes(table.stored_bytes));
    line("raw size", &raw_size(table));
    for problem in &table.problems {
        line("problem", problem);
    }
    section(text, "dimensions", &dimensions(&table.dimensions, width));
    section(text, "values", &values(&table.attributes, width));
    for attribute in &table.attributes {
        if !attribute.metadata.is_empty() {
            let rows: Vec<[String; 2]> = attribute
                .metadata
                .iter()
                .map(|(key, value)| row([key, value]))
                .collect();
            section(
                text,
                &format!("attributes of {}", attribute.name),
                &aligned(&rows, INDENT, width),
            );
        }
    }
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "  {}\n{body}", escape_controls(title));
}

fn dimensions(dimensions: &[DimensionDescription], width: Option<usize>) -> String {
    let mut rows = vec![row(["name", "extent", "type", "range", "coordinates"])];
    rows.extend(dimensions.iter().map(|dimension| {
        let range = match &dimension.range {
            Some((first, last)) => format!("{} .. {}", scalar(first), scalar(last)),
            None => "empty".to_owned(),
        };
        row([
            dimension.name.as_str(),
            &dimension.extent.to_string(),
            &dimension.data_type.to_string(),
            &range,
            &dimension.source,
        ])
    }));
    aligned(&rows, INDENT, width)
}

fn values(attributes: &[AttributeDescription], width: Option<usize>) -> String {
    let mut rows = vec![row(["name", "stored", "type", "fill"])];
    rows.extend(attributes.iter().map(|attribute| {
        row([
            attribute.name.as_str(),
            &attribute.stored_type,
            &attribute.data_type.to_string(),
            attribute.fill.as_deref().unwrap_or("none"),
        ])
    }));
    aligned(&rows, INDENT, width)
}

/// Formats a value as query results do. `ScalarValue` itself formats times as numbers.
fn scalar(value: &ScalarValue) -> String {
    let array = value.to_array().ok();
    let shown = array.as_ref().and_then(|array| {
        let formatter = ArrayFormatter::try_new(array.as_ref(), &READABLE).ok()?;
        formatter.value(0).try_to_string().ok()
    });
    shown.unwrap_or_else(|| value.to_string())
}

fn shape(extents: &[u64]) -> String {
    let extents: Vec<String> = extents.iter().map(u64::to_string).collect();
    extents.join(" x ")
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => human_size(bytes),
        _ => format!("{} ({bytes} bytes)", human_size(bytes)),
    }
}

/// Returns the size of the decoded cells, and its ratio to the stored size.
fn raw_size(table: &TableDescription) -> String {
    match table.raw_bytes {
        None => format!("more than {}", human_size(u64::MAX)),
        Some(raw) if table.stored_bytes == 0 => bytes(raw),
        Some(raw) => {
            let ratio = raw as f64 / table.stored_bytes as f64;
            format!("{}, {ratio:.2} times the stored size", bytes(raw))
        }
    }
}

/// Escapes the control characters of a row, because some texts come from a file.
fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(escape_controls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(row(["a\u{1b}[2J"]), ["a\\u{1b}[2J"]);
    }

    #[test]
    fn times_are_shown_as_times() {
        let time = ScalarValue::TimestampSecond(Some(1_704_067_200), None);
        assert_eq!(scalar(&time), "2024-01-01T00:00:00");
    }

    #[tokio::test]
    async fn other_tables_show_their_columns() {
        let context = SessionContext::new();
        context
            .sql("CREATE VIEW v AS SELECT 1 AS a, 'x' AS b")
            .await
            .unwrap();
        assert_eq!(
            named(&context, "v", None).await.unwrap(),
            "v\n    column  type   null\n    a       Int64  no\n    b       Utf8   no\n"
        );
        assert!(all(&context, None).await.unwrap().starts_with("public.v\n"));
        assert!(named(&context, "nowhere", None).await.is_err());
        assert!(
            named(&context, "V*", None)
                .await
                .unwrap()
                .starts_with("public.v\n")
        );
    }
}
