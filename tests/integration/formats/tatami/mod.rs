//! Tests of `.tatami` files, with files and query results of the reference implementation.
//!
//! `tests/data/tatami/README.md` describes the files.

mod corpus;
mod data;
mod exercise;
mod hostile;
mod lookups;
mod predicate;
mod pruning;
mod search;
mod sql;
mod sql_collections;
mod sql_copy;
mod sql_rows;
mod sql_search;
mod variants;
mod writing;
