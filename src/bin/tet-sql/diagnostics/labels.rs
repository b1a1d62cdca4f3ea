//! The labels of axes of text.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::ArrayFormatter;
use datafusion::error::DataFusionError;
use tet_sql::grid::Axis;

/// Axes of more labels are not searched.
const MOST_LABELS: u64 = 1 << 16;

/// Axes of more times are not searched.
const MOST_TIMES: u64 = 1 << 20;

/// The coordinates of an axis of times or dates as text, if they are not too many.
pub fn times_of_axis(axis: &Axis) -> Option<Vec<String>> {
    let is_time = matches!(
        axis.data_type(),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
    );
    if !is_time || axis.length() > MOST_TIMES {
        return None;
    }
    texts(&axis.coordinates().ok()?.slice(0..axis.length())).ok()
}

/// The labels of an axis of text, if they are not too many.
pub fn of_axis(axis: &Axis) -> Option<Vec<String>> {
    let is_text = matches!(
        axis.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    if !is_text || axis.length() > MOST_LABELS {
        return None;
    }
    let labels: ArrayRef = axis.coordinates().ok()?.slice(0..axis.length());
    texts(&labels).ok()
}

fn texts(labels: &ArrayRef) -> Result<Vec<String>, DataFusionError> {
    let formatter = ArrayFormatter::try_new(labels.as_ref(), &Default::default())?;
    let texts = (0..labels.len()).map(|place| Ok(formatter.value(place).try_to_string()?));
    texts.collect()
}
