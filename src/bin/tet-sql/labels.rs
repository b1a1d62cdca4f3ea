//! Labels of axes: those that a statement asks for in vain.

use crate::nearest::nearest;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::ArrayFormatter;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use std::collections::BTreeSet;
use tet_sql::ArrayTable;
use tet_sql::grid::Axis;

/// Axes of more labels are not searched.
const MOST_LABELS: u64 = 1 << 16;

/// What is worth saying about the labels that a plan compares dimensions with: rows of one that is not there are none,
/// which looks as if nothing had been measured.
pub fn hints(plan: &LogicalPlan) -> Vec<String> {
    let mut tables = Vec::new();
    let mut wanted = BTreeSet::new();
    // What cannot be looked at has nothing to be said about.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            tables.push(provider);
        }
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                collect(expression, &mut wanted);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    let axes: Vec<&Axis> = tables
        .iter()
        .filter_map(|table| table.downcast_ref::<ArrayTable>()?.source().as_grid())
        .flat_map(|grid| grid.axes())
        .collect();
    let hints = wanted.iter().filter_map(|(dimension, label)| {
        let mut all = Vec::new();
        for axis in axes.iter().filter(|axis| axis.name() == dimension) {
            all.extend(of_axis(axis)?);
        }
        if all.is_empty() || all.contains(label) {
            return None;
        }
        let meant = match nearest(label, all.iter().map(String::as_str)) {
            Some(meant) => format!("; did you mean '{meant}'?"),
            None => String::new(),
        };
        Some(format!("no label '{label}' on {dimension}{meant}"))
    });
    hints.collect()
}

/// Notes a comparison of a column with a text.
fn collect(expression: &Expr, wanted: &mut BTreeSet<(String, String)>) {
    let mut note = |column: &Expr, text: &Expr| {
        if let (Expr::Column(column), Some(text)) = (column, text_of(text)) {
            wanted.insert((column.name.clone(), text));
        }
    };
    match expression {
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            note(&binary.left, &binary.right);
            note(&binary.right, &binary.left);
        }
        Expr::InList(list) if !list.negated => {
            for text in &list.list {
                note(&list.expr, text);
            }
        }
        _ => {}
    }
}

fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => Some(text.clone()),
        _ => None,
    }
}

/// The labels of an axis of text, if they are not too many.
pub fn of_axis(axis: &Axis) -> Option<Vec<String>> {
    let is_text = matches!(
        axis.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    if !is_text || axis.length() > MOST_LABELS {
        return None;
    }
    let labels: ArrayRef = axis.coordinates().ok()?.slice(0..axis.length());
    texts(&labels).ok()
}

fn texts(labels: &ArrayRef) -> Result<Vec<String>, DataFusionError> {
    let formatter = ArrayFormatter::try_new(labels.as_ref(), &Default::default())?;
    let texts = (0..labels.len()).map(|place| Ok(formatter.value(place).try_to_string()?));
    texts.collect()
}
