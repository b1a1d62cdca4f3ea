//! Values of a fixed width as 64-bit words, which are compared and hashed faster than rows.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::utils::normalize_float_zero;

/// Returns `true` if the values of a type fit into words.
pub(crate) fn has_words(data_type: &DataType) -> bool {
    data_type.primitive_width().is_some_and(|width| width <= 8)
}

/// Returns the bits of the values of an array whose type [has words](has_words). -0.0 becomes 0.0.
pub(crate) fn words(values: &ArrayRef) -> Vec<u64> {
    let values = normalize_float_zero(values).to_data();
    let width = values.data_type().primitive_width().unwrap_or(1);
    let bytes = &values.buffers()[0][values.offset() * width..][..values.len() * width];
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    match width {
        // The compiler turns copies of a known length into loads.
        8 => bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .collect(),
        4 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes).into())
            .collect(),
        _ => bytes.chunks_exact(width).map(word).collect(),
    }
}
