//! The labels of text axes and the coordinates of time axes, as text.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::ArrayFormatter;
use datafusion::error::DataFusionError;
use tet_sql::grid::Axis;

/// The maximum number of labels of an axis that are read.
const MAX_LABELS: u64 = 1 << 16;

/// The maximum number of times of an axis that are read.
const MAX_TIMES: u64 = 1 << 20;

/// Returns the coordinates of an axis of times or dates as text, unless there are too many.
pub fn times_of_axis(axis: &Axis) -> Option<Vec<String>> {
    let is_time = matches!(
        axis.data_type(),
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64
    );
    if !is_time || axis.length() > MAX_TIMES {
        return None;
    }
    texts(&axis.coordinates().ok()?.slice(0..axis.length())).ok()
}

/// Returns the labels of a text axis, unless there are too many.
pub fn of_axis(axis: &Axis) -> Option<Vec<String>> {
    let is_text = matches!(
        axis.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    if !is_text || axis.length() > MAX_LABELS {
        return None;
    }
    let labels: ArrayRef = axis.coordinates().ok()?.slice(0..axis.length());
    texts(&labels).ok()
}

fn texts(labels: &ArrayRef) -> Result<Vec<String>, DataFusionError> {
    let formatter = ArrayFormatter::try_new(labels.as_ref(), &Default::default())?;
    let texts = (0..labels.len()).map(|index| Ok(formatter.value(index).try_to_string()?));
    texts.collect()
}
