//! The budget of a statement: limits on the work it may cause in the planner.
//!
//! A short text can cause a lot of work. Walking the tree of `1+1+1+...` overflows the stack, and
//! forty WITH queries that each use the previous one twice have a plan of 2^40 nodes. Time limits
//! and memory limits apply only once there is a plan. Therefore each statement is measured first,
//! and rejected with the name of the limit and its setting:
//!
//! | limit | setting | default | measured on |
//! | --- | --- | --- | --- |
//! | bytes | `tet.max_statement_bytes` | 64 MiB; 1 MiB for clients of the server | text |
//! | nesting | `datafusion.sql_parser.recursion_limit` | 50 | tokens, parser |
//! | operators of an expression | `tet.max_expression_operators` | 1,250 | tokens |
//! | ANDs of an expression | [`ANDS_PER_OPERATOR`] times the same | 10,000 | tokens |
//! | ORs of an expression | [`ORS_PER_OPERATOR`] times the same | 20,000 | tokens |
//! | growth of a predicate | [`GROWTH_PER_OPERATOR`] times the same | 100,000 | plan |
//! | nodes of the plan | `tet.max_plan_nodes` | 20,000 | tokens, parsed statement, plan |
//!
//! Brackets, CASE, NOT and queries count as nesting. A predicate grows when computed columns are
//! inlined into it.
//!
//! Planning takes quadratic time in the number of operators: DataFusion computes the type of each
//! operation from everything below it. A chain of 1,250 takes a second, one of 4,000 thirteen.
//!
//! AND and OR do not count as operators, because long chains of them are balanced before planning.
//! ANDs have a lower limit than ORs, because DataFusion splits a predicate at its ANDs, and treats
//! every conjunct as a filter of its own. IN lists are limited only by the bytes of the statement.

#[cfg(feature = "sql")]
mod balance;
#[cfg(feature = "sql")]
mod count;
#[cfg(feature = "sql")]
mod in_lists;
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
mod unanalyzed;

#[cfg(feature = "sql")]
pub use lexer::{Cursor, lex};
pub use limits::Limits;
#[cfg(feature = "sql")]
pub use plan::{check_bytes, check_plan, parse, with_stack};

/// The number of ANDs an expression may have per allowed operator.
pub const ANDS_PER_OPERATOR: usize = 8;

/// The number of ORs an expression may have per allowed operator.
pub const ORS_PER_OPERATOR: usize = 16;

/// The number of nodes by which a predicate may grow per allowed operator.
pub const GROWTH_PER_OPERATOR: u64 = 80;
