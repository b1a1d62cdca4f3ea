//! `tet_attributes()`: the attributes of files and of their columns.

use crate::provider::introspection::catalogs::ListedSchema;
use crate::provider::introspection::column::Column;
use crate::provider::introspection::column_attributes;
use crate::provider::introspection::listing::Listing;

/// Lists one row per attribute: first those of the file, then those of every column of every table.
pub(crate) struct Attributes;

/// An attribute, with the column it belongs to.
pub(crate) struct Row {
    table: Option<String>,
    dataset: Option<String>,
    column: Option<String>,
    key: String,
    value: String,
}

impl Listing for Attributes {
    type Row = Row;
    const NAME: &'static str = "tet_attributes";
    const COLUMNS: &'static [Column<Row>] = &[
        Column::text("table_name", |row| Ok(row.table.clone())),
        Column::text("dataset", |row| Ok(row.dataset.clone())),
        Column::text("column_name", |row| Ok(row.column.clone())),
        Column::text("key", |row| Ok(Some(row.key.clone()))),
        Column::text("value", |row| Ok(Some(row.value.clone()))),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let mut rows = of_file(schema);
        for table in &schema.tables {
            for field in table.source.schema().fields() {
                let dataset = column_attributes::dataset(field).map(ToString::to_string);
                let attributes = column_attributes::attributes(field).into_iter();
                rows.extend(attributes.map(|(key, value)| Row {
                    table: Some(table.name.clone()),
                    dataset: dataset.clone(),
                    column: Some(field.name().clone()),
                    key: key.to_string(),
                    value: value.to_string(),
                }));
            }
        }
        rows
    }
}

/// The attributes of the file itself, such as the tool that wrote it.
fn of_file(schema: &ListedSchema) -> Vec<Row> {
    let attributes = schema.container.iter().flat_map(|one| one.attributes());
    let rows = attributes.map(|(key, value)| Row {
        table: None,
        dataset: None,
        column: None,
        key,
        value,
    });
    rows.collect()
}
