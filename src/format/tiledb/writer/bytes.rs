//! Writing of little-endian fields.

use crate::format::tiledb::schema::{Dimension, Interval, Scalar};

/// Appends fields to bytes.
pub(super) trait Append {
    fn put(&mut self, bytes: &[u8]);

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends numbers of eight bytes.
    fn put_u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put_u64(*value));
    }

    /// Appends a text with a length of four bytes.
    fn put_text(&mut self, text: &str) {
        self.put_u32(text.len() as u32);
        self.put(text.as_bytes());
    }

    /// Appends a text with a length of eight bytes.
    fn put_text_u64(&mut self, text: &str) {
        self.put_u64(text.len() as u64);
        self.put(text.as_bytes());
    }

    /// Appends the interval of a dimension: two values, or two texts with their lengths.
    fn put_interval(&mut self, dimension: &Dimension, interval: &Interval) {
        let (low, high) = (&interval.low, &interval.high);
        if let (Scalar::Bytes(low), Scalar::Bytes(high)) = (low, high) {
            self.put_u64((low.len() + high.len()) as u64);
            self.put_u64(low.len() as u64);
        }
        self.put(&low.to_bytes(dimension.datatype));
        self.put(&high.to_bytes(dimension.datatype));
    }
}

impl Append for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
