//! What the columns of a table are, for those who compute aggregates of them.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use crate::provider::aggregate::plan::program::value_of;
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::source::{CellFormat, GridPart};

/// What is known of the columns of a table.
pub(crate) struct Columns {
    /// How many of them are dimensions, ahead of all others.
    pub dimensions: usize,
    /// How the cells of each attribute are stored, where that can be used.
    pub formats: Vec<Option<CellFormat>>,
    /// Whether an attribute may have nulls.
    pub may_have_nulls: Vec<bool>,
}

impl Columns {
    /// What holds of the columns in all parts of a table.
    pub fn of(parts: &[GridPart], options: &ReadOptions) -> Self {
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

    /// The number of the attribute that a column is.
    pub fn attribute(&self, column: usize) -> Option<usize> {
        let attribute = column.checked_sub(self.dimensions)?;
        (attribute < self.formats.len()).then_some(attribute)
    }

    /// How the cells of a column are stored, where that can be used.
    pub fn format(&self, column: usize) -> Option<CellFormat> {
        self.formats[self.attribute(column)?]
    }

    /// Whether none of these expressions is null in any row, as far as that is plain to see.
    pub fn are_never_null(&self, expressions: &[Arc<dyn PhysicalExpr>]) -> bool {
        expressions.iter().all(|expr| {
            match (expr.downcast_ref::<Literal>(), value_of(expr)) {
                (Some(literal), _) => !literal.value().is_null(),
                (None, Some((column, None))) => match self.attribute(column) {
                    Some(attribute) => !self.may_have_nulls[attribute],
                    // Dimensions, and the file.
                    None => true,
                },
                // A cast may fail.
                (None, _) => false,
            }
        })
    }
}
