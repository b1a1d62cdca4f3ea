//! The budget of a statement: what it may ask of the planner.
//!
//! A short text can ask for much. `1+1+1+...` overflows the stack of whoever walks its tree, forty WITH queries that
//! each use the one before twice have a plan of 2^40 nodes, and neither a time limit nor a memory limit is looked at
//! before there is a plan. So a statement is counted first, and refused with the name of the limit and its setting:
//!
//! | limit | setting | default | counted on |
//! | --- | --- | --- | --- |
//! | bytes | `tet.max_statement_bytes` | 64 MiB, 1 MiB for clients of the server | the text |
//! | nesting of brackets, CASE, NOT and queries | `datafusion.sql_parser.recursion_limit` | 50 | tokens, and while parsing |
//! | operators of an expression, and its ANDs | `tet.max_expression_operators` | 5,000 each | tokens |
//! | ORs of an expression | `tet.max_expression_operators`, times [`ORS_PER_OPERATOR`] | 20,000 | tokens |
//! | growth of a condition by the expressions of columns | `tet.max_expression_operators`, times [`GROWTH_PER_OPERATOR`] | 100,000 | the plan |
//! | nodes of the plan | `tet.max_plan_nodes` | 20,000 | tokens, the parsed statement, and the plan |
//!
//! Chains of AND and OR do not count as operators because they are balanced before planning. DataFusion takes
//! a condition apart at its ANDs and joins what it could not push down one after another, so that ORs may be more than
//! ANDs. Lists of IN are bounded by the bytes alone.

#[cfg(feature = "sql")]
mod balance;
#[cfg(feature = "sql")]
mod count;
#[cfg(feature = "sql")]
mod inlined;
#[cfg(feature = "sql")]
mod lexer;
mod limits;
#[cfg(feature = "sql")]
mod nodes;
#[cfg(feature = "sql")]
mod plan;

#[cfg(feature = "sql")]
pub use lexer::{Cursor, lex};
pub use limits::Limits;
#[cfg(feature = "sql")]
pub use plan::{check_bytes, check_plan, parse, with_stack};

/// How many ORs an expression may have for each of the operators that it may have.
pub const ORS_PER_OPERATOR: usize = 4;

/// How many nodes a condition may grow by for each of the operators that an expression may have.
pub const GROWTH_PER_OPERATOR: u64 = 20;
