//! The predicates of the `*.preds.json` files: parses them, evaluates them on rows, and prunes row groups
//! by zones and Bloom filters.

use std::cmp::Ordering;

use tet_sql::format::tatami::{ColumnType, Scalar, TatamiFile, ValueBounds};

use super::data::Table;

pub enum Predicate {
    Compare(usize, Operator, Literal),
    Between(usize, Literal, Literal),
    IsNull(usize),
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A literal, as the bytes in which its column stores scalars.
pub struct Literal(ColumnType, Vec<u8>);

impl Literal {
    pub fn scalar(&self) -> Scalar<'_> {
        Scalar::parse(self.0, &self.1).unwrap()
    }

    pub fn new(column_type: ColumnType, text: &str) -> Self {
        let scalar = match column_type {
            ColumnType::Bool => Scalar::Bool(text == "true"),
            ColumnType::Float32 => Scalar::Float32(text.parse().unwrap()),
            ColumnType::Float64 => Scalar::Float64(text.parse().unwrap()),
            ColumnType::String | ColumnType::Bytes => {
                Scalar::Bytes(text.trim_matches('\'').as_bytes())
            }
            _ if column_type.is_signed() => Scalar::Int(text.parse().unwrap()),
            _ => Scalar::Uint(text.parse().unwrap()),
        };
        Self(column_type, scalar.encode(column_type).unwrap())
    }
}

impl Operator {
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match self {
            Self::Equal => ordering == Some(Ordering::Equal),
            Self::NotEqual => ordering != Some(Ordering::Equal),
            Self::Less => ordering == Some(Ordering::Less),
            Self::LessOrEqual => ordering.is_some_and(Ordering::is_le),
            Self::Greater => ordering == Some(Ordering::Greater),
            Self::GreaterOrEqual => ordering.is_some_and(Ordering::is_ge),
        }
    }
}

impl Predicate {
    pub fn parse(file: &TatamiFile, text: &str) -> Self {
        if let Some((left, right)) = text.split_once(" OR ") {
            return Self::Or(
                Box::new(Self::parse(file, left)),
                Box::new(Self::parse(file, right)),
            );
        }
        let words: Vec<&str> = text.split(' ').collect();
        let column = file.schema().index_of(words[0]).unwrap();
        let literal = |word: &str| Literal::new(file.schema().fields[column].column_type, word);
        let (first, length) = match words[1] {
            "BETWEEN" => (
                Self::Between(column, literal(words[2]), literal(words[4])),
                5,
            ),
            "IS" => (Self::IsNull(column), 3),
            operator => {
                let operator = match operator {
                    "=" => Operator::Equal,
                    "<>" => Operator::NotEqual,
                    "<" => Operator::Less,
                    "<=" => Operator::LessOrEqual,
                    ">" => Operator::Greater,
                    ">=" => Operator::GreaterOrEqual,
                    other => panic!("{other}"),
                };
                (Self::Compare(column, operator, literal(words[2])), 3)
            }
        };
        match words.get(length) {
            Some(&"AND") => {
                let rest = Self::parse(file, &words[length + 1..].join(" "));
                Self::And(Box::new(first), Box::new(rest))
            }
            _ => first,
        }
    }

    /// Returns `true` if a row satisfies the predicate. Floats are compared as in IEEE 754.
    pub fn holds(&self, table: &Table, group: usize, row: usize) -> bool {
        let scalar = |column: &usize| table.groups[group][*column].scalar(row);
        let compare = |column: &usize, literal: &Literal| {
            let bytes = scalar(column)?;
            let value = Scalar::parse(literal.0, &bytes).unwrap();
            Some(value.compare(&literal.scalar()))
        };
        match self {
            Self::Compare(column, operator, literal) => {
                compare(column, literal).is_some_and(|ordering| operator.holds(ordering))
            }
            Self::Between(column, low, high) => {
                compare(column, low).flatten().is_some_and(Ordering::is_ge)
                    && compare(column, high).flatten().is_some_and(Ordering::is_le)
            }
            Self::IsNull(column) => scalar(column).is_none(),
            Self::And(a, b) => a.holds(table, group, row) && b.holds(table, group, row),
            Self::Or(a, b) => a.holds(table, group, row) || b.holds(table, group, row),
        }
    }

    /// Returns `true` if a row of the group may satisfy the predicate.
    pub fn may_match(&self, file: &TatamiFile, group: usize) -> bool {
        let chunk = |column: &usize| file.chunk(group, *column).unwrap();
        let has_values = |column: &usize| chunk(column).nulls < chunk(column).values;
        match self {
            Self::Compare(column, operator, literal) => {
                let value = literal.scalar();
                has_values(column)
                    && within(&file.bounds(group, *column).unwrap(), *operator, &value)
                    && (*operator != Operator::Equal
                        || file.may_contain(group, *column, &value).unwrap())
            }
            Self::Between(column, low, high) => {
                let bounds = file.bounds(group, *column).unwrap();
                has_values(column)
                    && within(&bounds, Operator::GreaterOrEqual, &low.scalar())
                    && within(&bounds, Operator::LessOrEqual, &high.scalar())
            }
            Self::IsNull(column) => chunk(column).nulls > 0,
            Self::And(a, b) => a.may_match(file, group) && b.may_match(file, group),
            Self::Or(a, b) => a.may_match(file, group) || b.may_match(file, group),
        }
    }
}

/// Returns `true` if a value within the bounds may satisfy the comparison, where NaN satisfies only `<>`.
pub fn within(bounds: &ValueBounds<'_>, operator: Operator, value: &Scalar<'_>) -> bool {
    let lower = bounds.lower.as_ref().and_then(|bound| bound.compare(value));
    let upper = bounds.upper.as_ref().and_then(|bound| bound.compare(value));
    let may_be_less = lower.is_none_or(Ordering::is_lt);
    let may_be_greater = upper.is_none_or(Ordering::is_gt);
    let may_be_equal = lower.is_none_or(Ordering::is_le) && upper.is_none_or(Ordering::is_ge);
    match operator {
        Operator::Equal => may_be_equal,
        Operator::NotEqual => bounds.may_have_nan || may_be_less || may_be_greater,
        Operator::Less => may_be_less,
        Operator::LessOrEqual => lower.is_none_or(Ordering::is_le),
        Operator::Greater => may_be_greater,
        Operator::GreaterOrEqual => upper.is_none_or(Ordering::is_ge),
    }
}
