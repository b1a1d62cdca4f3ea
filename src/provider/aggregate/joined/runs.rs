//! Adds the joined rows of a lookup join whose matches are runs.

use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use datafusion::common::Result;

use crate::provider::aggregate::joined::execution::{Job, Worker};
use crate::provider::join::lookup::joined_runs::{JoinedRun, RunJoin, RunReader};

/// The maximum number of runs at a time, of 24 bytes each. A row has at most one for each row of the build side.
const MAX_RUNS: usize = 1 << 22;
/// The minimum average length, in rows, of runs that are reduced to partial states.
const MIN_RUN: usize = 2;

impl Worker {
    /// Adds the joined rows of a batch of the probe side, of a bounded number of rows at a time. Returns their number.
    /// `groups` is overwritten.
    pub fn add_batch(
        &mut self,
        job: &Job,
        join: &RunJoin,
        batch: &RecordBatch,
        reader: &mut RunReader,
        groups: &mut Vec<usize>,
    ) -> Result<usize> {
        let length = (MAX_RUNS / join.build_rows().max(1)).max(1);
        let starts = (0..batch.num_rows()).step_by(length);
        starts
            .map(|start| {
                let rows = batch.slice(start, length.min(batch.num_rows() - start));
                self.add_runs(job, join, &rows, reader, groups)
            })
            .sum()
    }

    /// Adds the joined rows of some rows of the probe side. Returns their number. `groups` is overwritten.
    fn add_runs(
        &mut self,
        job: &Job,
        join: &RunJoin,
        batch: &RecordBatch,
        reader: &mut RunReader,
        groups: &mut Vec<usize>,
    ) -> Result<usize> {
        join.find(batch, reader);
        let joined = reader.runs.iter().map(|run| run.rows.len()).sum();
        if joined == 0 {
            return Ok(0);
        }
        let rows = join.probe_rows(batch)?;
        let runs = self.runs_of_groups(job, join, &rows, &reader.runs, groups);
        let states = match runs.len() * MIN_RUN <= joined {
            true => job.program.states_of_runs(&rows, &runs),
            false => Ok(None),
        };
        // An argument may fail on a cell without a match, on which DataFusion would not evaluate it.
        let Ok(Some(states)) = states else {
            let most = job.context.session_config().batch_size().max(1);
            for some in JoinedRun::in_batches(&reader.runs, most) {
                self.add(job, join.joined_rows(batch, &some)?, groups)?;
            }
            return Ok(joined);
        };
        for (accumulated, states) in self.accumulated.iter_mut().zip(&states) {
            accumulated.merge(states, groups, job.count)?;
        }
        for group in groups.iter() {
            self.present[*group] = true;
        }
        job.joined_runs.add(runs.len());
        Ok(joined)
    }

    /// Splits runs so that each has one group, and writes the group index of each to `groups`.
    fn runs_of_groups(
        &self,
        job: &Job,
        join: &RunJoin,
        rows: &RecordBatch,
        runs: &[JoinedRun],
        groups: &mut Vec<usize>,
    ) -> Vec<Range<usize>> {
        let program = &job.program;
        let of_build = join.build_groups().filter(|_| program.is_grouped_by_build);
        let mut numbers = rows.columns().iter().rev();
        let numbers = numbers.nth(usize::from(program.is_grouped_by_build));
        let numbers = numbers.filter(|_| program.probe.is_some());
        let of_probe = numbers.map(|numbers| numbers.as_primitive::<UInt32Type>().values());
        groups.clear();
        let mut split = Vec::with_capacity(runs.len());
        for JoinedRun {
            rows,
            of_build: row,
        } in runs
        {
            let number = of_build.map_or(0, |numbers| numbers.value(*row as usize) as usize);
            let Some(of_probe) = of_probe else {
                groups.push(number);
                split.push(rows.clone());
                continue;
            };
            let mut start = rows.start;
            for equal in of_probe[rows.clone()].chunk_by(|one, other| one == other) {
                groups.push(equal[0] as usize * job.build_count + number);
                split.push(start..start + equal.len());
                start += equal.len();
            }
        }
        split
    }
}
