//! `lag` and `lead`, which skip nulls correctly.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// DataFusion's `lag` or `lead`. Functions that look ahead and ignore nulls read whole partitions: row by row, DataFusion 55
/// loses track of the values after nulls.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    inner: Arc<WindowUDF>,
}

/// Returns `lag` and `lead` for a session.
pub(crate) fn shifts() -> [WindowUDF; 2] {
    [lag_udwf(), lead_udwf()].map(|inner| Shift { inner }.into())
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let ignores_nulls = arguments.ignore_nulls();
        let inner = self.inner.partition_evaluator_factory(arguments)?;
        Ok(match ignores_nulls && !inner.is_causal() {
            true => Box::new(OfWholePartition(inner)),
            false => inner,
        })
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.inner.field(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => {
                ReversedUDWF::Reversed(Arc::new(Self { inner }.into()))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

/// Evaluates a function for all rows of a partition at once.
#[derive(Debug)]
struct OfWholePartition(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for OfWholePartition {
    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)
    }
}
