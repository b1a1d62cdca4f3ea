//! Compares reductions with a loop over every cell, in shapes that cover every code path of the
//! kernels.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};
use half::f16;

use super::{AxisGroups, CellType, Counts, Layout, Reduction, RequestedAggregates, SumKind};
use crate::grid::IndexSet;

const TYPES: [CellType; 11] = [
    CellType::F16,
    CellType::F32,
    CellType::F64,
    CellType::I8,
    CellType::I16,
    CellType::I32,
    CellType::I64,
    CellType::U8,
    CellType::U16,
    CellType::U32,
    CellType::U64,
];
/// Many and few rows, of long, short and medium length.
const SHAPES: [[usize; 3]; 8] = [
    [100, 9, 40],
    [9, 700, 3],
    [37, 5, 33],
    [11, 23, 64],
    [3, 19, 131],
    [2, 5, 700],
    [2, 1, 4200],
    [70, 11, 2],
];
const FILL: f64 = 77.0;

/// A deterministic generator of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// Returns the bits of a number in this type.
fn bits(cell_type: CellType, number: f64) -> u64 {
    match cell_type {
        CellType::F16 => f16::from_f64(number).to_bits().into(),
        CellType::F32 => (number as f32).to_bits().into(),
        CellType::F64 => number.to_bits(),
        _ => number as i64 as u64,
    }
}

/// Returns a chunk of small numbers, so that sums are exact. Of every `wild` cells, about one each
/// is the fill value, NaN, infinity and negative infinity.
fn chunk(
    cell_type: CellType,
    cells: usize,
    numbers: &mut Numbers,
    wild: Option<u64>,
    fill: f64,
) -> Vec<f64> {
    let cell = |numbers: &mut Numbers| match wild.map_or(9, |wild| numbers.below(wild)) {
        0 => fill,
        1 if cell_type.is_float() => f64::NAN,
        2 if cell_type.is_float() => f64::INFINITY,
        3 if cell_type.is_float() => f64::NEG_INFINITY,
        _ if cell_type.is_float() || cell_type.is_signed_integer() => {
            numbers.below(100) as f64 - 50.0
        }
        _ => numbers.below(100) as f64,
    };
    (0..cells).map(|_| cell(numbers)).collect()
}

#[derive(Debug, Default, Clone)]
struct Expected {
    cells: u64,
    kept: Vec<f64>,
}

fn check(shape: [usize; 3], by: usize, cell_type: CellType, numbers: &mut Numbers) {
    let mut groups = 1;
    let axes: Vec<AxisGroups> = (0..3)
        .rev()
        .map(|axis| {
            let extent = shape[axis];
            let is_part = numbers.below(4) == 0;
            let start = if is_part { extent / 4 } else { 0 };
            let selected = IndexSet::from_ranges(extent as u64, [start as u64..extent as u64]);
            let share = if numbers.below(4) == 0 { 3 } else { 1 };
            let terms = (by >> axis & 1 == 1).then(|| {
                let stride = groups;
                groups *= (extent - 1) / share + 1;
                (start..extent)
                    .map(|position| position / share * stride)
                    .collect()
            });
            AxisGroups { selected, terms }
        })
        .collect();
    let axes: Vec<AxisGroups> = axes.into_iter().rev().collect();
    // Special values: none, some in most rows, or few.
    let wild = [None, Some(40), Some(3000)][numbers.below(3) as usize];
    let (is_filled, is_bounded) = (numbers.below(2) == 0, numbers.below(2) == 0);
    // A fill value at the end of the integer range, whose sums exceed the range.
    let fill = match cell_type {
        CellType::I8 if is_filled => i8::MIN.into(),
        CellType::I16 if is_filled => i16::MIN.into(),
        CellType::I32 if is_filled => i32::MIN.into(),
        CellType::I64 if is_filled => i64::MIN as f64,
        CellType::U8 if is_filled => u8::MAX.into(),
        CellType::U16 if is_filled => u16::MAX.into(),
        CellType::U32 if is_filled => u32::MAX.into(),
        _ => FILL,
    };
    // Most bounds exclude some cells. Others include all integers.
    let bounds: [f64; 2] = match (numbers.below(4), cell_type) {
        (0, CellType::I8) => [i8::MIN.into(), i8::MAX.into()],
        (0, CellType::U8) => [u8::MIN.into(), u8::MAX.into()],
        (0, CellType::I32) => [i32::MIN.into(), i32::MAX.into()],
        _ => [-20.0, 30.0],
    };
    let count = 1 + numbers.below(3) as usize * 5;
    let cells = shape.iter().product();
    let chunks: Vec<Vec<f64>> = (0..count)
        .map(|_| chunk(cell_type, cells, numbers, wild, fill))
        .collect();

    let mut expected = vec![Expected::default(); groups];
    for (number, cell_indices) in (0..cells).map(|cell| {
        let [_, b, c] = shape;
        (cell, [cell / (b * c), cell / c % b, cell % c])
    }) {
        let mut group = Some(0);
        for (axis, position) in axes.iter().zip(cell_indices) {
            group = group.filter(|_| axis.selected.contains(position as u64));
            if let (Some(group), Some(terms)) = (&mut group, &axis.terms) {
                *group += terms[axis.selected.rank(position as u64) as usize];
            }
        }
        let Some(group) = group else { continue };
        for chunk in &chunks {
            let cell = chunk[number];
            let is_kept = !cell.is_nan()
                && (!is_filled || cell != fill)
                && (!is_bounded || (bounds[0].max(min_of(cell_type))..=bounds[1]).contains(&cell));
            expected[group].cells += 1;
            if is_kept {
                expected[group].kept.push(cell);
            }
        }
    }

    let bound = |bound: f64| match cell_type {
        CellType::F16 => bits(CellType::F32, bound),
        _ => bits(cell_type, bound.max(min_of(cell_type))),
    };
    let wanted = RequestedAggregates {
        sum: Some([SumKind::Float, SumKind::Natural][numbers.below(2) as usize]),
        count: true,
        min: true,
        max: true,
        deviation: true,
    };
    let mut reduction = Reduction::new(
        cell_type,
        groups,
        wanted,
        is_bounded.then(|| (bound(bounds[0]), bound(bounds[1]))),
        is_filled.then(|| bits(cell_type, fill)),
    );
    let layout = Layout::new(&axes, 0);
    let size = cell_type.size();
    let stored = chunks.iter().map(|chunk| {
        let cells = chunk.iter().flat_map(|cell| {
            let bytes = bits(cell_type, *cell).to_le_bytes();
            bytes.into_iter().take(size)
        });
        let bytes: Vec<u8> = cells.collect();
        bytes[layout.span.start as usize * size..layout.span.end as usize * size].to_vec()
    });
    let stored: Vec<Vec<u8>> = stored.collect();
    let sources: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
    reduction.add(&sources, &layout);
    let in_groups: Vec<u64> = expected.iter().map(|group| group.cells).collect();
    let results = reduction.results(&Counts::Each(in_groups.into()));

    let title = format!("{cell_type:?} {shape:?} by {by:b}, {axes:?}, {count} chunks");
    let floats = |array: Option<ArrayRef>| {
        let array = cast(&array.unwrap(), &DataType::Float64).unwrap();
        array.as_primitive::<Float64Type>().clone()
    };
    let sums = floats(results.sums);
    let (min, max) = (floats(results.min), floats(results.max));
    let [counted, means, squares] = results.deviations.unwrap();
    let counted = counted.as_primitive::<UInt64Type>();
    let (means, squares) = (floats(Some(means)), floats(Some(squares)));
    for (group, expected) in expected.iter().enumerate() {
        let kept = expected.kept.iter().copied();
        let count = kept.len() as u64;
        assert_eq!(results.counts.of(group), count, "count of {group}: {title}");
        assert_eq!(counted.value(group), count, "counted of {group}: {title}");
        let sum: f64 = kept.clone().sum();
        assert!(
            is_same(sums.value(group), sum, 0.0),
            "sum of {group}: {title}"
        );
        assert_eq!(min.is_null(group), count == 0, "least of {group}: {title}");
        assert_eq!(
            max.is_null(group),
            count == 0,
            "greatest of {group}: {title}"
        );
        if count == 0 {
            continue;
        }
        assert_eq!(
            min.value(group),
            kept.clone().fold(f64::INFINITY, f64::min),
            "{title}"
        );
        assert_eq!(
            max.value(group),
            kept.clone().fold(f64::NEG_INFINITY, f64::max),
            "{title}"
        );
        let mean = sum / count as f64;
        let square: f64 = kept.map(|cell| (cell - mean).powi(2)).sum();
        // With infinities among the cells, only the sum of squares is compared: it is NaN.
        assert!(
            !mean.is_finite() || is_same(means.value(group), mean, 1e-9),
            "mean of {group}: {title}"
        );
        assert!(
            is_same(squares.value(group), square, 1e-6),
            "squares of {group}: {title}"
        );
    }
}

/// Returns the smallest number of a type. Bounds are clamped to it.
fn min_of(cell_type: CellType) -> f64 {
    if cell_type.is_float() || cell_type.is_signed_integer() {
        f64::NEG_INFINITY
    } else {
        0.0
    }
}

/// Returns `true` if two numbers differ by at most a tolerance.
fn is_same(found: f64, expected: f64, tolerance: f64) -> bool {
    if !expected.is_finite() {
        return found == expected || found.is_nan() && expected.is_nan();
    }
    (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

#[test]
fn reductions_agree_with_walking_every_cell() {
    let mut numbers = Numbers(4);
    for cell_type in TYPES {
        // A prime number of rows, more than one partial sum covers.
        check([9, 5003, 3], 0b101, cell_type, &mut numbers);
        for shape in SHAPES {
            for by in 0..8 {
                check(shape, by, cell_type, &mut numbers);
            }
        }
    }
}
