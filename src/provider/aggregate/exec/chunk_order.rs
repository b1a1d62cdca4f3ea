//! The order in which the chunks of a grid are reduced.

use crate::format::io::storage::Access;
use crate::grid::reduce::CellType;
use crate::provider::aggregate::exec::job::GridJob;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::BlockList;

/// The number of cells per group to add up at once, so that loading and storing the group's result
/// pays off. Narrow cells need more of them, to match the bytes of the result.
const ROWS: u64 = 16;
/// The number of bytes from which a cell is not narrow.
const WIDE: u64 = 4;
/// Like [`ROWS`], if neighbouring cells belong to the same group. Adding a cell is cheaper then, so
/// it takes more cells to pay off.
const CELLS: u64 = 128;
/// The number of groups of a chunk below which their results stay in the cache anyway.
const FEW_GROUPS: u64 = 4096;
/// The maximum number of bytes of the chunks of a unit.
const BATCH_BYTES: u64 = 32 << 20;
/// Like [`BATCH_BYTES`], for chunks that are decoded or copied. Each worker holds the copies in
/// memory, and they should stay in the cache.
const COPIED_BYTES: u64 = 4 << 20;
/// The number of groups from which their results do not stay in the cache from one chunk to the
/// next.
const MANY_GROUPS: u64 = 1 << 15;
/// The minimum number of units per worker, so that no worker waits long for the last unit.
const UNITS_PER_WORKER: u64 = 8;

/// An order of chunks other than row-major.
#[derive(Debug)]
pub(super) struct Order {
    /// The axes, slowest first. Grouped axes come before reduced ones, so that chunks with the same
    /// groups are consecutive.
    pub axes: Vec<usize>,
    /// A reduced axis, and the number of chunks along it that form a unit.
    pub batched: (usize, u64),
    /// The number of chunks along each axis.
    pub counts: Vec<u64>,
    /// The number of bytes of a unit's chunks once decoded; zero for single chunks, and for chunks
    /// that are reduced in place.
    pub bytes: u64,
}

impl GridJob {
    /// Returns `true` if the stored bytes can be reduced in place, without decoding. `sizes` are
    /// the bytes of a cell of each attribute. Only the first chunk is checked.
    fn is_mapped(&self, sizes: &[u64], options: &ReadOptions) -> bool {
        let grid = &self.part.grid;
        let stored = self.blocks.chunk(0).ok().map(|chunk| {
            let cells = grid.chunk_grid().window(&chunk).cells();
            let bytes = grid.stored_bytes(&chunk, options);
            bytes.is_ok_and(|bytes| bytes == cells.saturating_mul(sizes.iter().sum()))
        });
        options.access == Access::Mmap && stored == Some(true)
    }

    /// Returns the order in which to take chunks; `None` for one at a time, row-major.
    ///
    /// With many groups, loading and storing their results costs as much as adding up the cells. So
    /// chunks with the same groups are consecutive, and if a chunk has few cells per group, several
    /// chunks form a unit.
    pub(super) fn order(
        &self,
        grouped: &[usize],
        workers: usize,
        options: &ReadOptions,
    ) -> Option<Order> {
        let counts = self.blocks.chunk_counts();
        let total = self.blocks.count()?;
        if self.part.kept.is_some() || total == 0 {
            return None;
        }
        let grid = self.part.grid.chunk_grid();
        let extents = grid.chunk_shape().iter().zip(grid.shape());
        let extents: Vec<u64> = extents.map(|(chunk, all)| *chunk.min(all)).collect();
        let product = |extents: &[u64], is_grouped: bool| -> u64 {
            let extents = extents.iter().enumerate();
            extents
                .filter(|(axis, _)| grouped.contains(axis) == is_grouped)
                .fold(1, |product, (_, extent)| extent.saturating_mul(product))
        };
        let (rows, groups) = (product(&extents, false), product(&extents, true));
        let reduced = |axis: &usize| !grouped.contains(axis);
        let axis = (0..counts.len())
            .filter(reduced)
            .max_by_key(|axis| counts[*axis])?;
        let (mut size, mut is_mapped) = (1, false);
        let sizes = self.attributes.iter().map(|attribute| {
            let format = self.part.grid.cell_format(*attribute, options)?;
            // Reductions widen f16 cells to f32.
            Some(match format.cell_type {
                CellType::F16 => CellType::F32.size() as u64,
                other => other.size() as u64,
            })
        });
        let sizes = sizes.collect::<Option<Vec<_>>>()?;
        let widest = sizes.iter().copied().max().unwrap_or(WIDE);
        let bytes = rows
            .saturating_mul(groups)
            .saturating_mul(sizes.iter().sum());
        let inner = extents.iter().rposition(|extent| *extent > 1);
        let enough = if inner.is_some_and(|axis| reduced(&axis)) {
            CELLS
        } else {
            ROWS * (WIDE / widest).max(1)
        };
        if groups >= FEW_GROUPS && rows < enough {
            let fair = total / (workers as u64 * UNITS_PER_WORKER);
            is_mapped = self.is_mapped(&sizes, options);
            let most = if is_mapped { BATCH_BYTES } else { COPIED_BYTES };
            size = (enough / rows.max(1))
                .min(counts[axis])
                .min(fair)
                .min(most / bytes.max(1))
                .max(1);
        }
        if size == 1 && product(grid.shape(), true) < MANY_GROUPS {
            return None;
        }
        let mut axes: Vec<usize> = (0..counts.len()).collect();
        axes.sort_by_key(reduced);
        Some(Order {
            axes,
            batched: (axis, size),
            counts,
            // As in a scan, a single chunk is not accounted for.
            bytes: if size > 1 && !is_mapped {
                bytes * size
            } else {
                0
            },
        })
    }
}

impl Order {
    /// Returns the number of units along an axis.
    pub fn steps(&self, axis: usize) -> u64 {
        let (batched, size) = self.batched;
        if axis == batched {
            self.counts[axis].div_ceil(size)
        } else {
            self.counts[axis]
        }
    }
}
