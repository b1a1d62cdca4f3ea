//! Classifies filters, and turns them into the selection of a grid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;

use crate::grid::{Axis, IndexSet, Selection};
use crate::provider::planning::axis_filter::{evaluate, evaluate_constant};
use crate::provider::planning::product_mask::ProductMask;
use crate::provider::plans::conjunction::conjunction_opt;

/// Classifies a filter over a table with these dimensions.
///
/// A filter over one dimension is exact, since it is evaluated on the axis. A filter without
/// columns is exact too: DataFusion simplifies filters that it knows to be exact (`lat IS NULL`
/// becomes `false`). A filter over several dimensions, or over other columns, is inexact: it bounds
/// the selection, and DataFusion filters the rows again.
///
/// The result depends on this filter alone, since DataFusion asks several times with different sets
/// of filters.
pub(crate) fn classify(dimensions: &[&str], filter: &Expr) -> TableProviderFilterPushDown {
    if !can_be_evaluated(filter) {
        return TableProviderFilterPushDown::Unsupported;
    }
    if only_dimension(dimensions, filter).is_some() || filter.column_refs().is_empty() {
        TableProviderFilterPushDown::Exact
    } else {
        TableProviderFilterPushDown::Inexact
    }
}

/// The filters of a scan as physical expressions over the columns of its table.
#[derive(Debug, Default)]
pub(crate) struct ClassifiedFilters {
    /// Filters that [`classify`] calls exact: the scan applies them.
    pub exact: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters that [`classify`] calls inexact: DataFusion applies them to the scan's rows.
    pub inexact: Vec<Arc<dyn PhysicalExpr>>,
}

impl ClassifiedFilters {
    /// Classifies filters and converts them to physical expressions. Leaves out the filters that
    /// cannot be evaluated while planning.
    ///
    /// # Errors
    /// Returns an error if a filter has no physical expression over these columns.
    pub fn try_new(
        session: &dyn Session,
        table: &Schema,
        dimensions: &[&str],
        filters: &[Expr],
    ) -> Result<Self> {
        let schema = DFSchema::try_from(table.clone())?;
        let mut classified = Self::default();
        for filter in filters {
            let class = match classify(dimensions, filter) {
                TableProviderFilterPushDown::Exact => &mut classified.exact,
                TableProviderFilterPushDown::Inexact => &mut classified.inexact,
                TableProviderFilterPushDown::Unsupported => continue,
            };
            let filter = unnormalize_col(filter.clone());
            class.push(session.create_physical_expr(filter, &schema)?);
        }
        Ok(classified)
    }

    /// Returns all filters.
    pub fn all(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        [self.exact.as_slice(), &self.inexact].concat()
    }
}

/// The selection of a grid that results from filters over the columns of its table, of which the
/// first are the axes.
///
/// The columns of a filter decide how it is used, as in [`classify`]:
///
/// ```text
/// lat > 40               Exact        evaluated on axis lat         -> selection
/// 10 / lat > 1           Exact        fails on lat = 0, so tried
///                                     again after all others        -> selection, else residual
/// lat = 1 AND lon = 2                 bounding box of both sides:
///   OR lat = 3           Inexact      lat in {1, 3}, any lon        -> selection, and FilterExec
/// lon = 2 * lat          Inexact      evaluated on lat x lon, if
///                                     that is small against all
///                                     cells; rules out chunks too   -> selection, and FilterExec
/// value > 300            Inexact      not on an axis; statistics
///                                     prune blocks later            -> FilterExec
/// random() < 0.1         Unsupported                                -> FilterExec
/// ```
///
/// The scan applies the residual filters to its rows. `FilterExec` is DataFusion's filter above the
/// scan, which [`FilterPushdown`](crate::provider::rules::filter_pushdown::FilterPushdown) moves
/// into the scan. See [`prune_blocks`](crate::provider::planning::pruning::prune_blocks) for
/// pruning by statistics, and [`Pruner`](crate::provider::planning::pruning::Pruner) for dynamic
/// filters.
#[derive(Debug)]
pub(crate) struct Pushdown {
    /// A superset of the rows that satisfy all filters. Every selected row satisfies the exact
    /// filters, except the residual ones.
    pub selection: Selection,
    /// Predicates over several dimensions, which rule out chunks of the selection.
    pub products: Vec<ProductMask>,
    /// Exact filters that could not be evaluated on their axis. The scan must apply them to its
    /// rows.
    pub residual: Vec<Arc<dyn PhysicalExpr>>,
}

impl Pushdown {
    /// Evaluates filters on the axes. The filters must be deterministic.
    ///
    /// # Errors
    /// Returns an error if the coordinates of an axis that a filter uses cannot be read.
    pub fn try_new(axes: &[Axis], filters: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let shape: Vec<_> = axes.iter().map(Axis::length).collect();
        let mut selection = Selection::all(&shape);
        let mut failed = Vec::new();
        let mut inexact: Vec<&Arc<dyn PhysicalExpr>> = Vec::new();
        let mut residual = Vec::new();
        for filter in filters {
            if let Some(number) = only_column(filter).filter(|number| *number < axes.len()) {
                let all = IndexSet::all(axes[number].length());
                match evaluate(&axes[number], filter, &all)? {
                    Some(set) => selection.restrict(number, &set),
                    None => failed.push((number, filter)),
                }
            } else if collect_columns(filter).is_empty() {
                match evaluate_constant(filter) {
                    Some(true) => {}
                    Some(false) => selection = Selection::none(&shape),
                    None => residual.push(Arc::clone(filter)),
                }
            } else {
                if let Some(bound) = bound(axes, filter)? {
                    selection = selection.intersect(&bound);
                }
                inexact.push(filter);
            }
        }
        // A predicate that fails on some coordinates may succeed on those that the other filters
        // select.
        for (number, filter) in failed {
            match evaluate(&axes[number], filter, &selection.axes()[number])? {
                Some(set) => selection.restrict(number, &set),
                None => residual.push(Arc::clone(filter)),
            }
        }
        let mut products = Vec::new();
        let mut restrict = |filter: &Arc<dyn PhysicalExpr>| -> Result<bool> {
            let Some(product) = ProductMask::evaluate(axes, filter, &selection)? else {
                return Ok(false);
            };
            product.restrict(&mut selection);
            products.push(product);
            Ok(true)
        };
        // Filters over the same columns rule out more chunks together. If one of them fails, the
        // others are evaluated alone.
        for filters in by_columns(inexact) {
            let Some(all) = conjunction_opt(filters.iter().map(Arc::clone)) else {
                continue;
            };
            if !restrict(&all)? && filters.len() > 1 {
                for filter in &filters {
                    restrict(filter)?;
                }
            }
        }
        Ok(Self {
            selection,
            products,
            residual,
        })
    }
}

/// Groups filters by the columns that they refer to.
fn by_columns(filters: Vec<&Arc<dyn PhysicalExpr>>) -> Vec<Vec<Arc<dyn PhysicalExpr>>> {
    let mut groups: BTreeMap<BTreeSet<usize>, Vec<Arc<dyn PhysicalExpr>>> = BTreeMap::new();
    for filter in filters {
        let columns = collect_columns(filter);
        let columns = columns.iter().map(Column::index).collect();
        groups.entry(columns).or_default().push(Arc::clone(filter));
    }
    groups.into_values().collect()
}

/// Returns a selection that holds every row for which the predicate is true; `None` if the axes do
/// not bound the predicate.
fn bound(axes: &[Axis], predicate: &Arc<dyn PhysicalExpr>) -> Result<Option<Selection>> {
    if let Some(number) = only_column(predicate).filter(|number| *number < axes.len()) {
        let shape: Vec<_> = axes.iter().map(Axis::length).collect();
        let mut selection = Selection::all(&shape);
        let all = IndexSet::all(axes[number].length());
        let Some(set) = evaluate(&axes[number], predicate, &all)? else {
            return Ok(None);
        };
        selection.restrict(number, &set);
        return Ok(Some(selection));
    }
    let Some(binary) = predicate.downcast_ref::<BinaryExpr>() else {
        return Ok(None);
    };
    // The operands of any other operator are not predicates.
    if !matches!(binary.op(), Operator::And | Operator::Or) {
        return Ok(None);
    }
    let sides = [bound(axes, binary.left())?, bound(axes, binary.right())?];
    Ok(match (binary.op(), sides) {
        (Operator::And, [Some(left), Some(right)]) => Some(left.intersect(&right)),
        (Operator::And, [Some(one), None] | [None, Some(one)]) => Some(one),
        (Operator::Or, [Some(left), Some(right)]) => Some(left.bounding_union(&right)),
        _ => None,
    })
}

/// Returns the index of the only column that an expression refers to; `None` if the expression
/// refers to none or to several.
pub(crate) fn only_column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let columns = collect_columns(expr);
    let mut columns = columns.iter().map(Column::index);
    match (columns.next(), columns.next()) {
        (only, None) => only,
        _ => None,
    }
}

/// The index of the only dimension that an expression uses; `None` if the expression uses no
/// column, several dimensions, or any other column.
fn only_dimension(dimensions: &[&str], expr: &Expr) -> Option<usize> {
    let columns = expr.column_refs();
    let mut numbers = columns.iter().map(|column| {
        dimensions
            .iter()
            .position(|dimension| *dimension == column.name)
    });
    let first = numbers.next()??;
    numbers.all(|number| number == Some(first)).then_some(first)
}

/// Returns `true` if an expression can be evaluated while planning, with the same result every
/// time.
fn can_be_evaluated(expr: &Expr) -> bool {
    if expr.is_volatile() {
        return false;
    }
    let mut evaluable = true;
    let visited: Result<_> = expr.apply(|expr| {
        evaluable = match expr {
            Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_) => false,
            // DataFusion calls async functions only in an operator of their own.
            Expr::ScalarFunction(function) => function.func.as_async().is_none(),
            _ => true,
        };
        Ok(if evaluable {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    visited.is_ok() && evaluable
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::functions::math::random;
    use datafusion::logical_expr::{col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn axes() -> Vec<Axis> {
        vec![Axis::counted("x", 10), Axis::counted("y", 20)]
    }

    fn selected(filters: &[Expr]) -> (String, usize) {
        let session = SessionContext::new().state();
        let field = |name| Field::new(name, DataType::Int64, false);
        let table = Schema::new(vec![field("x"), field("y"), field("value")]);
        let filters = ClassifiedFilters::try_new(&session, &table, &["x", "y"], filters);
        let pushdown = Pushdown::try_new(&axes(), &filters.unwrap().all()).unwrap();
        (pushdown.selection.to_string(), pushdown.residual.len())
    }

    #[test]
    fn classes() {
        use TableProviderFilterPushDown::{Exact, Inexact, Unsupported};
        let volatile = random().call(vec![]).gt(lit(0.5));
        for (filter, expected) in [
            (col("x").gt(lit(1)), Exact),
            (col("t.x").gt(lit(1)).or(col("t.x").eq(lit(0))), Exact),
            (col("x").gt(col("y")), Inexact),
            (col("x").gt(lit(1)).or(col("y").gt(lit(1))), Inexact),
            (col("value").gt(lit(1)), Inexact),
            (volatile.clone(), Unsupported),
            (col("x").gt(lit(1)).and(volatile), Unsupported),
            (lit(true), Exact),
        ] {
            assert_eq!(classify(&["x", "y"], &filter), expected, "{filter}");
        }
    }

    #[test]
    fn conjunctions_multiply() {
        let filters = [col("x").lt(lit(3)), col("y").gt_eq(lit(15))];
        assert_eq!(selected(&filters), ("3 of 10, 5 of 20".into(), 0));
    }

    #[test]
    fn constants_select_all_or_nothing() {
        let all = || ("all, all".to_string(), 0);
        assert_eq!(selected(&[lit(true)]), all());
        let nothing = ("0 of 10, 0 of 20".to_string(), 0);
        for never in [lit(false), lit(ScalarValue::Boolean(None))] {
            assert_eq!(selected(&[col("x").lt(lit(3)), never]), nothing);
        }
        let failing = (lit(1) / lit(0)).eq(lit(1));
        assert_eq!(selected(&[failing]), ("all, all".to_string(), 1));
    }

    #[test]
    fn disjunctions_over_axes_bound() {
        let left = col("x").lt(lit(2)).and(col("y").lt(lit(2)));
        let right = col("x").eq(lit(9)).and(col("value").gt(lit(0)));
        assert_eq!(
            selected(&[left.clone().or(right)]),
            ("3 of 10, all".into(), 0)
        );
        assert_eq!(
            selected(&[left.or(col("value").gt(lit(0)))]),
            ("all, all".into(), 0)
        );
    }

    #[test]
    fn a_comparison_of_all_axes_bounds_nothing() {
        let diagonal = col("x").eq(col("y") + lit(1));
        assert_eq!(
            selected(std::slice::from_ref(&diagonal)),
            ("all, all".into(), 0)
        );
        assert_eq!(
            selected(&[diagonal.and(col("x").lt(lit(3)))]),
            ("3 of 10, all".into(), 0)
        );
    }

    #[test]
    fn conjuncts_over_the_same_dimensions_are_evaluated_together() {
        let axes = ["x", "y", "t"].map(|name| Axis::counted(name, 16));
        let filters = |filters: &[Expr]| {
            let field = |name| Field::new(name, DataType::Int64, false);
            let table = Schema::new(vec![field("x"), field("y"), field("t")]);
            let session = SessionContext::new().state();
            let filters = ClassifiedFilters::try_new(&session, &table, &["x", "y", "t"], filters);
            let pushdown = Pushdown::try_new(&axes, &filters.unwrap().all()).unwrap();
            (pushdown.selection.to_string(), pushdown.products.len())
        };
        let equal = || col("x").eq(col("y"));
        let sum = || (col("x") + col("y")).lt(lit(7));
        assert_eq!(
            filters(&[equal(), sum()]),
            ("4 of 16, 4 of 16, all".into(), 1)
        );
        // The division fails where x is y, so only the other predicate is used.
        let failing = (lit(1) / (col("x") - col("y"))).eq(lit(1));
        assert_eq!(
            filters(&[sum(), failing]),
            ("7 of 16, 7 of 16, all".into(), 1)
        );
    }

    #[test]
    fn a_failing_conjunct_is_tried_on_what_the_others_leave() {
        let fallible = (lit(10) / col("x")).gt(lit(1));
        assert_eq!(
            selected(&[fallible.clone(), col("x").not_eq(lit(0))]),
            ("5 of 10, all".into(), 0)
        );
        assert_eq!(selected(&[fallible]), ("all, all".into(), 1));
    }
}
