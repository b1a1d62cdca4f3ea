//! The analyzer rule that keeps attributes out of plans and adds them to results.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{MapBuilder, StringBuilder};
use arrow::datatypes::FieldRef;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScanBuilder, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::attributes::has_attributes;
use crate::provider::attributes::lineage::{self, Input};
use crate::provider::attributes::plain_table::PlainTable;
use crate::provider::rules::names::change_expressions;

/// The DataFusion function that reads an attribute of a column.
const READER: &str = "arrow_metadata";

/// An analyzer rule for the attributes of columns.
///
/// - Gives the columns of a query's result, and those that `COPY` writes, the attributes of the
///   columns they are derived from.
/// - Reads tables whose schemas have attributes through a [`PlainTable`].
/// - Evaluates calls of `arrow_metadata`, which would find no metadata in the plan.
#[derive(Debug, Default)]
pub(crate) struct ResultAttributes;

impl AnalyzerRule for ResultAttributes {
    fn name(&self) -> &str {
        "result_attributes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = answer_readers(plan)?;
        let attributes = match target(&plan) {
            Some(query) => lineage::of_plan(query),
            None => Vec::new(),
        };
        let plan = read_plainly(plan)?;
        annotate(plan, attributes)
    }
}

/// Returns `true` if the plan is a query, whose result has rows.
pub(super) fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Extension(_)
    )
}

/// Returns the query whose result gets attributes.
fn target(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Copy(copy) => Some(&copy.input),
        query if is_query(query) => Some(query),
        _ => None,
    }
}

/// Puts attributes on the columns of the target.
fn annotate(plan: LogicalPlan, attributes: Vec<FieldMetadata>) -> Result<LogicalPlan> {
    let plan = match plan {
        LogicalPlan::Copy(mut copy) => {
            let input = Arc::unwrap_or_clone(copy.input);
            copy.input = Arc::new(annotate(input, attributes)?);
            return Ok(LogicalPlan::Copy(copy));
        }
        query if is_query(&query) => query,
        other => return Ok(other),
    };
    let is_there = |(field, attributes): (&FieldRef, &FieldMetadata)| {
        let mut wanted = attributes.inner().iter();
        wanted.all(|(key, text)| field.metadata().get(key) == Some(text))
    };
    if plan.schema().fields().iter().zip(&attributes).all(is_there) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().zip(attributes);
    let columns = columns.map(|((table, field), attributes)| {
        let column = Expr::Column(Column::new(table.cloned(), field.name()));
        match attributes.is_empty() {
            true => column,
            false => {
                column.alias_qualified_with_metadata(table.cloned(), field.name(), Some(attributes))
            }
        }
    });
    let columns = columns.collect();
    let plan = Arc::new(plan);
    // Fails for columns with equal names, which the projection cannot distinguish. They stay
    // without attributes.
    match Projection::try_new(columns, Arc::clone(&plan)) {
        Ok(projection) => Ok(LogicalPlan::Projection(projection)),
        Err(_) => Ok(Arc::unwrap_or_clone(plan)),
    }
}

/// Puts a [`PlainTable`] in front of each table whose schema has attributes.
fn read_plainly(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Dml(_) = plan {
        return Ok(plan);
    }
    let mut is_needed = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            is_needed |= has_attributes(&scan.source.schema());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !is_needed {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(mut scan) if has_attributes(&scan.source.schema()) => {
            let Ok(table) = source_as_provider(&scan.source) else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            scan.source = provider_as_source(Arc::new(PlainTable::new(table)));
            let scan = TableScanBuilder::from(scan).build()?;
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        // DataFusion does not recompute the schema of a union.
        LogicalPlan::Union(union) => {
            let schema = without_attributes(&union.schema)?;
            let inputs = union.inputs;
            Ok(Transformed::yes(LogicalPlan::Union(Union {
                inputs,
                schema,
            })))
        }
        node => Ok(Transformed::yes(node.recompute_schema()?)),
    })?;
    Ok(plan.data)
}

/// Returns a schema without the metadata of its columns.
fn without_attributes(schema: &DFSchema) -> Result<DFSchemaRef> {
    let columns = schema.iter().map(|(table, field)| {
        let field = field.as_ref().clone().with_metadata(HashMap::new());
        (table.cloned(), Arc::new(field))
    });
    let metadata = schema.metadata().clone();
    let plain = DFSchema::new_with_metadata(columns.collect(), metadata)?;
    Ok(Arc::new(plain))
}

/// Replaces calls of `arrow_metadata` by their results.
fn answer_readers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_needed = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            is_needed |= expression.exists(|one| Ok(is_reader(one)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !is_needed {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        let inputs = node.inputs();
        let [below] = inputs.as_slice() else {
            return Ok(Transformed::no(node));
        };
        let below = Input::of(below, 0);
        change_expressions(node, |expression| {
            expression.transform_up(|one| answer(one, &below))
        })
    })?;
    match plan.transformed {
        true => plan.data.recompute_schema(),
        false => Ok(plan.data),
    }
}

fn is_reader(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == READER)
}

/// Replaces one call. If the column has no attributes, the call stays and reads the metadata in the
/// plan.
fn answer(expression: Expr, below: &Input) -> Result<Transformed<Expr>> {
    let arguments = match &expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == READER => args,
        _ => return Ok(Transformed::no(expression)),
    };
    let attributes = arguments.first().map(|one| below.expression(one));
    let attributes = attributes.unwrap_or_default();
    let answer = match arguments.as_slice() {
        _ if attributes.is_empty() => None,
        [_] => Some(map(&attributes)?),
        [_, Expr::Literal(key, _)] => key.try_as_str().flatten().map(|key| {
            let text = attributes.inner().get(key);
            ScalarValue::Utf8(text.cloned())
        }),
        _ => None,
    };
    Ok(match answer {
        Some(value) => Transformed::yes(Expr::Literal(value, None)),
        None => Transformed::no(expression),
    })
}

/// Returns the attributes as a SQL map.
fn map(attributes: &FieldMetadata) -> Result<ScalarValue> {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (key, text) in attributes.inner() {
        map.keys().append_value(key);
        map.values().append_value(text);
    }
    map.append(true)?;
    ScalarValue::try_from_array(&map.finish(), 0)
}
