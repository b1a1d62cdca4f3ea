//! Properties of a table's columns that decide how an aggregate can be computed.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};

use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{CellFormat, GridSelection};

/// The properties of a table's columns, valid for all of its grids.
pub(crate) struct Columns {
    /// The number of dimensions, which are the first columns.
    pub dimensions: usize,
    /// For each attribute, the storage format of its cells, if cells can be reduced as stored.
    pub formats: Vec<Option<CellFormat>>,
    /// For each attribute, `true` if it may contain nulls.
    pub may_have_nulls: Vec<bool>,
}

impl Columns {
    /// Returns the properties that hold in all grids of a table.
    pub fn of(parts: &[GridSelection], options: &ReadOptions) -> Self {
        let first = parts.first().map(|part| &part.grid);
        let attributes = first.map_or(0, |grid| grid.attributes().len());
        let format = |attribute: usize| -> Option<CellFormat> {
            let mut formats = parts
                .iter()
                .map(|part| part.grid.cell_format(attribute, options));
            let first = formats.next()??;
            formats.all(|other| other == Some(first)).then_some(first)
        };
        let may_have_nulls = |attribute: usize| {
            let mut grids = parts.iter().map(|part| &part.grid);
            grids.any(|grid| grid.may_have_nulls(attribute, options))
        };
        Self {
            dimensions: first.map_or(0, |grid| grid.axes().len()),
            formats: (0..attributes).map(format).collect(),
            may_have_nulls: (0..attributes).map(may_have_nulls).collect(),
        }
    }

    /// Returns the index of the attribute that a column stands for.
    pub fn attribute(&self, column: usize) -> Option<usize> {
        let attribute = column.checked_sub(self.dimensions)?;
        (attribute < self.formats.len()).then_some(attribute)
    }

    /// Returns the storage format of a column's cells, if cells can be reduced as stored.
    pub fn format(&self, column: usize) -> Option<CellFormat> {
        self.formats[self.attribute(column)?]
    }

    /// Returns `true` if none of these expressions can be null: literals, dimensions, the file
    /// column, and attributes without nulls.
    pub fn are_never_null(&self, expressions: &[Arc<dyn PhysicalExpr>]) -> bool {
        expressions.iter().all(|expr| {
            match (expr.downcast_ref::<Literal>(), value_of(expr)) {
                (Some(literal), _) => !literal.value().is_null(),
                (None, Some((column, None))) => match self.attribute(column) {
                    Some(attribute) => !self.may_have_nulls[attribute],
                    // Dimensions and the file column are never null.
                    None => true,
                },
                // A cast may fail.
                (None, _) => false,
            }
        })
    }
}

/// Returns the index of the column that an expression refers to and the type it is cast to; `None`
/// unless the expression is a column or a cast of one.
pub(crate) fn value_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Option<DataType>)> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => {
            let column = cast.expr().downcast_ref::<Column>()?;
            Some((column.index(), Some(cast.cast_type().clone())))
        }
        None => Some((expr.downcast_ref::<Column>()?.index(), None)),
    }
}
