//! Conditions of deletes.

use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::bytes::Fields;
use crate::format::tiledb::fault::{Decoded, Fault};
use crate::format::tiledb::schema::{CellValues, Datatype, Representation};

/// Maximum depth of a condition.
const MAX_DEPTH: usize = 256;

/// A condition over the fields of a cell. Comparisons with null are false, and so are comparisons
/// of fields that the schema of a fragment lacks.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// All conditions are true.
    And(Vec<Condition>),
    /// At least one condition is true.
    Or(Vec<Condition>),
    /// The condition is false.
    Not(Box<Condition>),
    /// A constant.
    Constant(bool),
    /// A comparison of a field with one value.
    Comparison {
        /// The name of the field.
        field: String,
        /// The comparison operator.
        operator: Operator,
        /// The bytes of the value.
        value: Vec<u8>,
    },
    /// A test whether the field has one of several values, or none of them.
    Membership {
        /// The name of the field.
        field: String,
        /// `true` for cells with none of the values.
        is_negated: bool,
        /// The bytes of each value.
        values: Vec<Vec<u8>>,
    },
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// The cells of a field, as a condition reads them.
#[derive(Debug, Clone, Copy)]
pub struct Cells<'a> {
    /// The datatype of values.
    pub datatype: Datatype,
    /// The number of values per cell.
    pub cell_values: CellValues,
    /// The cells.
    pub buffers: &'a TileBuffers,
}

impl Condition {
    /// Parses a condition, the payload of a generic tile.
    pub(crate) fn parse(payload: &[u8]) -> Decoded<Self> {
        let mut fields = Fields::new(payload);
        let condition = Self::read(&mut fields, 0)?;
        fields.finish("condition")?;
        Ok(condition)
    }

    fn read(fields: &mut Fields<'_>, depth: usize) -> Decoded<Self> {
        if depth > MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH}");
            return Err(Fault::new("depth of a condition", depth, expected));
        }
        if !fields.flag("kind of condition")? {
            return Self::read_combination(fields, depth);
        }
        let operator = fields.u8("condition operator")?;
        let field = fields.text("condition field")?;
        let length = fields.u64("length of a condition value")?;
        let value = fields.take_u64("condition value", length)?;
        let operator = match operator {
            0 => Operator::Less,
            1 => Operator::LessOrEqual,
            2 => Operator::Greater,
            3 => Operator::GreaterOrEqual,
            4 => Operator::Equal,
            5 => Operator::NotEqual,
            6 | 7 => {
                let bytes = fields.u64("length of member offsets")?;
                if !bytes.is_multiple_of(8) {
                    return Err(Fault::new(
                        "length of member offsets",
                        bytes,
                        "a multiple of 8",
                    ));
                }
                let starts = fields.u64s("member offsets", bytes / 8)?;
                let ends = starts.iter().copied().skip(1).chain([length]);
                let values = starts.iter().zip(ends).map(|(start, end)| {
                    let range = *start as usize..end as usize;
                    let invalid = || Fault::new("member offsets", start, "in increasing order");
                    value.get(range).map(<[u8]>::to_vec).ok_or_else(invalid)
                });
                return Ok(Self::Membership {
                    field,
                    is_negated: operator == 7,
                    values: values.collect::<Decoded<_>>()?,
                });
            }
            253 => return Ok(Self::Constant(true)),
            254 => return Ok(Self::Constant(false)),
            other => {
                return Err(Fault::new(
                    "condition operator",
                    other,
                    "0 to 7, 253 or 254",
                ));
            }
        };
        Ok(Self::Comparison {
            field,
            operator,
            value: value.to_vec(),
        })
    }

    fn read_combination(fields: &mut Fields<'_>, depth: usize) -> Decoded<Self> {
        let combination = fields.u8("combination of conditions")?;
        let count = fields.count_u64("number of conditions", 10)?;
        let children = (0..count).map(|_| Self::read(fields, depth + 1));
        let mut children: Vec<_> = children.collect::<Decoded<_>>()?;
        match (combination, count) {
            (0, 1..) => Ok(Self::And(children)),
            (1, 1..) => Ok(Self::Or(children)),
            (2, 1) => Ok(Self::Not(Box::new(children.swap_remove(0)))),
            _ => {
                let found = format!("{combination} of {count} conditions");
                let expected = "0 or 1 of some conditions, or 2 of one";
                Err(Fault::new("combination of conditions", found, expected))
            }
        }
    }

    /// Calls a function with the name of each field of the condition.
    pub fn for_each_field(&self, function: &mut impl FnMut(&str)) {
        match self {
            Self::And(children) | Self::Or(children) => {
                children
                    .iter()
                    .for_each(|child| child.for_each_field(function));
            }
            Self::Not(child) => child.for_each_field(function),
            Self::Constant(_) => {}
            Self::Comparison { field, .. } | Self::Membership { field, .. } => function(field),
        }
    }

    /// Evaluates the condition on `cells` cells. `find` returns a field by name, or `None` if the
    /// cells have no such field.
    pub(crate) fn evaluate<'a>(
        &self,
        cells: usize,
        find: &impl Fn(&str) -> Option<Cells<'a>>,
    ) -> Decoded<Vec<bool>> {
        match self {
            Self::And(children) | Self::Or(children) => {
                let is_and = matches!(self, Self::And(_));
                let mut all = vec![is_and; cells];
                for child in children {
                    let result = child.evaluate(cells, find)?;
                    for (all, one) in all.iter_mut().zip(result) {
                        *all = if is_and { *all && one } else { *all || one };
                    }
                }
                Ok(all)
            }
            Self::Not(child) => {
                let mut result = child.evaluate(cells, find)?;
                result.iter_mut().for_each(|is_true| *is_true = !*is_true);
                Ok(result)
            }
            Self::Constant(value) => Ok(vec![*value; cells]),
            Self::Comparison {
                field,
                operator,
                value,
            } => {
                let mut result = vec![false; cells];
                if let Some(found) = find(field) {
                    found.compare(field, *operator, value, &mut result)?;
                    found.clear_null(&mut result);
                }
                Ok(result)
            }
            Self::Membership {
                field,
                is_negated,
                values,
            } => {
                let mut result = vec![false; cells];
                if let Some(found) = find(field) {
                    let mut one = vec![false; cells];
                    for value in values {
                        found.compare(field, Operator::Equal, value, &mut one)?;
                        result
                            .iter_mut()
                            .zip(&one)
                            .for_each(|(any, one)| *any |= one);
                    }
                    if *is_negated {
                        result.iter_mut().for_each(|is_true| *is_true = !*is_true);
                    }
                    found.clear_null(&mut result);
                }
                Ok(result)
            }
        }
    }
}

/// A value of fixed size that can be compared.
trait Value: Copy + PartialOrd {
    fn from_le(bytes: &[u8]) -> Option<Self>;
}

macro_rules! values {
    ($($value:ty)*) => {$(
        impl Value for $value {
            fn from_le(bytes: &[u8]) -> Option<Self> {
                Some(<$value>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

values!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

impl Cells<'_> {
    /// Compares each cell with a value.
    fn compare(
        &self,
        field: &str,
        operator: Operator,
        value: &[u8],
        result: &mut [bool],
    ) -> Decoded<()> {
        use Representation::{Float, Signed, Unsigned};
        let size = self.datatype.size();
        if size == 1 && self.cell_values != CellValues::Fixed(1) {
            for (index, result) in result.iter_mut().enumerate() {
                let cell = self.buffers.cell(index, self.cell_values, size);
                *result = holds(operator, cell, value);
            }
            return Ok(());
        }
        let is_single = self.cell_values == CellValues::Fixed(1);
        if !is_single || value.len() != size {
            let found = format!("{} bytes for field {field:?}", value.len());
            let expected = format!("{size} bytes, for cells of one value");
            return Err(Fault::new("condition value", found, expected));
        }
        let values = self.buffers.values.as_slice();
        match (self.datatype.representation(), size) {
            (Signed, 1) => compare::<i8>(operator, values, value, result),
            (Signed, 2) => compare::<i16>(operator, values, value, result),
            (Signed, 4) => compare::<i32>(operator, values, value, result),
            (Signed, _) => compare::<i64>(operator, values, value, result),
            (Unsigned, 1) => compare::<u8>(operator, values, value, result),
            (Unsigned, 2) => compare::<u16>(operator, values, value, result),
            (Unsigned, 4) => compare::<u32>(operator, values, value, result),
            (Unsigned, _) => compare::<u64>(operator, values, value, result),
            (Float, 4) => compare::<f32>(operator, values, value, result),
            (Float, _) => compare::<f64>(operator, values, value, result),
        }
        Ok(())
    }

    /// Sets the result of null cells to `false`.
    fn clear_null(&self, result: &mut [bool]) {
        for (result, validity) in result.iter_mut().zip(&self.buffers.validity) {
            *result &= *validity != 0;
        }
    }
}

fn holds<T: PartialOrd>(operator: Operator, left: T, right: T) -> bool {
    match operator {
        Operator::Less => left < right,
        Operator::LessOrEqual => left <= right,
        Operator::Greater => left > right,
        Operator::GreaterOrEqual => left >= right,
        Operator::Equal => left == right,
        Operator::NotEqual => left != right,
    }
}

fn compare<T: Value>(operator: Operator, values: &[u8], value: &[u8], result: &mut [bool]) {
    let constant = T::from_le(value);
    let values = values.chunks_exact(size_of::<T>()).map(T::from_le);
    for (result, value) in result.iter_mut().zip(values) {
        *result = matches!((value, constant), (Some(a), Some(b)) if holds(operator, a, b));
    }
}
