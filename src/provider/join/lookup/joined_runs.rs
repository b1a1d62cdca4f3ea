//! Matches of a lookup join as runs of rows of the probe side.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef, UInt32Type};
use datafusion::common::{DataFusionError, JoinSide, JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::provider::join::lookup::build::matches::Matches;
use crate::provider::join::lookup::build::{BuildSide, Matching};
use crate::provider::join::lookup::conditions::run_matches::{Line, RunMatches};
use crate::provider::join::lookup::operator::ArrayLookupJoinExec;
use crate::provider::join::lookup::probe::JoinOutput;
use crate::provider::planning::unions::take_or_null;

/// Consecutive rows of a batch of the probe side that match the same row of the build side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::provider) struct JoinedRun {
    /// The rows of the batch.
    pub rows: Range<usize>,
    /// The row of the build side.
    pub of_build: u32,
}

impl JoinedRun {
    /// Divides runs among batches of at most `most` joined rows. Longer runs are cut.
    pub fn in_batches(runs: &[Self], most: usize) -> impl Iterator<Item = Vec<Self>> {
        let mut runs = runs.iter();
        let (mut rest, mut of_build) = (0..0, 0);
        std::iter::from_fn(move || {
            let (mut batch, mut rows) = (Vec::new(), 0);
            while rows < most {
                if rest.is_empty() {
                    let Some(run) = runs.next() else { break };
                    (rest, of_build) = (run.rows.clone(), run.of_build);
                }
                let end = rest.end.min(rest.start + (most - rows));
                rows += end - rest.start;
                batch.push(Self {
                    rows: rest.start..end,
                    of_build,
                });
                rest.start = end;
            }
            (!batch.is_empty()).then_some(batch)
        })
    }
}

/// A lookup join whose matches are found as runs. Its build side is collected.
pub(in crate::provider) struct RunJoin {
    build: Arc<BuildSide>,
    probe: Arc<dyn ExecutionPlan>,
    output: Arc<JoinOutput>,
    schema: SchemaRef,
    /// For each partition, the metrics of the join.
    metrics: Vec<BaselineMetrics>,
}

/// The state of one reader of a [`RunJoin`].
#[derive(Debug, Default)]
pub(in crate::provider) struct RunReader {
    line: Line,
    /// The runs of the current batch.
    pub runs: Vec<JoinedRun>,
}

impl ArrayLookupJoinExec {
    /// Returns `true` if the join returns the pairs of rows whose dimensions satisfy conditions, and no other rows.
    pub(in crate::provider) fn has_runs(&self) -> bool {
        let spec = self.spec();
        spec.output.join_type == JoinType::Inner
            && spec.output.filter.is_none()
            && matches!(spec.matching.as_ref(), Matching::Conditions(_))
    }

    /// Collects the build side and finds the matches as runs. Returns `None` unless [`Self::has_runs`], and if another
    /// reader of the join has collected the build side before.
    pub(in crate::provider) async fn run_join(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<Option<RunJoin>> {
        if !self.has_runs() {
            return Ok(None);
        }
        let build = self.build_side(context, true).await;
        let build = build.map_err(DataFusionError::Shared)?;
        if !matches!(build.matches, Matches::Runs(_)) {
            return Ok(None);
        }
        let (spec, probe) = (self.spec(), &self.inputs()[1]);
        let partitions = probe.output_partitioning().partition_count();
        Ok(Some(RunJoin {
            build,
            metrics: (0..partitions)
                .map(|partition| self.baseline(partition))
                .collect(),
            probe: Arc::clone(probe),
            output: Arc::clone(&spec.output),
            schema: Arc::clone(&spec.schema),
        }))
    }
}

impl RunJoin {
    fn matches(&self) -> Option<&RunMatches> {
        match &self.build.matches {
            Matches::Runs(runs) => Some(runs),
            _ => None,
        }
    }

    /// Returns the number of rows of the build side.
    pub fn build_rows(&self) -> usize {
        self.build.rows.num_rows()
    }

    /// Reads one partition of the probe side.
    pub fn probe(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.probe.execute(partition, context)
    }

    /// Adds to the metric `output_rows` of the join, none of whose rows is made.
    pub fn record(&self, partition: usize, rows: usize) {
        if let Some(metrics) = self.metrics.get(partition) {
            metrics.record_output(rows);
        }
    }

    /// Finds the runs of a batch of the probe side.
    pub fn find(&self, batch: &RecordBatch, reader: &mut RunReader) {
        let RunReader { line, runs } = reader;
        runs.clear();
        let Some(matches) = self.matches() else {
            return;
        };
        let keys = batch.column(self.output.key_index);
        let keys = keys.as_primitive::<UInt32Type>().values();
        let mut start = 0;
        while start < keys.len() {
            // Key indices are equal or consecutive along an axis.
            let first = keys[start];
            let is_equal = keys.get(start + 1) == Some(&first);
            let step = u32::from(!is_equal);
            let others = keys[start..].windows(2);
            let length = 1 + others
                .take_while(|two| two[0].checked_add(step) == Some(two[1]))
                .count();
            let count = if is_equal { 1 } else { length as u32 };
            matches.runs_in(
                first..first.saturating_add(count),
                line,
                |of_build, found| {
                    let rows = match is_equal {
                        true => start..start + length,
                        false => {
                            let [from, to] =
                                [found.start, found.end].map(|key| (key - first) as usize);
                            start + from..start + to
                        }
                    };
                    runs.push(JoinedRun { rows, of_build });
                },
            );
            start += length;
        }
    }

    /// Returns the group number of each row of the build side; `None` without grouping expressions over it.
    pub fn build_groups(&self) -> Option<&UInt32Array> {
        self.build.groups.as_ref()?;
        let numbers = self.build.rows.columns().last()?;
        numbers.as_primitive_opt::<UInt32Type>()
    }

    /// Returns a batch of the probe side with the output columns of the join. The columns of the build side are null.
    pub fn probe_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.output.columns.iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| match column.side {
            JoinSide::Right => Arc::clone(batch.column(column.index)),
            _ => new_null_array(field.data_type(), batch.num_rows()),
        });
        let fields = self.schema.fields().iter();
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::new(schema),
            columns.collect(),
            &options,
        )?)
    }

    /// Returns the joined rows of runs of a batch.
    pub fn joined_rows(&self, batch: &RecordBatch, runs: &[JoinedRun]) -> Result<RecordBatch> {
        let of_probe = runs.iter().flat_map(|run| run.rows.clone());
        let of_probe = UInt32Array::from_iter_values(of_probe.map(|row| row as u32));
        let of_build = runs
            .iter()
            .flat_map(|run| std::iter::repeat_n(run.of_build, run.rows.len()));
        let of_build = UInt32Array::from_iter_values(of_build);
        let columns = self.output.columns.iter();
        let columns = columns.map(|column| match column.side {
            JoinSide::Right => Ok(take(batch.column(column.index), &of_probe, None)?),
            _ => Ok(take_or_null(
                self.build.rows.column(column.index),
                &of_build,
            )?),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(of_probe.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns.collect::<Result<Vec<_>>>()?,
            &options,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_divided_among_batches() {
        let run = |rows, of_build| JoinedRun { rows, of_build };
        let runs = [run(0..5, 1), run(2..3, 4), run(0..2, 0)];
        let batches: Vec<_> = JoinedRun::in_batches(&runs, 3).collect();
        let expected = [
            vec![run(0..3, 1)],
            vec![run(3..5, 1), run(2..3, 4)],
            vec![run(0..2, 0)],
        ];
        assert_eq!(batches, expected);
    }
}
