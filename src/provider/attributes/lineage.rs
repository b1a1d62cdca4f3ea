//! Derives the attributes of a query's result columns from the columns of its tables.
//!
//! | expression | attributes kept |
//! | --- | --- |
//! | a column, passed on unchanged | all |
//! | same meaning and unit: mean, min, max, other row's value, constant offset | meaning, unit |
//! | same unit: sum, standard deviation | unit |
//! | any other | none |

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Operator,
};

use crate::provider::attributes::annotated_schema;
use crate::provider::source::DATASET;

const UNITS: &str = "units";
/// Part of the units of times, such as `days since 2000-01-01`.
const SINCE: &str = "since";
/// The attributes that describe the meaning of values, which an expression can keep. A calendar belongs to the unit of times that are
/// stored as numbers.
const MEANING: [&str; 5] = [
    UNITS,
    "calendar",
    "long_name",
    "standard_name",
    "description",
];
/// Aggregate and window functions whose result is a value of their first argument, or lies between
/// two of them.
const ALIKE: [&str; 18] = [
    "approx_median",
    "approx_percentile_cont",
    "arg_max",
    "arg_min",
    "avg",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "max",
    "mean",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "quantile",
    "mode",
    "any_value",
];
/// Aggregate functions whose result has the unit of their first argument, but a different meaning.
const SAME_UNIT: [&str; 5] = ["stddev", "stddev_pop", "stddev_samp", "sum", "norm_l1"];
/// Scalar functions whose result has the meaning of their first argument.
const ROUNDINGS: [&str; 5] = ["ceil", "floor", "nullif", "round", "trunc"];
/// Scalar functions whose result is one of their arguments.
const CHOICES: [&str; 5] = ["coalesce", "greatest", "ifnull", "least", "nvl"];
/// The freezing point of water, 0 °C, in kelvin. Adding or subtracting it converts the unit.
const ZERO_CELSIUS: f64 = 273.15;
const KELVIN: [&str; 4] = ["K", "kelvin", "Kelvin", "degK"];
const CELSIUS: [&str; 8] = [
    "degC",
    "celsius",
    "Celsius",
    "degree_Celsius",
    "degrees_Celsius",
    "deg_C",
    "degree_C",
    "°C",
];
/// The max depth to which plans and expressions are searched.
const DEEPEST: usize = 256;

/// Returns the attributes of each column of a plan.
pub(super) fn of_plan(plan: &LogicalPlan) -> Vec<FieldMetadata> {
    Input::of(plan, 0).attributes
}

/// The columns of a plan, with their attributes.
pub(super) struct Input {
    schema: DFSchemaRef,
    attributes: Vec<FieldMetadata>,
    /// The depth of the plan below the root.
    depth: usize,
}

impl Input {
    pub fn of(plan: &LogicalPlan, depth: usize) -> Self {
        let schema = plan.schema();
        let mut attributes = match depth < DEEPEST {
            true => Self::attributes(plan, depth + 1),
            false => Vec::new(),
        };
        attributes.resize(schema.fields().len(), FieldMetadata::default());
        Self {
            schema: DFSchemaRef::clone(schema),
            attributes,
            depth,
        }
    }

    /// Returns the attributes of the plan's columns. The result may be shorter than the list of
    /// columns: the remaining ones have no attributes.
    fn attributes(plan: &LogicalPlan, depth: usize) -> Vec<FieldMetadata> {
        let input = |plan| Self::of(plan, depth);
        match plan {
            LogicalPlan::TableScan(scan) => {
                let Ok(table) = source_as_provider(&scan.source) else {
                    return own(&scan.projected_schema);
                };
                let schema = annotated_schema(table.as_ref());
                let fields = schema.fields();
                let attributes = |index: &usize| {
                    let field = fields.get(*index);
                    field.map_or_else(FieldMetadata::default, |field| {
                        FieldMetadata::new_from_field(field)
                    })
                };
                match &scan.projection {
                    Some(columns) => columns.iter().map(attributes).collect(),
                    None => (0..fields.len()).map(|index| attributes(&index)).collect(),
                }
            }
            LogicalPlan::Projection(projection) => {
                let below = input(&projection.input);
                projection
                    .expr
                    .iter()
                    .map(|one| below.expression(one))
                    .collect()
            }
            LogicalPlan::Aggregate(aggregate) => {
                let below = input(&aggregate.input);
                if let [Expr::GroupingSet(_)] = aggregate.group_expr.as_slice() {
                    // The output has the columns of the grouping sets, then the grouping ID, then
                    // the aggregates.
                    let keys = aggregate.group_expr_len().unwrap_or_default();
                    let mut attributes: Vec<_> = (0..keys)
                        .map(|key| match plan.schema().columns().get(key) {
                            Some(column) => below.expression(&Expr::Column(column.clone())),
                            None => FieldMetadata::default(),
                        })
                        .collect();
                    let before = plan.schema().fields().len() - aggregate.aggr_expr.len();
                    attributes.resize(before, FieldMetadata::default());
                    attributes.extend(aggregate.aggr_expr.iter().map(|one| below.expression(one)));
                    return attributes;
                }
                let all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                all.map(|one| below.expression(one)).collect()
            }
            LogicalPlan::Window(window) => {
                let mut below = input(&window.input);
                let own: Vec<_> = window
                    .window_expr
                    .iter()
                    .map(|one| below.expression(one))
                    .collect();
                below.attributes.extend(own);
                below.attributes
            }
            LogicalPlan::Join(join) => {
                let left = input(&join.left).attributes;
                let right = input(&join.right).attributes;
                match join.join_type {
                    JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left,
                    JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
                    _ => left.into_iter().chain(right).collect(),
                }
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                let below = input(&distinct.input);
                distinct
                    .select_expr
                    .iter()
                    .map(|one| below.expression(one))
                    .collect()
            }
            LogicalPlan::Union(union) => {
                let mut inputs = union.inputs.iter().map(|one| input(one).attributes);
                let first = inputs.next().unwrap_or_default();
                inputs.fold(first, |all, next| {
                    let both = all.iter().zip(&next);
                    both.map(|(one, other)| shared(one, other)).collect()
                })
            }
            LogicalPlan::RecursiveQuery(query) => input(&query.static_term).attributes,
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_) => match plan.inputs().as_slice() {
                [below] => input(below).attributes,
                _ => Vec::new(),
            },
            other => own(other.schema()),
        }
    }

    /// Returns the attributes of an expression over the columns.
    pub fn expression(&self, expression: &Expr) -> FieldMetadata {
        self.nested(expression, self.depth)
    }

    fn nested(&self, expression: &Expr, depth: usize) -> FieldMetadata {
        if depth > DEEPEST {
            return FieldMetadata::default();
        }
        let inside = |expression: &Expr| self.nested(expression, depth + 1);
        let first = |arguments: &[Expr]| {
            arguments
                .first()
                .map_or_else(FieldMetadata::default, inside)
        };
        let aggregate = |name: &str, arguments: &[Expr]| match name {
            name if ALIKE.contains(&name) => meaning(&first(arguments)),
            name if SAME_UNIT.contains(&name) => {
                let attributes = first(arguments);
                match has_time(&attributes) {
                    true => FieldMetadata::default(),
                    false => kept(&attributes, &[UNITS]),
                }
            }
            _ => FieldMetadata::default(),
        };
        match expression {
            Expr::Column(column) => match self.schema.maybe_index_of_column(column) {
                Some(index) => self.attributes[index].clone(),
                None => FieldMetadata::default(),
            },
            Expr::Alias(alias) => {
                let mut attributes = inside(&alias.expr);
                attributes.extend(alias.metadata.clone().unwrap_or_default());
                attributes
            }
            Expr::Cast(cast) => self.cast(&cast.expr, &cast.field, &inside(&cast.expr)),
            Expr::TryCast(cast) => self.cast(&cast.expr, &cast.field, &inside(&cast.expr)),
            Expr::Negative(inner) => without_time(&inside(inner)),
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                aggregate(func.name(), &params.args)
            }
            Expr::WindowFunction(window) => aggregate(window.fun.name(), &window.params.args),
            Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
                "abs" => without_time(&first(args)),
                name if ROUNDINGS.contains(&name) => meaning(&first(args)),
                name if CHOICES.contains(&name) => agreed(args.iter(), inside),
                _ => FieldMetadata::default(),
            },
            Expr::Case(case) => {
                let results = case
                    .when_then_expr
                    .iter()
                    .map(|(_, result)| result.as_ref());
                agreed(results.chain(case.else_expr.as_deref()), inside)
            }
            Expr::ScalarSubquery(subquery) => {
                let below = Self::of(&subquery.subquery, depth + 1);
                below
                    .attributes
                    .first()
                    .map_or_else(FieldMetadata::default, meaning)
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::Plus | Operator::Minus) =>
            {
                match (constant(left), constant(right)) {
                    (None, None) => {
                        let (left, right) = (inside(left), inside(right));
                        match left.inner().get(UNITS) == right.inner().get(UNITS) {
                            // The difference of two times is none.
                            true => without_time(&shared(&left, &right)),
                            false => FieldMetadata::default(),
                        }
                    }
                    (None, Some(offset)) => shifted(
                        &inside(left),
                        match op {
                            Operator::Minus => -offset,
                            _ => offset,
                        },
                    ),
                    (Some(offset), None) if *op == Operator::Plus => {
                        shifted(&inside(right), offset)
                    }
                    (Some(_), None) => without_time(&inside(right)),
                    (Some(_), Some(_)) => FieldMetadata::default(),
                }
            }
            _ => FieldMetadata::default(),
        }
    }
}

impl Input {
    /// Returns the attributes of an expression cast to another type. The numbers of decoded times have another unit than the stored ones.
    fn cast(&self, expression: &Expr, to: &Field, attributes: &FieldMetadata) -> FieldMetadata {
        let from = expression.get_type(self.schema.as_ref());
        let is_number = from.is_ok_and(|from| from.is_temporal()) && !to.data_type().is_temporal();
        match is_number && has_time(attributes) {
            true => kept(attributes, &MEANING[2..]),
            false => meaning(attributes),
        }
    }
}

/// Returns `true` if the unit is one of times.
fn has_time(attributes: &FieldMetadata) -> bool {
    let unit = attributes.inner().get(UNITS);
    let words = unit.map(|unit| unit.split_whitespace());
    words.is_some_and(|mut words| words.any(|word| word.eq_ignore_ascii_case(SINCE)))
}

/// Returns the attributes that negated, absolute and subtracted values keep: those of the values, unless these are times.
fn without_time(attributes: &FieldMetadata) -> FieldMetadata {
    match has_time(attributes) {
        true => FieldMetadata::default(),
        false => meaning(attributes),
    }
}

/// Returns the metadata of the fields in a schema.
fn own(schema: &DFSchema) -> Vec<FieldMetadata> {
    let fields = schema.fields().iter();
    fields
        .map(|field| FieldMetadata::new_from_field(field))
        .collect()
}

/// Returns the value of a numeric literal.
fn constant(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Literal(value, _) if value.data_type().is_numeric() => {
            match value.cast_to(&DataType::Float64) {
                Ok(ScalarValue::Float64(number)) => number,
                _ => None,
            }
        }
        Expr::Negative(inner) => constant(inner).map(|number| -number),
        Expr::Cast(cast) => constant(&cast.expr),
        _ => None,
    }
}

/// Returns the attributes of values plus a constant. Converts the unit if the constant is the
/// difference between kelvin and degrees Celsius.
fn shifted(attributes: &FieldMetadata, offset: f64) -> FieldMetadata {
    let mut kept = meaning(attributes).inner().clone();
    if let Some(units) = kept.get_mut(UNITS) {
        if offset == -ZERO_CELSIUS && KELVIN.contains(&units.as_str()) {
            *units = CELSIUS[0].to_string();
        } else if offset == ZERO_CELSIUS && CELSIUS.contains(&units.as_str()) {
            *units = KELVIN[0].to_string();
        }
    }
    FieldMetadata::new(kept)
}

/// Returns the unit and description. Also marks values of a dataset as values, so that they are not
/// taken for a dimension.
fn meaning(attributes: &FieldMetadata) -> FieldMetadata {
    kept(attributes, &MEANING)
}

fn kept(attributes: &FieldMetadata, keys: &[&str]) -> FieldMetadata {
    let all = attributes.inner();
    let mut kept: BTreeMap<_, _> = keys
        .iter()
        .filter_map(|key| Some((key.to_string(), all.get(*key)?.clone())))
        .collect();
    if all.contains_key(DATASET) {
        kept.insert(DATASET.to_string(), String::new());
    }
    FieldMetadata::new(kept)
}

/// Returns the attributes on which both agree. Values of two different datasets are marked as
/// values, but of no particular dataset.
fn shared(one: &FieldMetadata, other: &FieldMetadata) -> FieldMetadata {
    if one == other {
        return one.clone();
    }
    let (one, other) = (one.inner(), other.inner());
    let both = one
        .iter()
        .filter(|(key, text)| other.get(*key) == Some(text));
    let mut both: BTreeMap<_, _> = both
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect();
    if one.contains_key(DATASET) && other.contains_key(DATASET) {
        both.entry(DATASET.to_string()).or_default();
    }
    FieldMetadata::new(both)
}

/// Returns the attributes that all expressions share. Constants are ignored: they are assumed to be
/// in the unit of the other expressions.
fn agreed<'a>(
    expressions: impl Iterator<Item = &'a Expr>,
    of: impl Fn(&Expr) -> FieldMetadata,
) -> FieldMetadata {
    let found = expressions
        .filter(|one| !matches!(one, Expr::Literal(..)))
        .map(of);
    let agreed = found.reduce(|one, other| shared(&one, &other));
    agreed.map_or_else(FieldMetadata::default, |agreed| meaning(&agreed))
}
