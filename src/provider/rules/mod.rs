//! Analyzer and optimizer rules that [`enable_tet`](crate::enable_tet) adds to a session, apart from those for aggregates and
//! joins in array space.

pub(crate) mod analysis;
pub mod filter_pushdown;
pub(crate) mod logic;
pub(crate) mod long_limits;
pub(crate) mod nested_loops;
pub mod probe_sides;
