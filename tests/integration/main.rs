//! Integration tests, in one binary since each links the whole engine.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;
mod exploded;
mod scans;
mod sqllogic;
