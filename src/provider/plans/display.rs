//! Helpers for `DisplayAs` and for visiting expressions, shared by the operators of this crate.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::DisplayFormatType;

/// Writes an operator for EXPLAIN: its name and properties in one line, or in the tree format, one
/// property per line.
pub(crate) fn write_operator(
    name: &str,
    properties: &[String],
    t: DisplayFormatType,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    match t {
        DisplayFormatType::TreeRender => write!(f, "{}", properties.join("\n")),
        DisplayFormatType::Default | DisplayFormatType::Verbose => {
            write!(f, "{name}: {}", properties.join(", "))
        }
    }
}

/// Visits expressions until one visit returns [`TreeNodeRecursion::Stop`].
pub(crate) fn visit_all<'a>(
    expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    for expr in expressions {
        if visit(expr)? == TreeNodeRecursion::Stop {
            return Ok(TreeNodeRecursion::Stop);
        }
    }
    Ok(TreeNodeRecursion::Continue)
}
