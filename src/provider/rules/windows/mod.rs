//! Rules for the window operators of DataFusion.

pub(crate) mod kept_rows;
pub(crate) mod null_order_keys;
