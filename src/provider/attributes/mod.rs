//! Attributes of columns: units, long names, and the marks for dimensions and for values of a
//! dataset.
//!
//! Tables and results have attributes, but schemas inside a plan do not. DataFusion 55 merges field
//! metadata differently when it plans a union and when it runs one, and then refuses to aggregate
//! over a union of two arrays that differ only in an attribute. The attributes therefore bypass the
//! plan:
//!
//! ```text
//! tables     ArrayTable declares a plain schema, PlainTable hides the metadata of others
//!              │
//! analyzer   ResultAttributes derives the result's attributes from the tables (`lineage`)
//!              │
//! planner    AttributedResults puts them on top of the finished plan
//! ```

mod lineage;
mod plain_table;
mod planner;
mod rule;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

use crate::provider::attributes::plain_table::PlainTable;
pub(super) use crate::provider::attributes::planner::AttributedResults;
pub(super) use crate::provider::attributes::rule::ResultAttributes;
use crate::provider::catalog::table::ArrayTable;
#[cfg(feature = "parquet")]
use crate::provider::parquet;
use crate::provider::source::DIMENSION;

/// The prefix of metadata that belongs to a column's type. Plans need it, so it is no attribute.
const OF_TYPE: &str = "ARROW:extension:";

/// Returns the schema of a table or view, with the attributes of its columns as field metadata.
///
/// [`TableProvider::schema`] of an [`ArrayTable`] omits them, because DataFusion does not allow the
/// branches of a union to differ in metadata.
pub fn annotated_schema(table: &dyn TableProvider) -> SchemaRef {
    if let Some(array) = table.downcast_ref::<ArrayTable>() {
        return Arc::clone(array.source().schema());
    }
    if let Some(plain) = table.downcast_ref::<PlainTable>() {
        return annotated_schema(plain.inner().as_ref());
    }
    #[cfg(feature = "parquet")]
    if let Some(schema) = parquet::annotated_schema(table) {
        return schema;
    }
    match table.get_logical_plan() {
        Some(view) => result_schema(&view),
        None => table.schema(),
    }
}

/// Returns the schema of a query's result, with the attributes of its columns as field metadata.
///
/// In a session that [`enable_arrays`](crate::enable_arrays) has set up, the batches of the result have
/// the same metadata.
pub fn result_schema(plan: &LogicalPlan) -> SchemaRef {
    let coerced = coerced_unions(plan);
    let schema = coerced.as_ref().unwrap_or(plan).schema().as_arrow();
    if !rule::is_query(plan) {
        return Arc::new(schema.clone());
    }
    let attributes = lineage::of_plan(plan);
    let fields = schema.fields().iter().zip(&attributes);
    let fields = fields.map(|(field, attributes)| {
        let mut metadata = field.metadata().clone();
        let attributes = attributes.inner().iter();
        metadata.extend(attributes.map(|(key, text)| (key.clone(), text.clone())));
        Arc::new(field.as_ref().clone().with_metadata(metadata))
    });
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// Returns `true` if an expression over the columns of a plan is a dimension of an array.
pub(super) fn is_dimension(plan: &LogicalPlan, expression: &Expr) -> bool {
    let attributes = lineage::Input::of(plan, 0).expression(expression);
    attributes.inner().contains_key(DIMENSION)
}

/// Returns the plan after type coercion if it contains a union, and `None` otherwise.
///
/// Before type coercion, DataFusion gives the columns of a union the types of its first query. A
/// plan that cannot be coerced fails when it runs.
fn coerced_unions(plan: &LogicalPlan) -> Option<LogicalPlan> {
    let mut has_union = false;
    plan.apply_with_subqueries(|node| {
        has_union |= matches!(node, LogicalPlan::Union(_));
        Ok(match has_union {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })
    .ok()?;
    let coercion = has_union.then(TypeCoercion::new)?;
    coercion
        .analyze(plan.clone(), &ConfigOptions::default())
        .ok()
}

/// Returns the schema without attributes.
pub(super) fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| {
        if is_plain(field) {
            return Arc::clone(field);
        }
        let mut metadata = field.metadata().clone();
        metadata.retain(|key, _| key.starts_with(OF_TYPE));
        Arc::new(field.as_ref().clone().with_metadata(metadata))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns `true` if the schema or one of its columns has an attribute.
fn has_attributes(schema: &Schema) -> bool {
    !schema.metadata().is_empty() || !schema.fields().iter().all(|field| is_plain(field))
}

fn is_plain(field: &Field) -> bool {
    field.metadata().keys().all(|key| key.starts_with(OF_TYPE))
}
