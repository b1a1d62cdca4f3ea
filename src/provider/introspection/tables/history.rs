//! `tet_history()`: the processing history of files.

use crate::format::array::HistoryRow;
use crate::provider::introspection::catalogs::ListedSchema;
use crate::provider::introspection::column::Column;
use crate::provider::introspection::listing::Listing;

/// Microseconds per second.
const MICROS: i64 = 1_000_000;

/// Lists one row per step of a file's history, oldest first.
pub(crate) struct History;

/// A step, with its file and its ordinal in the history.
pub(crate) struct Row {
    path: String,
    position: u64,
    step: HistoryRow,
}

impl Listing for History {
    type Row = Row;
    const NAME: &'static str = "tet_history";
    const COLUMNS: &'static [Column<Row>] = &[
        Column::text("path", |row| Ok(Some(row.path.clone()))),
        Column::number("position", |row| Ok(Some(row.position))),
        Column::text("op", |row| Ok(Some(row.step.op.clone()))),
        Column::text("source", |row| Ok(Some(row.step.source.clone()))),
        Column::text("at", |row| Ok(Some(row.step.at.clone()))),
        Column::time("time", |row| Ok(instant(&row.step.at))),
        Column::texts("parents", |row| Ok(Some(row.step.parents.clone()))),
        Column::text("params", |row| Ok(row.params())),
        Column::text("agent", |row| Ok(row.step.agent.clone())),
        Column::text("activity", |row| Ok(row.step.activity.clone())),
        Column::text("entity", |row| Ok(row.step.entity.clone())),
    ];

    fn rows(schema: &ListedSchema) -> Vec<Row> {
        let Some(container) = &schema.container else {
            return Vec::new();
        };
        let steps = container.history().iter();
        steps
            .zip(0..)
            .map(|(step, position)| Row {
                path: container.location().to_string(),
                position,
                step: step.clone(),
            })
            .collect()
    }
}

impl Row {
    /// Returns the parameters as a JSON object; `None` if there are none.
    fn params(&self) -> Option<String> {
        let params = Some(&self.step.params).filter(|params| !params.is_empty())?;
        serde_json::to_string(params).ok()
    }
}

/// Parses a whole number of seconds since 1970 into microseconds. Returns `None` for any other
/// text, and on overflow.
pub(crate) fn instant(seconds: &str) -> Option<i64> {
    seconds.trim().parse::<i64>().ok()?.checked_mul(MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_seconds() {
        assert_eq!(instant("1700000000"), Some(1_700_000_000_000_000));
        assert_eq!(instant("yesterday"), None);
        assert_eq!(instant("9223372036854775807"), None);
    }
}
