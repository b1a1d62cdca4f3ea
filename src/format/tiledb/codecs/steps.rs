//! Pipelines, prepared for decoding.

use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{Datatype, Filter, Pipeline, Representation};

/// A filter and the datatype that its values have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub filter: Filter,
    pub datatype: Datatype,
}

/// A pipeline, ready to decode chunks of one kind of tile.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    /// The filters that change data or add metadata, in the order of writing.
    pub(super) steps: Vec<Step>,
    /// The size of a cell, the unit of runs, in bytes.
    pub(super) cell_bytes: usize,
    /// The first filter, if it encodes texts together with their offsets.
    pub texts: Option<Filter>,
    /// The largest possible ratio of decoded to stored bytes.
    ratio: u64,
}

impl Steps {
    /// Prepares the pipeline of tiles of a datatype, in a file of the format version.
    pub fn new(
        pipeline: &Pipeline,
        datatype: Datatype,
        cell_bytes: usize,
        holds_offsets: bool,
        version: u32,
    ) -> Decoded<Self> {
        let mut steps = Vec::new();
        let mut texts = None;
        let mut input = datatype;
        for (index, filter) in pipeline.filters().iter().copied().enumerate() {
            let step = Step {
                filter,
                datatype: input,
            };
            let size = input.size();
            let is_possible = match filter {
                Filter::Webp => false,
                Filter::Dictionary => holds_offsets && index == 0,
                Filter::Rle => !holds_offsets || index == 0,
                Filter::DoubleDelta { reinterpret } | Filter::Delta { reinterpret } => {
                    reinterpret.is_some() || input.representation() != Representation::Float
                }
                Filter::FloatScale { .. } => matches!(size, 4 | 8),
                _ => true,
            };
            if !is_possible {
                let found = format!("{filter} on {input} as number {}", index + 1);
                return Err(Fault::new("filter", found, "a filter that can be decoded"));
            }
            if holds_offsets && matches!(filter, Filter::Rle | Filter::Dictionary) {
                texts = Some(filter);
            } else if !filter.passes_through(input, version) {
                steps.push(step);
            }
            input = filter.output(input);
        }
        let cell_bytes = cell_bytes.max(1);
        let ratios = steps.iter().map(|step| step.ratio(cell_bytes));
        let ratio = ratios.fold(1, u64::saturating_mul);
        Ok(Self {
            steps,
            cell_bytes,
            texts,
            ratio,
        })
    }

    /// Returns `true` if `stored` bytes can hold `plain` bytes.
    pub fn is_plausible(&self, stored: usize, plain: usize) -> bool {
        self.ratio.saturating_mul(stored as u64) >= plain as u64
    }
}

impl Step {
    /// The largest possible ratio of decoded to stored bytes, with some reserve.
    pub fn ratio(&self, cell_bytes: usize) -> u64 {
        match self.filter {
            Filter::Gzip { .. } => 1 << 11,
            Filter::Zstd { .. } => 1 << 16,
            Filter::Lz4 { .. } => 1 << 8,
            Filter::Bzip2 { .. } => 1 << 22,
            Filter::Rle => (1 << 16) * cell_bytes as u64,
            Filter::DoubleDelta { .. } => 1 << 7,
            Filter::BitWidthReduction { .. } | Filter::FloatScale { .. } => 8,
            _ => 1,
        }
    }

    /// The datatype of which delta filters store differences.
    pub fn delta_bytes(&self) -> usize {
        match self.filter {
            Filter::DoubleDelta { reinterpret } | Filter::Delta { reinterpret } => {
                reinterpret.unwrap_or(self.datatype).size()
            }
            _ => self.datatype.size(),
        }
    }
}
