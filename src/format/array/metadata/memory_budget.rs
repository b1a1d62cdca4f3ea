//! The memory budget that a file suggests.

/// The memory budget for queries that the writer of a file suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryBudget {
    /// A fixed budget in bytes; 0 if none is given.
    pub bytes: u32,
    /// A fraction of the machine's memory in basis points (10000 is all of it); 0 if none is given.
    pub basis_points: u16,
}

impl MemoryBudget {
    /// Returns the budget in bytes for a machine with `memory` bytes: the fixed budget, else the
    /// fraction of `memory`, else a quarter of `memory`.
    pub fn resolve(&self, memory: u64) -> u64 {
        match (self.bytes, self.basis_points) {
            (0, 0) => memory / 4,
            (0, basis_points) => {
                let share = u128::from(memory) * u128::from(basis_points.min(10_000)) / 10_000;
                // At most `memory`, since the fraction is at most one.
                share as u64
            }
            (bytes, _) => u64::from(bytes),
        }
    }
}
