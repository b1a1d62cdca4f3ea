//! Plans windows along an axis: the rule, the frames, the plane that each output needs, and the tiles.

mod builder;
#[cfg(feature = "cluster")]
mod divided;
mod first_ranks;
mod frames;
pub(in crate::provider::window) mod needs;
mod order;
mod ranks;
pub(crate) mod rule;
pub(in crate::provider::window) mod spec;
pub(in crate::provider::window) mod tiles;
pub(crate) mod whole_partitions;
