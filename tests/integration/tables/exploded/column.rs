//! Random predicates over one column, with literals drawn from its values.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::random::Random;

const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "=", "<>"];

/// A column of a table.
#[derive(Debug, Clone)]
pub struct TestColumn {
    pub name: String,
    /// The coordinates along an axis, or one value per row.
    pub values: ArrayRef,
    /// `true` if the numbers are so few and small that their sums are exact in any order and every
    /// cast succeeds.
    pub is_tame: bool,
    /// With NaN among the numbers, DataFusion's `min` and `max` depend on the order of rows. In
    /// DataFusion 55.2 they are finite for groups that hold only infinities.
    pub has_nan: bool,
    pub has_negative_zero: bool,
}

impl TestColumn {
    pub fn new(name: impl Into<String>, values: ArrayRef) -> Self {
        let numbers = match values.data_type().is_numeric() {
            true => Some(cast(&values, &DataType::Float64).unwrap()),
            false => None,
        };
        let all = |holds: &dyn Fn(f64) -> bool| {
            numbers.as_ref().is_some_and(|numbers| {
                let mut numbers = numbers.as_primitive::<Float64Type>().iter().flatten();
                numbers.all(holds)
            })
        };
        Self {
            name: name.into(),
            is_tame: all(&|number| number.abs() < 10_000.0 && (number * 64.0).fract() == 0.0),
            has_nan: numbers.is_some() && !all(&|number| number.is_finite()),
            has_negative_zero: numbers.is_some()
                && !all(&|number| number != 0.0 || number.is_sign_positive()),
            values,
        }
    }

    pub fn is_numeric(&self) -> bool {
        self.values.data_type().is_numeric()
    }

    pub fn is_integer(&self) -> bool {
        self.values.data_type().is_integer()
    }

    /// Returns an expression to group by, most often the column itself.
    pub fn key(&self, random: &mut Random) -> String {
        let name = &self.name;
        if random.chance(60) {
            return name.clone();
        }
        match self.values.data_type() {
            DataType::Timestamp(..) | DataType::Date32 => {
                let unit = random.pick(&["year", "month", "day", "hour"]);
                format!("date_trunc('{unit}', {name})")
            }
            DataType::Utf8 => format!("substr({name}, 1, 1)"),
            _ if self.is_numeric() && self.is_tame => match random.below(3) {
                0 => format!("floor({name} / 2)"),
                1 => format!("CASE WHEN {name} > 1 THEN 'far' ELSE 'near' END"),
                _ => format!("-{name}"),
            },
            _ => name.clone(),
        }
    }

    /// Returns a literal, most often one of the column's values.
    fn literal(&self, random: &mut Random) -> String {
        let row = random.below(self.values.len().max(1));
        if row >= self.values.len() || self.values.is_null(row) {
            return if self.is_numeric() { "3" } else { "NULL" }.to_string();
        }
        let options = FormatOptions::default();
        let text = ArrayFormatter::try_new(self.values.as_ref(), &options).unwrap();
        let text = text.value(row).to_string();
        let data_type = match self.values.data_type() {
            DataType::Utf8 => return format!("'{text}'"),
            DataType::Date32 => return format!("DATE '{text}'"),
            DataType::Timestamp(..) => return format!("TIMESTAMP '{text}'"),
            DataType::Float32 => "FLOAT",
            DataType::Float64 => "DOUBLE",
            DataType::UInt64 => "BIGINT UNSIGNED",
            _ => "BIGINT",
        };
        if !self.is_tame || random.chance(30) {
            return format!("CAST('{text}' AS {data_type})");
        }
        match random.below(4) {
            0 => format!("{text} + 1"),
            1 => format!("{text} - 0.5"),
            _ => text,
        }
    }

    fn list(&self, random: &mut Random) -> String {
        // DataFusion evaluates short, medium and long lists differently.
        let length = *random.pick(&[1, 2, 3, 6, 25]);
        let mut literals: Vec<_> = (0..length).map(|_| self.literal(random)).collect();
        if length > 3 {
            // In lists of this length, DataFusion 55.2 distinguishes zeros by sign; elsewhere zeros
            // are equal.
            literals.retain(|literal| !literal.contains("'0.0'") && !literal.contains("'-0.0'"));
            if literals.is_empty() {
                literals.push("4".to_string());
            }
        }
        if random.chance(5) {
            literals.push("NULL".to_string());
        }
        literals.join(", ")
    }

    /// Returns a comparison, which is never true for null.
    pub fn comparison(&self, random: &mut Random, alias: &str) -> String {
        let comparison = random.pick(&COMPARISONS);
        format!("{alias}{} {comparison} {}", self.name, self.literal(random))
    }

    /// Returns a predicate. `alias` precedes the column's name.
    pub fn predicate(&self, random: &mut Random, alias: &str) -> String {
        let name = format!("{alias}{}", self.name);
        let literal = self.literal(random);
        let comparison = random.pick(&COMPARISONS);
        let negated = *random.pick(&["", "NOT "]);
        match random.below(14) {
            0 => format!(
                "{name} {negated}BETWEEN {literal} AND {}",
                self.literal(random)
            ),
            1 | 2 => format!("{name} {negated}IN ({})", self.list(random)),
            3 => format!("{name} IS {negated}NULL"),
            4 => format!("({name} IS {negated}DISTINCT FROM {literal})"),
            5 => format!("{literal} {comparison} {name}"),
            6 => format!("({name} {comparison} {literal}) IS {negated}TRUE"),
            7 | 8 => self.by_type(random, &name, comparison),
            _ => format!("{name} {comparison} {literal}"),
        }
    }

    fn by_type(&self, random: &mut Random, name: &str, comparison: &str) -> String {
        let number = random.below(40) as i64 - 10;
        let other = random.below(12);
        match (self.values.data_type(), random.below(4)) {
            (DataType::Utf8, 0) => format!("{name} LIKE '%{other}%'"),
            (DataType::Utf8, 1) => format!("{name} NOT LIKE 'label {other}'"),
            (DataType::Utf8, _) => format!("upper({name}) {comparison} 'LABEL {other}'"),
            (DataType::Date32, _) => format!("date_part('day', {name}) {comparison} {other}"),
            (DataType::Timestamp(..), 0) => {
                format!("date_trunc('day', {name}) {comparison} TIMESTAMP '1970-01-02T00:00:00'")
            }
            (DataType::Timestamp(..), _) => {
                format!("date_part('hour', {name}) {comparison} {other}")
            }
            (_, 0) => format!("CAST({name} AS DOUBLE) {comparison} {number}"),
            (_, 1) => format!("TRY_CAST({name} AS BIGINT) % 3 {comparison} 1"),
            // Expressions that overflow may fail on rows that are not part of the answer, so they
            // need a tame column.
            (_, 2) if self.is_tame => format!("CAST({name} AS BIGINT) {comparison} {number}"),
            (_, 3) if self.is_tame => format!("{name} * 2 + 1 {comparison} {number}"),
            _ => format!("coalesce({name}, 7) {comparison} 7"),
        }
    }
}
