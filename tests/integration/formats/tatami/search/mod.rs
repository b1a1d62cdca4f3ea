//! Search segments.

mod builder;
pub mod corpus;
mod generated;
mod hostile;
mod segments;
