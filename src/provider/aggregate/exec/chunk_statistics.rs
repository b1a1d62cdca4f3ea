//! Answers reductions of a chunk from its statistics, without reading values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;

use crate::grid::Window;
use crate::grid::reduce::{AxisGroups, GroupCounts, KnownSum};
use crate::provider::aggregate::exec::job::{GridJob, Job};
use crate::provider::planning::value_range::ValueRange;

/// The contribution of a chunk to a reduction, derived from statistics.
#[derive(Clone, Copy)]
pub(crate) enum ChunkContribution {
    /// No selected cell counts.
    Nothing,
    /// All selected cells count, and only their number is needed.
    Counted,
    /// All selected cells count and have this bit pattern (of f32 for f16 cells).
    Constant(u64),
    /// All cells belong to one group, and the reduction needs nothing but these results.
    OfGroup {
        group: usize,
        extremes: Option<(u64, u64)>,
        sum: Option<KnownSum>,
        count: u64,
        missing: u64,
    },
}

/// Returns the contribution of a chunk to the reduction with index `number`; `None` if the chunk
/// has to be read. `axes` and `base` are the selected cells of the chunk and their groups.
pub(crate) fn known(
    number: usize,
    job: &Job,
    part: &GridJob,
    window: &Window,
    axes: &[AxisGroups],
    base: usize,
) -> Result<Option<ChunkContribution>> {
    if axes.iter().any(|axis| axis.selected.is_empty()) {
        return Ok(Some(ChunkContribution::Nothing));
    }
    let plan = &job.program.reductions[number];
    if !part.is_known[number] || plan.mask.is_some() {
        return Ok(None);
    }
    let windows = std::slice::from_ref(window);
    let grid = &part.part.grid;
    let Some(known) = grid.window_statistics(plan.attribute, windows, &job.options)? else {
        return Ok(None);
    };
    let nulls = known.nulls.is_valid(0).then(|| known.nulls.value(0));
    let extremes = bits(&known.min).zip(bits(&known.max));
    let relation = match (extremes, &job.bounds[number]) {
        (_, None) => BoundsRelation::Inside,
        (None, Some(_)) => BoundsRelation::Unclear,
        (Some(extremes), Some(bounds)) => relation_to_any(extremes, bounds),
    };
    let cells = window.cells();
    if relation == BoundsRelation::Outside || nulls == Some(cells) {
        return Ok(Some(ChunkContribution::Nothing));
    }
    let Some(nulls) = nulls else {
        return Ok(None);
    };
    if relation == BoundsRelation::Unclear {
        return Ok(None);
    }
    let wanted = plan.wanted;
    let are_compared = wanted.min || wanted.max;
    if nulls == 0 {
        if !(wanted.sum.is_some() || wanted.deviation || are_compared) {
            return Ok(Some(ChunkContribution::Counted));
        }
        if let Some((min, max)) = extremes
            && min == max
        {
            return Ok(Some(ChunkContribution::Constant(min)));
        }
    }
    let is_whole = axes.iter().all(|axis| axis.selected.is_all());
    let extremes = extremes.filter(|_| known.is_exact);
    let sum = known.sums.as_ref().and_then(sum_of);
    let is_answered = !wanted.deviation
        && (!are_compared || extremes.is_some())
        && (wanted.sum.is_none() || sum.is_some());
    if !is_whole || !is_answered {
        return Ok(None);
    }
    let group = GroupCounts::new(axes, base).only_group();
    Ok(group.map(|group| ChunkContribution::OfGroup {
        group,
        extremes,
        sum,
        count: cells - nulls,
        missing: nulls,
    }))
}

/// Returns the first of some known sums; `None` if it is null.
fn sum_of(sums: &ArrayRef) -> Option<KnownSum> {
    if sums.is_null(0) {
        return None;
    }
    Some(match sums.data_type() {
        DataType::Int64 => KnownSum::Integer(sums.as_primitive::<Int64Type>().value(0).into()),
        DataType::UInt64 => KnownSum::Integer(sums.as_primitive::<UInt64Type>().value(0).into()),
        DataType::Float64 => KnownSum::Float(sums.as_primitive::<Float64Type>().value(0)),
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundsRelation {
    Inside,
    Outside,
    Unclear,
}

/// Compares the min and max of a chunk with disjoint bounds.
fn relation_to_any(extremes: (u64, u64), bounds: &[ValueRange]) -> BoundsRelation {
    let relations = bounds.iter().map(|bounds| relation_to(extremes, *bounds));
    relations.fold(BoundsRelation::Outside, |one, other| match (one, other) {
        (BoundsRelation::Inside, _) | (_, BoundsRelation::Inside) => BoundsRelation::Inside,
        (BoundsRelation::Outside, BoundsRelation::Outside) => BoundsRelation::Outside,
        _ => BoundsRelation::Unclear,
    })
}

/// Compares the min and max of a chunk with one pair of bounds.
fn relation_to((min, max): (u64, u64), bounds: ValueRange) -> BoundsRelation {
    fn compare<T: PartialOrd>(min: T, max: T, low: T, high: T) -> BoundsRelation {
        if max < low || min > high || low > high {
            BoundsRelation::Outside
        } else if low <= min && max <= high {
            BoundsRelation::Inside
        } else {
            BoundsRelation::Unclear
        }
    }
    match bounds {
        ValueRange::Single(low, high) => {
            let single = |bits: u64| f32::from_bits(bits as u32);
            compare(single(min), single(max), low, high)
        }
        ValueRange::Double(low, high) => {
            compare(f64::from_bits(min), f64::from_bits(max), low, high)
        }
        ValueRange::Signed(low, high) => compare(min as i64, max as i64, low, high),
        ValueRange::Unsigned(low, high) => compare(min, max, low, high),
    }
}

/// Returns the bits of the first element of an array; `None` if it is null. Signed integers are
/// sign-extended to 64 bits.
fn bits(numbers: &ArrayRef) -> Option<u64> {
    if numbers.is_null(0) {
        return None;
    }
    Some(match numbers.data_type() {
        DataType::Float32 => numbers
            .as_primitive::<Float32Type>()
            .value(0)
            .to_bits()
            .into(),
        DataType::Float64 => numbers.as_primitive::<Float64Type>().value(0).to_bits(),
        DataType::Int8 => i64::from(numbers.as_primitive::<Int8Type>().value(0)) as u64,
        DataType::Int16 => i64::from(numbers.as_primitive::<Int16Type>().value(0)) as u64,
        DataType::Int32 => i64::from(numbers.as_primitive::<Int32Type>().value(0)) as u64,
        DataType::Int64 => numbers.as_primitive::<Int64Type>().value(0) as u64,
        DataType::UInt8 => numbers.as_primitive::<UInt8Type>().value(0).into(),
        DataType::UInt16 => numbers.as_primitive::<UInt16Type>().value(0).into(),
        DataType::UInt32 => numbers.as_primitive::<UInt32Type>().value(0).into(),
        DataType::UInt64 => numbers.as_primitive::<UInt64Type>().value(0),
        _ => return None,
    })
}
