//! Integration tests, in one binary since each links the whole engine. Their truths are independent of this crate:
//! NumPy's arrays, the `tetration` crate, the engine over exploded rows, arithmetic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod aggregates;
mod command;
mod copy;
mod documentation;
mod formats;
mod hostile;
mod joins;
mod pushdown;
#[cfg(feature = "serve")]
mod serve;
mod sqllogic;
mod support;
mod tables;
