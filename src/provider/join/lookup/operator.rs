//! The physical operator of lookup joins.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, JoinSide, JoinType, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::joins::utils::JoinOn;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt};

#[cfg(feature = "proto")]
use {
    arrow::datatypes::Schema, datafusion::physical_plan::proto::ExecutionPlanEncodeCtx,
    datafusion_proto::protobuf::PhysicalPlanNode,
};

use crate::provider::join::lookup::build::{BuildNeeds, BuildSide, Matching};
use crate::provider::join::lookup::conditions::run_matches::Line;
use crate::provider::join::lookup::grouped::{BuildGroups, GROUP_NUMBER};
use crate::provider::join::lookup::probe::{JoinOutput, Probe};
use crate::provider::plans::display::{visit_all, write_operator};

/// Joins any table, the build side, with an array, the probe side, whose join keys are expressions
/// over its dimensions. No row of the array is hashed: the scan of the array computes a key index
/// for each cell, by which the operator finds the matching rows of the build side.
///
/// EXPLAIN shows the keys, the number of key indices, and the two inputs:
///
/// ```text
/// ArrayLookupJoinExec: join_type=Inner, on=[(lat@0, lat@1), (hour@1, date_part(hour, time@0))], key_indices=450, projection=[build.mean, probe.value]
///   AggregateExec: ...
///   DataSourceExec: tet=t2m, slice=[time: all, lat: all], chunks=4 of 4, projection=[time, lat, value, key_index]
/// ```
///
/// The rows of the build side and the table from key indices to rows are kept in memory, which is
/// reserved in the memory pool. All partitions share them.
#[derive(Debug)]
pub struct ArrayLookupJoinExec {
    /// The build side and the probe side.
    inputs: [Arc<dyn ExecutionPlan>; 2],
    spec: Arc<LookupSpec>,
    /// The dynamic filter on the probe side's scan, updated once the build side is collected.
    dynamic_filter: Option<Arc<DynamicFilterPhysicalExpr>>,
    properties: Arc<PlanProperties>,
    build: Arc<OnceLock<SharedBuild>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The build side, collected by the first partition that needs it. All partitions get the same
/// result or error, because some plans cannot be run twice.
type SharedBuild = Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// The properties that all copies of a lookup join share.
#[derive(Debug, Clone)]
pub(super) struct LookupSpec {
    pub output: Arc<JoinOutput>,
    pub matching: Arc<Matching>,
    /// The keys of the build side over its columns, each with the key of the probe side over the
    /// columns of the array's table.
    pub on: JoinOn,
    /// The keys of the probe side, or the dimensions of the conditions, over the columns of its scan,
    /// and the schema of the scan; `None` without a dynamic filter.
    pub filtered: Option<(Vec<Arc<dyn PhysicalExpr>>, SchemaRef)>,
    /// The grouping expressions over the columns of the build side. If there are any, the rows of the
    /// build side get a group number, as one more column.
    pub build_groups: Vec<Arc<dyn PhysicalExpr>>,
    pub schema: SchemaRef,
    /// DataFusion's plan of the same join, from which the codec recreates the operator.
    pub replaced: Arc<dyn ExecutionPlan>,
}

impl LookupSpec {
    /// Returns `true` if every output row has a row of the probe side, and whether that row is output does
    /// not depend on other rows of the probe side. The other kinds of joins return rows of the build side
    /// at the end.
    fn keeps_probe_rows(&self) -> bool {
        matches!(
            self.output.join_type,
            JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti
        )
    }

    /// Returns, for each of `count` columns of the build side, `true` if it is needed for more than its keys.
    fn build_columns(&self, count: usize) -> Vec<bool> {
        let needs_all = !self.build_groups.is_empty()
            || matches!(self.matching.as_ref(), Matching::Conditions(_));
        let mut needed = vec![needs_all; count];
        let filter = self.output.filter.iter();
        let columns = filter.flat_map(|filter| filter.column_indices());
        for column in self.output.columns.iter().chain(columns) {
            if column.side == JoinSide::Left
                && let Some(needed) = needed.get_mut(column.index)
            {
                *needed = true;
            }
        }
        needed
    }

    /// Returns each output column as a column of one input, or `None` for columns of the other
    /// input.
    fn columns_of_input(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        side: JoinSide,
    ) -> Vec<Option<Arc<dyn PhysicalExpr>>> {
        let schema = input.schema();
        let columns = self.output.columns.iter().map(|column| {
            // The group number of the build side is not a column of the input.
            let field = schema.fields().get(column.index);
            let field = field.filter(|_| column.side == side)?;
            Some(Arc::new(Column::new(field.name(), column.index)) as _)
        });
        columns.collect()
    }
}

#[cfg(feature = "proto")]
impl LookupSpec {
    /// Returns the schema to which the columns of the dynamic filter refer; empty without a filter.
    pub fn filter_schema(&self) -> SchemaRef {
        let filtered = self.filtered.as_ref();
        filtered.map_or_else(
            || Arc::new(Schema::empty()),
            |(_, schema)| Arc::clone(schema),
        )
    }
}

impl ArrayLookupJoinExec {
    pub(super) fn new(
        inputs: [Arc<dyn ExecutionPlan>; 2],
        spec: Arc<LookupSpec>,
        dynamic_filter: Option<Arc<DynamicFilterPhysicalExpr>>,
    ) -> Self {
        let properties = PlanProperties::new(
            order_of_probe_rows(&inputs[1], &spec),
            Partitioning::UnknownPartitioning(inputs[1].output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            inputs,
            spec,
            dynamic_filter,
            properties: Arc::new(properties),
            build: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns each output column as a column of one input, or `None` for columns of the other
    /// input.
    pub(in crate::provider) fn columns_of_input(
        &self,
        number: usize,
    ) -> Vec<Option<Arc<dyn PhysicalExpr>>> {
        let side = [JoinSide::Left, JoinSide::Right][number];
        self.spec.columns_of_input(&self.inputs[number], side)
    }

    /// Returns the kind of join.
    pub(in crate::provider) fn join_type(&self) -> JoinType {
        self.spec.output.join_type
    }

    /// Returns `true` if the join returns the rows of each partition of the probe side in their order,
    /// each once per match, and no others.
    pub(in crate::provider) fn keeps_probe_rows(&self) -> bool {
        self.spec.keeps_probe_rows()
    }

    /// Returns the build side and the probe side.
    pub(in crate::provider) fn inputs(&self) -> &[Arc<dyn ExecutionPlan>; 2] {
        &self.inputs
    }

    /// Returns the metrics of one partition.
    pub(super) fn baseline(&self, partition: usize) -> BaselineMetrics {
        BaselineMetrics::new(&self.metrics, partition)
    }

    pub(super) fn spec(&self) -> &LookupSpec {
        &self.spec
    }

    pub(super) fn dynamic_filter(&self) -> Option<&Arc<DynamicFilterPhysicalExpr>> {
        self.dynamic_filter.as_ref()
    }

    /// Returns the groups of the build side's rows, after collecting the build side unless that is
    /// done; `None` without grouping expressions over the build side, and if one fails on a row.
    pub(in crate::provider) async fn build_groups(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Arc<BuildGroups>>> {
        let build = self.build_side(context, false).await;
        let build = build.map_err(DataFusionError::Shared)?;
        Ok(build.groups.as_ref().map(Arc::clone))
    }

    /// Returns the build side, which the first caller collects. If `keeps_runs` is true for that caller, the matches of
    /// conditions are runs.
    pub(super) fn build_side(&self, context: &Arc<TaskContext>, keeps_runs: bool) -> SharedBuild {
        let build = self.build.get_or_init(|| {
            let (inputs, spec) = (self.inputs.clone(), Arc::clone(&self.spec));
            let (context, metrics) = (Arc::clone(context), self.metrics.clone());
            let dynamic_filter = self.dynamic_filter.as_ref().map(Arc::clone);
            let collected = async move {
                let filter = dynamic_filter.as_ref();
                let build = collect(&inputs, &spec, filter, keeps_runs, context, &metrics).await;
                build.map_err(Arc::new)
            };
            collected.boxed().shared()
        });
        build.clone()
    }

    /// Returns DataFusion's plan of the same join.
    pub(super) fn replaced(&self) -> &Arc<dyn ExecutionPlan> {
        &self.spec.replaced
    }
}

/// Returns the order of the probe side's rows, over the output columns, if the join keeps it.
fn order_of_probe_rows(probe: &Arc<dyn ExecutionPlan>, spec: &LookupSpec) -> EquivalenceProperties {
    let schema = Arc::clone(&spec.schema);
    if !spec.keeps_probe_rows() {
        return EquivalenceProperties::new(schema);
    }
    let columns = spec.columns_of_input(probe, JoinSide::Right).into_iter();
    let mapping = columns.enumerate().filter_map(|(index, column)| {
        let output = Column::new(schema.fields().get(index)?.name(), index);
        let targets: Vec<(Arc<dyn PhysicalExpr>, usize)> = vec![(Arc::new(output), index)];
        Some((column?, targets.into()))
    });
    let mapping: ProjectionMapping = mapping.collect();
    probe.equivalence_properties().project(&mapping, schema)
}

/// Collects the build side and updates the dynamic filter with the bounds of its keys.
async fn collect(
    inputs: &[Arc<dyn ExecutionPlan>; 2],
    spec: &LookupSpec,
    dynamic_filter: Option<&Arc<DynamicFilterPhysicalExpr>>,
    keeps_runs: bool,
    context: Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> Result<Arc<BuildSide>> {
    let mut build = Arc::clone(&inputs[0]);
    if build.output_partitioning().partition_count() > 1 {
        build = Arc::new(CoalescePartitionsExec::new(build));
    }
    let memory = MemoryConsumer::new("ArrayLookupJoin").register(context.memory_pool());
    let tracks_matches = spec.output.tracks_matches();
    let needs = BuildNeeds {
        columns: spec.build_columns(build.schema().fields().len()),
        tracks_matches,
        exact_rows: tracks_matches || !spec.build_groups.is_empty(),
        keeps_runs,
    };
    let mut build = BuildSide::collect(
        build.execute(0, context)?,
        &spec.matching,
        &needs,
        inputs[1].output_partitioning().partition_count(),
        memory,
    )
    .await?;
    if !spec.build_groups.is_empty() {
        match build.number_groups(&spec.build_groups) {
            // DataFusion evaluates the expressions only on rows with a match. The aggregation is left
            // to it.
            Err(error) if !matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {}
            numbered => numbered?,
        }
    }
    MetricBuilder::new(metrics)
        .global_counter("build_rows")
        .add(build.collected);
    if let (Some(filter), Some((keys, schema))) = (dynamic_filter, &spec.filtered) {
        filter.update(build.predicate(&spec.matching, keys, schema)?)?;
        filter.mark_complete();
    }
    Ok(Arc::new(build))
}

impl DisplayAs for ArrayLookupJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let output = &self.spec.output;
        let on = self.spec.on.iter();
        let mut on: Vec<_> = on
            .map(|(build, probe)| format!("({build}, {probe})"))
            .collect();
        if let Matching::Conditions(conditions) = self.spec.matching.as_ref() {
            on.extend(conditions.shown.iter().cloned());
        }
        let mut parts = vec![
            format!("join_type={:?}", output.join_type),
            format!("on=[{}]", on.join(", ")),
            format!("key_indices={}", self.spec.matching.key_indices()),
        ];
        if let Some(filter) = &output.filter {
            parts.push(format!("filter={}", filter.expression()));
        }
        let schemas = self.inputs.each_ref().map(|input| input.schema());
        let columns = output.columns.iter().map(|column| {
            let (schema, side) = match column.side {
                JoinSide::Left => (&schemas[0], "build"),
                JoinSide::Right => (&schemas[1], "probe"),
                JoinSide::None => return "build_row".to_string(),
            };
            let field = schema.fields().get(column.index);
            format!(
                "{side}.{}",
                field.map_or(GROUP_NUMBER, |field| field.name())
            )
        });
        parts.push(format!(
            "projection=[{}]",
            columns.collect::<Vec<_>>().join(", ")
        ));
        write_operator(self.name(), &parts, t, f)
    }
}

impl ExecutionPlan for ArrayLookupJoinExec {
    fn name(&self) -> &'static str {
        "ArrayLookupJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![
            Distribution::SinglePartition,
            Distribution::UnspecifiedDistribution,
        ]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let keys = self.spec.on.iter().map(|(build, _)| Arc::clone(build));
        let conditions: Vec<_> = match self.spec.matching.as_ref() {
            Matching::Conditions(conditions) => conditions.expressions().cloned().collect(),
            Matching::Keys(..) => Vec::new(),
        };
        let filter = self.spec.output.filter.iter();
        let filter = filter.map(|filter| Arc::clone(filter.expression()));
        let dynamic = self.dynamic_filter.iter();
        let dynamic = dynamic.map(|filter| Arc::clone(filter) as Arc<dyn PhysicalExpr>);
        let all: Vec<_> = keys
            .chain(conditions)
            .chain(filter)
            .chain(dynamic)
            .collect();
        visit_all(&all, f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let filter = self.dynamic_filter.iter();
        filter.map(|filter| Arc::clone(filter) as _).collect()
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let probe = match self.keeps_probe_rows() {
            true => ChildFilterDescription::from_child(&parent_filters, &self.inputs[1])?,
            false => ChildFilterDescription::all_unsupported(&parent_filters),
        };
        let build = ChildFilterDescription::all_unsupported(&parent_filters);
        Ok(FilterDescription::new().with_child(build).with_child(probe))
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok(inputs) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("ArrayLookupJoinExec has two children");
        };
        let dynamic_filter = self.dynamic_filter.as_ref().map(Arc::clone);
        Ok(Arc::new(Self::new(
            inputs,
            Arc::clone(&self.spec),
            dynamic_filter,
        )))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = self.inputs.to_vec();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let inputs = self.inputs.clone();
        let spec = Arc::clone(&self.spec);
        let build = self.build_side(&context, false);
        let metrics = self.metrics.clone();
        let batches = async move {
            let probe = Probe {
                build: build.await.map_err(DataFusionError::Shared)?,
                // The scan starts after the build side is collected, so that the dynamic filter
                // prunes chunks.
                input: inputs[1].execute(partition, Arc::clone(&context))?,
                output: Arc::clone(&spec.output),
                schema: Arc::clone(&spec.schema),
                batch_size: context.session_config().batch_size(),
                metrics: BaselineMetrics::new(&metrics, partition),
                pending: None,
                line: Line::default(),
                is_finished: false,
            };
            Ok::<_, DataFusionError>(futures::stream::try_unfold(probe, |mut probe| async move {
                Ok(probe.next().await?.map(|batch| (batch, probe)))
            }))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::once(batches).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        context: &ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<PhysicalPlanNode>> {
        self.encode(context).map(Some)
    }
}
