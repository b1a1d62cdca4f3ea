//! Functions of times, durations and intervals.

pub mod completed_times;
pub mod date_fields;
pub mod duration_parts;
pub mod interval_length;
pub mod interval_product;
mod text_dates;
pub mod wide_times;
