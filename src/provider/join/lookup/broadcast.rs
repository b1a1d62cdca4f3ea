//! Lookup joins whose build side comes from another process.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::provider::join::lookup::build::{BuildKeys, Matching};
use crate::provider::join::lookup::operator::{ArrayLookupJoinExec, LookupSpec};
use crate::provider::join::lookup::probe::ROW_NUMBER;

impl ArrayLookupJoinExec {
    /// Returns `true` if the build side is the scan of an array that computes key indices.
    pub(in crate::provider) fn has_keyed_build(&self) -> bool {
        match self.spec().matching.as_ref() {
            Matching::Keys(_, BuildKeys::KeyIndex(_) | BuildKeys::DistinctKeyIndex(_)) => true,
            Matching::Keys(_, BuildKeys::Expressions(_)) | Matching::Conditions(_) => false,
        }
    }

    /// Returns the join with the same rows of its build side from another plan. The encoded join then does
    /// not contain the plan that made these rows. The build side must not be a scan with key indices.
    pub(in crate::provider) fn over_build(&self, build: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let [_, probe] = self.inputs();
        let spec = LookupSpec {
            replaced: without_build_sides(self.replaced())?,
            ..self.spec().clone()
        };
        let inputs = [build, Arc::clone(probe)];
        let filter = self.dynamic_filter().map(Arc::clone);
        Ok(Self::new(inputs, Arc::new(spec), filter))
    }

    /// Returns the join with one more column: the row number on the build side of rows that the join returns at the
    /// end, and null for all other rows.
    pub(in crate::provider) fn with_row_numbers(&self) -> Self {
        let spec = self.spec();
        let mut output = spec.output.as_ref().clone();
        output.columns.push(ROW_NUMBER);
        let number = Field::new("build_row", DataType::UInt32, true);
        let fields = spec.schema.fields().iter().cloned();
        let fields: Vec<_> = fields.chain([Arc::new(number)]).collect();
        let spec = LookupSpec {
            output: Arc::new(output),
            schema: Arc::new(Schema::new(fields)),
            ..spec.clone()
        };
        let filter = self.dynamic_filter().map(Arc::clone);
        Self::new(self.inputs().clone(), Arc::new(spec), filter)
    }
}

/// Returns DataFusion's plan of a join without the rows of its build side and of those of the lookup joins
/// below.
fn without_build_sides(join: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let [build, probe] = join.children()[..] else {
        return internal_err!("{} is not a join", join.name());
    };
    let probe = Arc::clone(probe).transform_down(|node| {
        Ok(match node.downcast_ref::<ArrayLookupJoinExec>() {
            Some(below) if !below.has_keyed_build() => {
                let [build, _] = below.inputs();
                let empty = Arc::new(EmptyExec::new(build.schema()));
                Transformed::yes(Arc::new(below.over_build(empty)?) as _)
            }
            _ => Transformed::no(node),
        })
    })?;
    let empty = Arc::new(EmptyExec::new(build.schema()));
    replace_children_if_necessary(Arc::clone(join), vec![empty, probe.data])
}
