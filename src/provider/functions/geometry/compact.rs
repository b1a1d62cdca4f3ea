//! Geometries without the values of rows that were sliced off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, MutableArrayData, OffsetSizeTrait, make_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};

use crate::provider::functions::forwarding::forward_to_inner;

/// The maximum number of characters of a text in a message.
const MAX_TEXT: usize = 100;

/// A function of geodatafusion. Its arguments are copied if they are slices of lists of coordinates, because
/// geoarrow 0.9 panics on them: it expects the lists of an array to use all values. It also panics on texts of multipolygons
/// with an empty part, which are rejected. Other panics become errors.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CompactGeometries {
    inner: Arc<ScalarUDF>,
}

impl CompactGeometries {
    pub fn new(inner: &Arc<ScalarUDF>) -> Self {
        Self {
            inner: Arc::clone(inner),
        }
    }
}

impl ScalarUDFImpl for CompactGeometries {
    forward_to_inner!();

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        // geodatafusion panics on a null identifier of a reference system.
        let mut constants = arguments.scalar_arguments.iter().flatten();
        if constants.any(|value| **value == ScalarValue::Int64(None)) {
            return plan_err!("{}: the SRID is null, expected an integer", self.name());
        }
        self.inner.return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &mut arguments.args {
            if value.data_type().is_string()
                && let Some(text) = empty_part(&value.to_array(1)?)?
            {
                return exec_err!("{}: {text:?} has a part that is empty", self.name());
            }
            match value {
                ColumnarValue::Array(array) => *array = compact(array)?,
                ColumnarValue::Scalar(scalar) if has_lists(&scalar.data_type()) => {
                    let array = compact(&scalar.to_array()?)?;
                    *scalar = ScalarValue::try_from_array(&array, 0)?;
                }
                ColumnarValue::Scalar(_) => {}
            }
        }
        let called = catch_unwind(AssertUnwindSafe(|| self.inner.invoke_with_args(arguments)));
        called.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("for an unknown reason");
            exec_err!("{}: cannot process a geometry: {text}", self.name())
        })
    }
}

/// Returns the start of the first text of a multipolygon with an empty part.
fn empty_part(array: &ArrayRef) -> Result<Option<String>> {
    let texts = cast(array, &DataType::Utf8View)?;
    let mut texts = texts.as_string_view().iter().flatten();
    let found = texts.find(|text| {
        // Texts are long, and few are empty.
        if !text.contains("EMPTY") && !text.contains("empty") {
            return false;
        }
        let text = text.to_ascii_uppercase();
        let mut before = text
            .match_indices("EMPTY")
            .map(|(at, _)| text[..at].trim_end());
        text.contains("MULTIPOLYGON") && before.any(|text| text.ends_with(['(', ',']))
    });
    Ok(found.map(|text| text.chars().take(MAX_TEXT).collect()))
}

/// Returns a copy of an array whose lists do not use all values, and other arrays as they are.
pub(super) fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    if is_compact(array) {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(make_array(copy.freeze()))
}

/// Returns `true` if the lists of an array use all values.
fn is_compact(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::List(_) => uses_all(array.as_list::<i32>()),
        DataType::LargeList(_) => uses_all(array.as_list::<i64>()),
        DataType::Union(fields, _) => {
            let union = array.as_union();
            fields
                .iter()
                .all(|(number, _)| is_compact(union.child(number)))
        }
        _ => true,
    }
}

fn uses_all<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> bool {
    let offsets = lists.offsets();
    let used = offsets[0].as_usize()..offsets[lists.len()].as_usize();
    used == (0..lists.values().len()) && is_compact(lists.values())
}

fn has_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(_) | DataType::LargeList(_) => true,
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_lists(field.data_type())),
        _ => false,
    }
}
