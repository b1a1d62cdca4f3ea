//! Sessions that encode and decode every plan before they run it.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use tet_sql::{ArrayOptions, ArrayPlanCodec, enable_arrays};

/// The physical rule that replaces a plan by the result of encoding it and decoding it in another
/// session.
pub struct Encoded {
    worker: SessionContext,
    codec: ArrayPlanCodec,
    /// Parts of the error messages for plans that cannot be encoded.
    exceptions: &'static [&'static str],
}

impl Debug for Encoded {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Encoded")
    }
}

impl Encoded {
    /// Adds this rule to a session, as its last physical rule. The rule fails if a plan cannot be
    /// encoded, unless the error message contains one of `exceptions`. Then the plan is left unchanged.
    pub fn add_to(session: &SessionContext, exceptions: &'static [&'static str]) {
        let rule = Self {
            worker: enable_arrays(
                SessionContext::new_with_config(session.copied_config()),
                ArrayOptions::new(),
            ),
            codec: ArrayPlanCodec::new(),
            exceptions,
        };
        let state = SessionStateBuilder::new_from_existing(session.state())
            .with_physical_optimizer_rule(Arc::new(rule))
            .build();
        // The state is replaced in place, because the catalog of quoted paths refers to it.
        *session.state_ref().write() = state;
    }
}

impl PhysicalOptimizerRule for Encoded {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let converter = DeduplicatingProtoConverter {};
        let bytes =
            physical_plan_to_bytes_with_proto_converter(Arc::clone(&plan), &self.codec, &converter);
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => {
                let text = error.to_string();
                return match self.exceptions.iter().any(|part| text.contains(part)) {
                    true => Ok(plan),
                    false => Err(error.context("encoding a plan")),
                };
            }
        };
        let decoded = physical_plan_from_bytes_with_proto_converter(
            &bytes,
            &self.worker.task_ctx(),
            &self.codec,
            &converter,
        )?;
        let text =
            |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        // Only names and types: plans do not keep attributes of columns; see `tet_sql::result_schema`.
        let types = |plan: &Arc<dyn ExecutionPlan>| {
            let schema = plan.schema();
            let fields = schema.fields().iter();
            let types = fields.map(|field| (field.name().clone(), field.data_type().clone()));
            types.collect::<Vec<_>>()
        };
        if types(&plan) != types(&decoded) {
            return internal_err!("{} is decoded as {}", plan.schema(), decoded.schema());
        }
        let (before, after) = (text(&plan), text(&decoded));
        if before != after {
            return internal_err!("the plan\n{before}\nis decoded as\n{after}");
        }
        Ok(decoded)
    }

    fn name(&self) -> &str {
        "encoded"
    }

    fn schema_check(&self) -> bool {
        false
    }
}
