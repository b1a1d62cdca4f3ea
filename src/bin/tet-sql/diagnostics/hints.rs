//! Hints about filters on coordinates that an axis does not have. Without a hint, an empty result
//! or one from the end of an axis looks as if nothing had been measured.

use crate::diagnostics::labels;
use crate::diagnostics::suggestion::nearest;
use datafusion::arrow::array::UInt64Array;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use std::collections::HashMap;
use std::sync::Arc;
use tet_sql::ArrayTable;
use tet_sql::grid::{Axis, CoordinateKey, SortedCoordinates, WrittenTime};
use tet_sql::provider::plans::lineage::origin;

/// The maximum number of coordinates that are searched for one dimension.
const MAX_COORDINATES: u64 = 1 << 20;
const MAX_HINTS: usize = 8;
/// The names of axes whose coordinates repeat every 360 degrees.
const LONGITUDES: [&str; 3] = ["lon", "long", "longitude"];

/// Returns hints about the comparisons of dimensions with constants in a plan, in order and without
/// duplicates.
pub fn hints(plan: &LogicalPlan) -> Vec<String> {
    let mut hints = Vec::new();
    let mut dimensions = Dimensions::default();
    // A plan that cannot be traversed gets no hints.
    let _ = plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                for comparison in Comparison::all_of(expression) {
                    if hints.len() == MAX_HINTS {
                        return Ok(TreeNodeRecursion::Stop);
                    }
                    let dimension = dimensions.find(&inputs, comparison.column);
                    let hint = dimension.and_then(|dimension| dimension.hint(&comparison.kind));
                    hints.extend(hint.filter(|hint| !hints.contains(hint)));
                }
                Ok(match expression {
                    // A negated comparison with an absent coordinate excludes nothing and needs no
                    // hint.
                    Expr::Not(_) => TreeNodeRecursion::Jump,
                    _ => TreeNodeRecursion::Continue,
                })
            })
        })
    });
    hints
}

/// The dimensions that a statement compares, by the address of the table and the name.
#[derive(Default)]
struct Dimensions(HashMap<(usize, String), Option<Dimension>>);

impl Dimensions {
    fn find(&mut self, inputs: &[&LogicalPlan], column: &Column) -> Option<&Dimension> {
        let (table, name) = origin(inputs, column)?;
        let key = (Arc::as_ptr(&table).addr(), name);
        let found = self.0.entry(key).or_insert_with_key(|(_, name)| {
            let grids = table.downcast_ref::<ArrayTable>()?.source().grids();
            let axes = grids.iter().flat_map(|grid| grid.axes());
            let axes: Vec<&Axis> = axes.filter(|axis| axis.name() == name).collect();
            match Searched::of(name, &axes) {
                Some(searched) => Some(Dimension::Searched(searched)),
                None => Some(Dimension::Labels(name.clone(), labels_of(&axes)?)),
            }
        });
        found.as_ref()
    }
}

enum Dimension {
    Labels(String, Vec<String>),
    Searched(Searched),
}

impl Dimension {
    fn hint(&self, kind: &ComparisonKind) -> Option<String> {
        match self {
            Self::Labels(name, labels) => label_hint(name, labels, kind),
            Self::Searched(searched) => searched.hint(kind),
        }
    }
}

/// Returns the labels of all axes.
fn labels_of(axes: &[&Axis]) -> Option<Vec<String>> {
    let mut labels = Vec::new();
    for axis in axes {
        labels.extend(labels::of_axis(axis)?);
    }
    Some(labels)
}

/// A comparison of a column with constants.
struct Comparison<'a> {
    column: &'a Column,
    kind: ComparisonKind,
}

enum ComparisonKind {
    Equal(ScalarValue),
    Bound(Operator, ScalarValue),
    Between(ScalarValue, ScalarValue),
    Nearest(ScalarValue),
}

impl<'a> Comparison<'a> {
    fn all_of(expression: &'a Expr) -> Vec<Self> {
        let one = |column: &'a Expr, kind: Option<ComparisonKind>| match (column, kind) {
            (Expr::Column(column), Some(kind)) => vec![Self { column, kind }],
            _ => Vec::new(),
        };
        match expression {
            Expr::BinaryExpr(binary) => {
                let (column, op, constant) = match (constant(&binary.left), constant(&binary.right))
                {
                    (None, Some(right)) => (&binary.left, Some(binary.op), right),
                    (Some(left), None) => (&binary.right, binary.op.swap(), left),
                    _ => return Vec::new(),
                };
                let kind = match op {
                    Some(Operator::Eq) => Some(ComparisonKind::Equal(constant)),
                    Some(op @ (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)) => {
                        Some(ComparisonKind::Bound(op, constant))
                    }
                    _ => None,
                };
                one(column, kind)
            }
            Expr::InList(list) if !list.negated => {
                let constants = list.list.iter().filter_map(constant);
                constants
                    .flat_map(|constant| one(&list.expr, Some(ComparisonKind::Equal(constant))))
                    .collect()
            }
            Expr::Between(between) if !between.negated => {
                let bounds = constant(&between.low).zip(constant(&between.high));
                let kind = bounds.map(|(low, high)| ComparisonKind::Between(low, high));
                one(&between.expr, kind)
            }
            Expr::ScalarFunction(function) if function.name() == "nearest" => {
                match function.args.as_slice() {
                    [column, target] => one(column, constant(target).map(ComparisonKind::Nearest)),
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the value of a constant expression in the forms that people write: literals, negated
/// literals and casts.
fn constant(expression: &Expr) -> Option<ScalarValue> {
    match expression {
        Expr::Literal(value, _) if !value.is_null() => Some(value.clone()),
        Expr::Negative(inner) => constant(inner)?.arithmetic_negate().ok(),
        Expr::Cast(cast) => match (constant(&cast.expr)?, cast.field.data_type()) {
            // Keep the text of a time, because it may be abbreviated to a year or a month.
            (text, data_type) if text.try_as_str().is_some() && data_type.is_temporal() => {
                Some(text)
            }
            (value, data_type) => value.cast_to(data_type).ok(),
        },
        _ => None,
    }
}

/// Returns a hint if a label does not exist.
fn label_hint(name: &str, labels: &[String], kind: &ComparisonKind) -> Option<String> {
    let ComparisonKind::Equal(value) = kind else {
        return None;
    };
    let label = value.try_as_str().flatten()?;
    if labels.is_empty() || labels.iter().any(|other| other == label) {
        return None;
    }
    let meant = match nearest(label, labels.iter().map(String::as_str)) {
        Some(meant) => format!("; did you mean '{meant}'?"),
        None => String::new(),
    };
    Some(format!("no label '{label}' on {name}{meant}"))
}

/// A dimension with its coordinates in ascending order.
struct Searched {
    name: String,
    coordinates: SortedCoordinates,
    is_longitude: bool,
}

/// A constant that is compared with coordinates. An abbreviated time such as `2024-05` stands for
/// the period from `start` up to, but not including, `end`.
struct Target {
    start: CoordinateKey,
    end: Option<CoordinateKey>,
    text: String,
}

impl Searched {
    /// Returns `None` if the dimension has labels, no coordinates, or too many coordinates.
    fn of(name: &str, axes: &[&Axis]) -> Option<Self> {
        let is_long = |axis: &&Axis| axis.length() > MAX_COORDINATES / axes.len() as u64;
        let coordinates = match axes.iter().any(is_long) {
            true => None,
            false => SortedCoordinates::try_new(axes).ok().flatten(),
        };
        let is_longitude = axes.iter().any(|axis| {
            let mut attributes = axis.attributes();
            LONGITUDES.contains(&axis.name().to_lowercase().as_str())
                || attributes.any(|(key, text)| key == "units" && text.starts_with("degrees_east"))
        });
        let coordinates = coordinates.filter(|coordinates| coordinates.length() > 0)?;
        Some(Self {
            name: name.to_owned(),
            coordinates,
            is_longitude,
        })
    }

    fn hint(&self, kind: &ComparisonKind) -> Option<String> {
        let name = &self.name;
        match kind {
            ComparisonKind::Equal(value) => {
                let target = self.target(value)?;
                if let Some(end) = target.end {
                    let comparison = format!("= {}", target.text);
                    return self.empty_range((target.start, true), (end, false), &comparison);
                }
                let text = &target.text;
                match self.coordinates.neighbours(target.start) {
                    (Some(low), Some(high)) if low == high => None,
                    (Some(low), Some(high)) => Some(format!(
                        "{name} has no {text}; nearest are {} and {} (nearest({name}, {text}) selects the nearer one)",
                        self.text(low)?,
                        self.text(high)?
                    )),
                    _ => Some(format!("{name} has no {text}; {}", self.extent(&target)?)),
                }
            }
            ComparisonKind::Nearest(value) => {
                let target = self.target(value)?;
                match self.coordinates.neighbours(target.start) {
                    (Some(_), Some(_)) => None,
                    (low, high) => Some(format!(
                        "nearest({name}, {}) is {}; {}",
                        target.text,
                        self.text(low.or(high)?)?,
                        self.extent(&target)?
                    )),
                }
            }
            ComparisonKind::Bound(op, value) => {
                let target = self.target(value)?;
                let comparison = format!("{op} {}", target.text);
                let (first, last) = (self.key(0)?, self.key(self.coordinates.length() - 1)?);
                let empty = match op {
                    Operator::Lt | Operator::LtEq => {
                        let high = target.as_high(*op == Operator::LtEq);
                        self.empty_range((first, true), high, &comparison)
                    }
                    _ => {
                        let low = target.as_low(*op == Operator::GtEq);
                        self.empty_range(low, (last, true), &comparison)
                    }
                };
                empty.or_else(|| self.wrapped(&target))
            }
            ComparisonKind::Between(low, high) => {
                let (low, high) = (self.target(low)?, self.target(high)?);
                let comparison = format!("BETWEEN {} AND {}", low.text, high.text);
                let is_reversed = match high.end {
                    Some(end) => low.start >= end,
                    None => low.start > high.start,
                };
                if is_reversed {
                    return Some(format!(
                        "{name} {comparison} selects nothing: BETWEEN takes the lower bound first"
                    ));
                }
                self.empty_range(low.as_low(true), high.as_high(true), &comparison)
                    .or_else(|| self.wrapped(&low))
                    .or_else(|| self.wrapped(&high))
            }
        }
    }

    fn target(&self, value: &ScalarValue) -> Option<Target> {
        let written = value.try_as_str().flatten();
        let text = match written {
            Some(text) => format!("'{text}'"),
            None if value.data_type().is_temporal() => format!("'{}'", text_of(value)?),
            None => value.to_string(),
        };
        let is_time = !self.coordinates.data_type().is_numeric();
        let of_time = |time: chrono::NaiveDateTime| {
            let value =
                ScalarValue::TimestampMicrosecond(Some(time.and_utc().timestamp_micros()), None);
            key_of(&value)
        };
        let (start, end) = match (written, is_time) {
            (Some(text), true) => match WrittenTime::parse(text)? {
                WrittenTime::Instant { time, .. } => (of_time(time)?, None),
                WrittenTime::Period { start, end } => {
                    (of_time(start.into())?, Some(of_time(end.into())?))
                }
            },
            (Some(text), false) => (CoordinateKey::Number(text.parse().ok()?), None),
            (None, _) => (key_of(value)?, None),
        };
        // Numbers and times cannot be compared.
        let is_comparable = matches!(start, CoordinateKey::Time(_)) == is_time;
        is_comparable.then_some(Target { start, end, text })
    }

    /// Returns a hint if no coordinate lies between a lower and an upper bound. Each bound comes
    /// with a flag that is `true` if the range includes the bound.
    fn empty_range(
        &self,
        (low, with_low): (CoordinateKey, bool),
        (high, with_high): (CoordinateKey, bool),
        comparison: &str,
    ) -> Option<String> {
        let first = match self.coordinates.neighbours(low) {
            (Some(at), Some(same)) if at == same && !with_low => Some(at + 1),
            (_, above) => above,
        };
        let end = match self.coordinates.neighbours(high) {
            (Some(at), Some(same)) if at == same && !with_high => at,
            (Some(below), _) => below + 1,
            (None, _) => 0,
        };
        match first {
            Some(first) if first < end => None,
            _ => Some(format!(
                "{} {comparison} selects nothing: {}",
                self.name,
                self.range()?
            )),
        }
    }

    /// Returns a hint if the axis has the same longitude as another number, such as 350 for -10.
    fn wrapped(&self, target: &Target) -> Option<String> {
        let other = self.other_longitude(target)?;
        Some(format!(
            "{}, where {} is {other}",
            self.range()?,
            target.text
        ))
    }

    /// Returns the longitude plus or minus 360 degrees, if only that number is in the range of the
    /// axis.
    fn other_longitude(&self, target: &Target) -> Option<f64> {
        let CoordinateKey::Number(longitude) = target.start else {
            return None;
        };
        let is_within = |longitude: &f64| {
            let (low, high) = self
                .coordinates
                .neighbours(CoordinateKey::Number(*longitude));
            low.is_some() && high.is_some()
        };
        let others = [longitude + 360.0, longitude - 360.0];
        let is_wrapped = self.is_longitude && !is_within(&longitude);
        others.into_iter().find(is_within).filter(|_| is_wrapped)
    }

    fn extent(&self, target: &Target) -> Option<String> {
        self.wrapped(target).or_else(|| self.range())
    }

    fn range(&self) -> Option<String> {
        let last = self.coordinates.length() - 1;
        let (first, last) = (self.text(0)?, self.text(last)?);
        Some(format!("{} runs {first} .. {last}", self.name))
    }

    fn value(&self, index: u64) -> Option<ScalarValue> {
        let value = self
            .coordinates
            .take(&UInt64Array::from(vec![index]))
            .ok()?;
        ScalarValue::try_from_array(&value, 0).ok()
    }

    fn key(&self, index: u64) -> Option<CoordinateKey> {
        key_of(&self.value(index)?)
    }

    fn text(&self, index: u64) -> Option<String> {
        text_of(&self.value(index)?)
    }
}

impl Target {
    fn as_low(&self, with_bound: bool) -> (CoordinateKey, bool) {
        match self.end {
            Some(end) if !with_bound => (end, true),
            _ => (self.start, with_bound),
        }
    }

    fn as_high(&self, with_bound: bool) -> (CoordinateKey, bool) {
        match self.end {
            Some(end) if with_bound => (end, false),
            _ => (self.start, with_bound),
        }
    }
}

fn key_of(value: &ScalarValue) -> Option<CoordinateKey> {
    let keys = CoordinateKey::of(value.to_array().ok()?.as_ref()).ok()??;
    keys.first().copied()?
}

fn text_of(value: &ScalarValue) -> Option<String> {
    let value = value.to_array().ok()?;
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(value.as_ref(), &options).ok()?;
    formatter.value(0).try_to_string().ok()
}
