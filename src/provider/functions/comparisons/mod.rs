//! Functions that compare values.

pub mod null_if;
pub mod similar_to;
