//! Encodes the operators of this crate as messages, and decodes them in another process.
//!
//! DataFusion encodes its own operators, and asks every other operator for its message. The message of
//! an operator of this crate is JSON, with names, numbers and
//! [recipes](crate::provider::source::recipe::Recipe), but without expressions. Expressions are encoded
//! by DataFusion: a `carrier`, which is a projection that is never run, holds them as an input of the
//! message:
//!
//! ```text
//! DataSourceExec: tet=t2m, ...      ->    extension: {"Scan": {"table": ..., "order": ...}}
//!                                           ProjectionExec: [time@0 > 3]          select
//!                                           ProjectionExec: [value@1 > 280]       filter
//!                                           ProjectionExec: [DynamicFilter]       dynamic filter
//!
//! ArrayAggregateExec: ...           ->    extension: {"Aggregate": {"stage": "Whole"}}
//!                                           AggregateExec: ...          the plan that it replaced
//!                                           ProjectionExec: [DynamicFilter]
//! ```
//!
//! Expressions cannot be part of the JSON: DataFusion restores dynamic filters that several operators
//! share, and references to scalar subqueries, only in the inputs of a message.

mod functions;
mod roots;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExtensionNode, PhysicalPlanNode};
use serde::{Deserialize, Serialize};

#[cfg(feature = "tatami")]
use crate::provider::adapters::tatami::search::EncodedSearch;
use crate::provider::aggregate::grouping_sets::grouping_sets;
use crate::provider::aggregate::plan::aggregation::Stage;
use crate::provider::aggregate::rule;
use crate::provider::catalog::reopen;
use crate::provider::functions::comparisons::similar_to::SimilarPattern;
use crate::provider::functions::nearest::NearestCoordinate;
use crate::provider::functions::nth_extreme::NthExtreme;
use crate::provider::functions::times::completed_times::CompletedTimes;
use crate::provider::functions::times::interval_length::IntervalLength;
use crate::provider::functions::times::interval_product::IntervalProduct;
use crate::provider::join::lookup;
use crate::provider::join::lookup::coordinate_term::CoordinateTerm;
use crate::provider::join::lookup::encoded::EncodedJoin;
use crate::provider::plans::identity::Identity;
use crate::provider::rules::batch_slices::{Slicing, batch_slices};
use crate::provider::rules::grouping_sets::groups_of_sets;
use crate::provider::rules::logic::NullWithoutMatch;
use crate::provider::rules::nested_loops::build_side;
use crate::provider::rules::windows::kept_rows::kept_rows;
use crate::provider::scan::encoded::EncodedScan;
use crate::provider::window;

pub use roots::Roots;
pub(in crate::provider) use roots::check_operators;

/// The version of this crate, which must be the same in both processes.
pub(in crate::provider) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Lets `datafusion-proto` encode and decode plans with operators of this crate.
///
/// Decoding opens the files of a plan by their paths, with the [formats](crate::FormatRegistry) of
/// the session that decodes the plan. Decode only plans from a trusted source: a plan can name any file
/// that the process can read. Decoding fails if a file was replaced or changed since the query was
/// planned; of a Zarr array, only changes of the metadata documents are noticed. Encode plans before they
/// run: what dynamic filters have learned is encoded, too.
///
/// Functions are looked up by name in the session that decodes the plan. A session prepared by
/// [`enable_arrays`](crate::enable_arrays) has all functions of this crate.
///
/// ```
/// # use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
/// use datafusion::physical_plan::collect;
/// use datafusion::prelude::SessionContext;
/// use datafusion_proto::bytes::{
///     physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
/// };
/// use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
/// use tet_sql::{ArrayOptions, ArrayPlanCodec, enable_arrays};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.tet");
/// # let spec = DatasetSpec::new("a", Dtype::U8, &[2, 3], &[2, 2]);
/// # let mut writer = TetWriter::create(&path, vec![spec])?;
/// # writer.write_dataset(0, &[1, 2, 3, 4, 5, 6])?;
/// # writer.finish()?;
/// # let sql = format!("SELECT sum(value) FROM '{}'", path.display());
/// let session = || enable_arrays(SessionContext::new(), ArrayOptions::new());
/// let plan = session().sql(&sql).await?.create_physical_plan().await?;
/// let (codec, converter) = (ArrayPlanCodec::new(), DeduplicatingProtoConverter {});
/// let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter)?;
///
/// // In another process:
/// let context = session().task_ctx();
/// let plan =
///     physical_plan_from_bytes_with_proto_converter(&bytes, &context, &codec, &converter)?;
/// let sum = collect(plan, context).await?;
/// # assert_eq!(sum[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ArrayPlanCodec {
    roots: Option<Arc<Roots>>,
}

impl ArrayPlanCodec {
    /// Creates a codec.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes only plans over files under these roots, whose other operators neither read nor write
    /// files.
    pub fn with_roots(self, roots: impl Into<Arc<Roots>>) -> Self {
        Self {
            roots: Some(roots.into()),
        }
    }
}

impl PhysicalExtensionCodec for ArrayPlanCodec {
    fn try_decode(
        &self,
        message: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message: Message = serde_json::from_slice(message)
            .map_err(|error| plan_datafusion_err!("cannot decode an operator: {error}"))?;
        if message.version != VERSION {
            return plan_err!(
                "the plan was encoded by tet-sql {}, but this is {VERSION}; use the same version",
                message.version
            );
        }
        let mut operator = message.operator;
        if let Some(roots) = &self.roots {
            inputs.iter().try_for_each(check_operators)?;
            match &mut operator {
                Operator::Scan(scan) => roots.admit(&mut scan.table)?,
                #[cfg(feature = "tatami")]
                Operator::Search(search) => {
                    let mut tables = search.tables.iter_mut();
                    tables.try_for_each(|table| roots.admit(table))?;
                }
                _ => {}
            }
        }
        let within = self.roots.as_ref();
        let within = within.map(|roots| roots.within(context.session_config()));
        let session = within.as_ref().unwrap_or(context.session_config());
        match (operator, inputs) {
            (Operator::Scan(scan), [select, filter, dynamic_filter]) => {
                let table = reopen::open(&scan.table, session)?;
                let expressions = [select, filter, dynamic_filter];
                Ok(scan.decode(table, expressions)?.into_exec())
            }
            (Operator::Aggregate { stage }, [replaced, dynamic_filter]) => {
                match rule::operator(replaced, stage)? {
                    Some(operator) => {
                        let filter = carried(dynamic_filter, &operator.table_schema())?.pop();
                        Ok(Arc::new(operator.with_dynamic_filter(filter)))
                    }
                    None => plan_err!("an encoded aggregation does not run in array space"),
                }
            }
            (Operator::LookupJoin(join), [replaced, build, probe, filter, groups, schema]) => {
                let config = context.session_config().options();
                let operator = lookup::rule::operator(replaced, config, join.is_filtered)?;
                let Some(operator) = operator else {
                    return plan_err!("an encoded join is not a lookup join");
                };
                let inputs = [build, probe, filter, groups, schema];
                Ok(Arc::new(operator.decode(&join, inputs)?))
            }
            (Operator::JoinAggregate { stage }, [replaced, join @ ..]) if join.len() < 2 => {
                let config = context.session_config().options();
                match (rule::over_join(replaced, stage, config)?, join) {
                    (Some(operator), []) => Ok(Arc::new(operator)),
                    (Some(operator), [join, ..]) => Ok(Arc::new(operator.over(Arc::clone(join)))),
                    (None, _) => {
                        plan_err!("an encoded aggregation over a join has no group numbers")
                    }
                }
            }
            (
                Operator::Window {
                    columns,
                    partitions,
                    max_ranks,
                },
                [replaced],
            ) => {
                let config = context.session_config().options();
                match window::plan::rule::operator(replaced, Some(&columns), config)? {
                    Some(operator) => {
                        let operator = operator.with_partitions(partitions);
                        Ok(Arc::new(operator.with_max_ranks(max_ranks.into_iter())?))
                    }
                    None => plan_err!("an encoded window does not lie along an axis"),
                }
            }
            #[cfg(feature = "tatami")]
            (Operator::Search(search), [filter]) => {
                let tables = search
                    .tables
                    .iter()
                    .map(|table| reopen::open(table, session));
                let tables = tables.collect::<Result<Vec<_>>>()?;
                Ok(search.decode(tables, filter)?.into_exec())
            }
            (Operator::BuildSide { restarts }, [input]) => {
                Ok(build_side(Arc::clone(input), restarts))
            }
            (Operator::GroupingSets, [replaced]) => match grouping_sets(replaced)? {
                Some(operator) => Ok(Arc::new(operator)),
                None => plan_err!("encoded grouping sets do not run in array space"),
            },
            (Operator::GroupsOfSets, [input]) => Ok(groups_of_sets(Arc::clone(input))),
            (Operator::KeptRows { result_width }, [input]) => {
                Ok(kept_rows(Arc::clone(input), result_width))
            }
            (Operator::BatchSlices(slicing), [input]) => {
                Ok(batch_slices(Arc::clone(input), slicing))
            }
            (operator, inputs) => plan_err!(
                "an encoded operator has an unexpected number of inputs, {}: {operator:?}",
                inputs.len()
            ),
        }
    }

    /// Encodes functions that a session cannot look up by name, because they hold data of the plan.
    fn try_encode_udf(&self, function: &ScalarUDF, message: &mut Vec<u8>) -> Result<()> {
        if let Some(nearest) = function.inner().downcast_ref::<NearestCoordinate>() {
            *message = functions::encode_nearest(nearest)?;
        } else if let Some(term) = function.inner().downcast_ref::<CoordinateTerm>() {
            *message = functions::encode_terms(term)?;
        }
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, message: &[u8]) -> Result<Arc<ScalarUDF>> {
        if name == CompletedTimes::NAME {
            return Ok(Arc::new(CompletedTimes::new().into()));
        }
        if name == IntervalProduct::NAME {
            return Ok(Arc::new(IntervalProduct::new().into()));
        }
        if let Some(identity) = Identity::of_name(name) {
            return Ok(Arc::new(identity.into()));
        }
        if name == NullWithoutMatch::NAME {
            return Ok(Arc::new(NullWithoutMatch::new().into()));
        }
        if name == SimilarPattern::NAME {
            return Ok(Arc::new(SimilarPattern::new().into()));
        }
        if let Some(length) = IntervalLength::of_name(name) {
            return Ok(Arc::new(length.into()));
        }
        if message.is_empty() {
            return plan_err!("the session has no function {name}; prepare it with enable_arrays");
        }
        if name == CoordinateTerm::NAME {
            return Ok(Arc::new(functions::decode_terms(message)?.into()));
        }
        Ok(Arc::new(functions::decode_nearest(name, message)?.into()))
    }

    fn try_decode_udaf(&self, name: &str, _message: &[u8]) -> Result<Arc<AggregateUDF>> {
        match NthExtreme::of_name(name) {
            Some(function) => Ok(Arc::new(function.into())),
            None => {
                plan_err!("the session has no function {name}; prepare it with enable_arrays")
            }
        }
    }

    /// Fails: the operators of this crate encode themselves.
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        _message: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        not_impl_err!("{} cannot be encoded", node.name())
    }
}

/// The message of an operator, encoded as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    version: String,
    operator: Operator,
}

/// An operator without its expressions and inputs.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::provider) enum Operator {
    Scan(Box<EncodedScan>),
    Aggregate {
        stage: Stage,
    },
    BuildSide {
        restarts: bool,
    },
    JoinAggregate {
        stage: Stage,
    },
    BatchSlices(Slicing),
    GroupingSets,
    GroupsOfSets,
    KeptRows {
        result_width: usize,
    },
    LookupJoin(EncodedJoin),
    Window {
        columns: Vec<usize>,
        partitions: usize,
        max_ranks: Vec<(usize, u32)>,
    },
    #[cfg(feature = "tatami")]
    Search(Box<EncodedSearch>),
}

impl Operator {
    /// Returns the message as a plan node with these inputs.
    pub fn encode(self, inputs: Vec<PhysicalPlanNode>) -> Result<PhysicalPlanNode> {
        let message = Message {
            version: VERSION.to_string(),
            operator: self,
        };
        let node = serde_json::to_vec(&message)
            .map_err(|error| plan_datafusion_err!("cannot encode an operator: {error}"))?;
        let extension = PhysicalExtensionNode { node, inputs };
        Ok(PhysicalPlanNode {
            physical_plan_type: Some(PhysicalPlanType::Extension(extension)),
        })
    }
}

/// Returns a plan that carries expressions over rows of this schema: a projection without rows, which
/// is encoded as an input of a message and never run.
pub(crate) fn carrier<'a>(
    expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let expressions = expressions.into_iter().enumerate();
    let named = expressions.map(|(number, expr)| ProjectionExpr {
        expr: Arc::clone(expr),
        alias: number.to_string(),
    });
    let rows = Arc::new(EmptyExec::new(Arc::clone(schema)));
    Ok(Arc::new(ProjectionExec::try_new(named, rows)?))
}

/// Returns the expressions of a [`carrier`], which must be over rows of this schema.
pub(crate) fn carried(
    plan: &Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) if projection.input().schema() == *schema => {
            let expressions = projection.expr().iter();
            Ok(expressions.map(|named| Arc::clone(&named.expr)).collect())
        }
        _ => plan_err!("the expressions of an encoded operator do not match its table"),
    }
}
