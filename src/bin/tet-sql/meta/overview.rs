//! An overview of the tables of a session: each file with its arrays, their dimensions, types,
//! units and sizes.

use crate::failure::Failure;
use crate::meta::tables::{self, Listed};
use crate::output::formats::shortened;
use crate::size::human_size;
use crate::terminal::escape_controls;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::quote_identifier;
use datafusion::prelude::SessionContext;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;
use tet_sql::ArrayTable;
use tet_sql::grid::CoordinateSource;
use tet_sql::provider::adapters::arrays::named_datasets;
use unicode_width::UnicodeWidthStr;

/// A table in the overview.
struct Row {
    schema: String,
    table: String,
    /// The file or files that contain the array.
    file: Option<String>,
    /// The names and lengths of the dimensions; empty if the table is not an array.
    dimensions: Vec<(String, u64)>,
    /// The names and types of the columns that are not dimensions.
    columns: Vec<(String, String)>,
    units: Option<String>,
    /// The size of the decoded cells in bytes.
    bytes: Option<u64>,
    /// `true` if the values of this array are the coordinates of an axis.
    is_coordinate: bool,
}

/// An overview of the tables of a session, or of some of them.
pub struct Overview(Vec<Row>);

impl Overview {
    /// Returns an overview of the tables whose names match a pattern, or of all tables.
    pub async fn of(context: &SessionContext, pattern: Option<&str>) -> Result<Self, Failure> {
        let all = tables::list(context);
        let wanted: HashSet<_> = tables::matching(all.clone(), pattern)?
            .into_iter()
            .collect();
        let mut rows = Vec::new();
        let mut coordinates = HashSet::new();
        for listed in all {
            // List a table even if it cannot be opened.
            let table = context.table_provider(listed.reference.clone()).await.ok();
            let array = table
                .as_ref()
                .and_then(|table| table.downcast_ref::<ArrayTable>());
            if let Some(array) = array {
                note_coordinates(&listed, array, &mut coordinates);
            }
            if wanted.contains(&listed) {
                let columns = table.as_ref().map(|table| table.schema());
                rows.push(match array {
                    Some(array) => of_array(listed, array),
                    None => Row {
                        schema: listed.schema,
                        table: listed.table,
                        file: None,
                        dimensions: Vec::new(),
                        columns: columns
                            .iter()
                            .flat_map(|schema| schema.fields())
                            .map(|field| (field.name().clone(), field.data_type().to_string()))
                            .collect(),
                        units: None,
                        bytes: None,
                        is_coordinate: false,
                    },
                });
            }
        }
        for row in &mut rows {
            row.is_coordinate = coordinates.contains(&(row.schema.clone(), row.table.clone()));
        }
        Ok(Self(rows))
    }

    /// Returns `true` if there are no tables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the overview as a record batch, with names quoted where SQL requires quotes.
    pub fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let texts = |of: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
            Arc::new(StringArray::from_iter(self.0.iter().map(of)))
        };
        let quoted = |name: &str| Some(quote_identifier(name).into_owned());
        let bytes = self.0.iter().map(|row| row.bytes);
        RecordBatch::try_from_iter_with_nullable([
            ("schema", texts(&|row| quoted(&row.schema)), false),
            ("table", texts(&|row| quoted(&row.table)), false),
            ("dimensions", texts(&|row| row.dimensions()), true),
            ("type", texts(&|row| row.types()), true),
            ("units", texts(&|row| row.units.clone()), true),
            (
                "bytes",
                Arc::new(UInt64Array::from_iter(bytes)) as ArrayRef,
                true,
            ),
        ])
    }

    /// Returns the overview as text, one section per schema.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for rows in self.0.chunk_by(|one, other| one.schema == other.schema) {
            let (coordinates, others): (Vec<&Row>, Vec<&Row>) =
                rows.iter().partition(|row| row.is_coordinate);
            text += &escape_controls(&quote_identifier(&rows[0].schema));
            // `.databases` shows the whole path.
            let files = rows.iter().filter_map(|row| row.file.as_deref());
            if let Some(file) = files.map(file_name).next() {
                let _ = write!(text, " ({})", escape_controls(file));
            }
            text.push('\n');
            let lines: Vec<Line> = others.iter().map(|row| row.line()).collect();
            text += &aligned(&lines, width);
            if !coordinates.is_empty() {
                let names = coordinates.iter().map(|row| quote_identifier(&row.table));
                let names: Vec<_> = names.map(|name| escape_controls(&name)).collect();
                let line = format!("  coordinates: {}", names.join(", "));
                text += &shortened(&line, width.unwrap_or(usize::MAX));
                text.push('\n');
            }
        }
        text
    }
}

impl Row {
    /// Returns the dimensions as text: `(time: 48, lat: 10, lon: 20)`.
    fn dimensions(&self) -> Option<String> {
        let parts = self.dimensions.iter();
        let parts: Vec<String> = parts
            .map(|(name, length)| format!("{name}: {length}"))
            .collect();
        (!parts.is_empty()).then(|| format!("({})", parts.join(", ")))
    }

    /// Returns the type of an array's value column, if there is exactly one.
    fn types(&self) -> Option<String> {
        match self.columns.as_slice() {
            [(_, data_type)] if !self.dimensions.is_empty() => Some(data_type.clone()),
            _ => None,
        }
    }

    /// Returns the line about the table. A table with several value columns lists their names at
    /// the end.
    fn line(&self) -> Line {
        let names = self.columns.iter().map(|(name, _)| name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let is_single = self.types().is_some();
        let size = self.bytes.filter(|_| is_single).map(human_size);
        Line {
            cells: [
                quote_identifier(&self.table).into_owned(),
                self.dimensions().unwrap_or_default(),
                self.types().unwrap_or_default(),
                self.units.clone().unwrap_or_default(),
                size.unwrap_or_default(),
            ]
            .map(|cell| escape_controls(&cell)),
            rest: match is_single {
                true => String::new(),
                false => escape_controls(&names),
            },
        }
    }
}

/// A line of the overview.
struct Line {
    cells: [String; 5],
    /// Text after the last non-empty cell. Other lines are not aligned with it.
    rest: String,
}

fn file_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

fn of_array(listed: Listed, array: &ArrayTable) -> Row {
    let source = array.source();
    let grid = array.grid();
    let names = source.dimensions();
    let lengths = grid
        .as_ref()
        .map(|grid| grid.axes().iter().map(|axis| axis.length()).collect());
    let lengths: Vec<u64> = lengths.unwrap_or_else(|| of_files(array));
    let fields = source.schema().fields().iter();
    let values: Vec<_> = fields
        .filter(|field| !names.contains(&field.name().as_str()))
        .collect();
    let units = match values.as_slice() {
        [value] => value.metadata().get("units").cloned(),
        _ => None,
    };
    let cells = lengths
        .iter()
        .try_fold(1u64, |cells, length| cells.checked_mul(*length));
    let width = values
        .iter()
        .map(|field| {
            field
                .data_type()
                .primitive_width()
                .map(|width| width as u64)
        })
        .sum::<Option<u64>>();
    let grids = source.grids();
    let path = grid.map(|grid| grid.path().display().to_string());
    let file = path.or_else(|| match grids.as_slice() {
        [] => None,
        [only] => Some(only.path().display().to_string()),
        [first, ..] => Some(format!(
            "{} and {} more files",
            first.path().display(),
            grids.len() - 1
        )),
    });
    Row {
        schema: listed.schema,
        table: listed.table,
        file,
        dimensions: names
            .iter()
            .map(|name| (*name).to_owned())
            .zip(lengths)
            .collect(),
        columns: values
            .iter()
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect(),
        units,
        bytes: cells
            .zip(width)
            .and_then(|(cells, width)| cells.checked_mul(width)),
        is_coordinate: false,
    }
}

/// Returns the lengths of the dimensions of a table that spans several files.
fn of_files(array: &ArrayTable) -> Vec<u64> {
    match array.describe() {
        Ok(table) => table.dimensions.iter().map(|one| one.extent).collect(),
        Err(_) => Vec::new(),
    }
}

/// Collects the arrays whose values are the coordinates of an axis, and those that attributes name, such as
/// bounds.
fn note_coordinates(
    listed: &Listed,
    array: &ArrayTable,
    coordinates: &mut HashSet<(String, String)>,
) {
    let grid = array.grid();
    for axis in grid.iter().flat_map(|grid| grid.axes()) {
        let name = match axis.source() {
            CoordinateSource::OwnValues => &listed.table,
            CoordinateSource::Dataset(name) | CoordinateSource::CoordinatesAttribute(name) => name,
            _ => continue,
        };
        coordinates.insert((listed.schema.clone(), name.clone()));
    }
    for field in grid.iter().flat_map(|grid| grid.attributes()) {
        let attribute = |key: &str| field.metadata().get(key).map(String::as_str);
        for name in named_datasets(&listed.table, attribute) {
            if name != listed.table {
                coordinates.insert((listed.schema.clone(), name));
            }
        }
    }
}

/// Formats indented lines with aligned columns. Shortens the widest column if the lines do not fit.
fn aligned(lines: &[Line], width: Option<usize>) -> String {
    let widest = |column: usize| lines.iter().map(|line| line.cells[column].width()).max();
    let mut widths = [0, 1, 2, 3, 4].map(|column| widest(column).unwrap_or(0));
    let total = widths
        .iter()
        .filter(|width| **width > 0)
        .map(|width| width + 2);
    let surplus = total
        .sum::<usize>()
        .saturating_sub(width.unwrap_or(usize::MAX));
    if let Some(most) = widths.iter_mut().max_by_key(|width| **width) {
        *most = most.saturating_sub(surplus).max(12.min(*most));
    }
    let mut text = String::new();
    for Line { cells, rest } in lines {
        let mut line = String::new();
        let used = cells
            .iter()
            .rposition(|cell| !cell.is_empty())
            .map_or(0, |last| last + 1);
        let used = if rest.is_empty() { cells.len() } else { used };
        for (number, (cell, width)) in cells.iter().zip(widths).enumerate().take(used) {
            if width == 0 {
                continue;
            }
            let cell = shortened(cell, width);
            let space = " ".repeat(width.saturating_sub(cell.width()));
            // Sizes are aligned to the right, like numbers.
            let _ = match number {
                4 => write!(line, "  {space}{cell}"),
                _ => write!(line, "  {cell}{space}"),
            };
        }
        if !rest.is_empty() {
            let _ = write!(line, "  {rest}");
        }
        text += &shortened(line.trim_end(), width.unwrap_or(usize::MAX));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_and_fit() {
        let line = |cells: [&str; 5], rest: &str| Line {
            cells: cells.map(str::to_owned),
            rest: rest.to_owned(),
        };
        let lines = [
            line(["t", "(lat: 10, lon: 20)", "Float32", "", "9 B"], ""),
            line(
                ["wide", "(lat: 10, lon: 20)", "", "", ""],
                "temperature, humidity",
            ),
            line(["v", "", "", "", ""], "a, b"),
        ];
        assert_eq!(
            aligned(&lines, None),
            "  t     (lat: 10, lon: 20)  Float32  9 B\n  wide  (lat: 10, lon: 20)  temperature, humidity\n  v     a, b\n"
        );
        let text = aligned(&lines, Some(36));
        assert!(text.lines().all(|line| line.width() <= 36), "{text}");
        assert!(
            text.starts_with("  t     (lat: 10, lon…  Float32  9 B\n"),
            "{text}"
        );
    }
}
