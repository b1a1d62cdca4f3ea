//! The integration tests: one binary, so that the engine is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod sqllogic;
