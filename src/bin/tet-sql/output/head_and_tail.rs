//! Reads the first and last rows of results that are longer than the row limit.

use crate::output::progress::Progress;
use crate::session::worker_threads::Cancellation;
use crate::statement::outcome::{Error, Extent};
use crate::statement::reading::Reading;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tet_sql::provider::plans::last_rows::last_rows;
use tokio::time::{Instant, timeout_at};

/// The time that a query may continue after its first rows to find its last rows and the number of
/// rows.
const PATIENCE: Duration = Duration::from_millis(500);
/// The maximum number of rows that are sorted completely to find the last ones.
const MAX_SORTED: usize = 1 << 20;
/// Operators that pass rows on as they arrive.
const STREAMED: [&str; 7] = [
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "DataSourceExec",
    "FilterExec",
    "ProjectionExec",
    "RepartitionExec",
];

/// The rows of a result that are shown.
///
/// ```text
/// rows of the result   0 1 2 │ 3 4 ... 96 │ 97 98 99
///                      first    left out      last
/// ```
pub struct HeadAndTail {
    /// The first rows.
    pub first: Vec<RecordBatch>,
    /// The last rows. Empty if no rows are left out, or if only the first rows were read.
    pub last: Vec<RecordBatch>,
    /// The extent of the shown rows: the whole result, or some of a known number of rows.
    pub extent: Extent,
    /// The chunks and bytes that were read for the rows.
    pub reading: Reading,
}

/// Runs queries and reads the first and last rows of their results.
pub struct Reader<'a> {
    /// The session that the queries run in.
    pub context: &'a SessionContext,
    /// `true` to show a progress bar.
    pub progress: bool,
    /// Cancels the query.
    pub cancellation: &'a Cancellation,
}

impl Reader<'_> {
    /// Reads at most `limit` rows of a query. `plan` is the physical plan of `frame`.
    ///
    /// - If the plan only projects an array with a known number of rows, reads the chunks of the
    ///   first and of the last rows directly.
    /// - If the plan sorts many rows, reads only the first ones, for which a top-k sort is enough.
    /// - Otherwise runs the plan for its first rows, and also returns the last ones if the plan
    ///   ends soon after the first ones.
    pub async fn read(
        &self,
        frame: DataFrame,
        plan: Arc<dyn ExecutionPlan>,
        limit: usize,
    ) -> Result<HeadAndTail, Error> {
        let from_end = limit / 2;
        let rows = rows_of(plan.as_ref());
        if let Precision::Exact(rows) = rows
            && let Some(last) = last_rows(&plan, from_end)?
        {
            let mut ends = self.first(frame, limit - from_end).await?;
            let mut tail = Tail::new(from_end);
            let mut stream = execute_stream(Arc::clone(&last), self.context.task_ctx())?;
            while let Some(batch) = stream.next().await {
                tail.push(batch?);
            }
            ends.last = tail.finish();
            let reading = Reading::of(last.as_ref());
            ends.reading.read += reading.read;
            ends.reading.bytes += reading.bytes;
            ends.extent = Extent::Cut {
                rows,
                is_exact: true,
            };
            return Ok(ends);
        }
        let is_small = rows.get_value().is_some_and(|rows| *rows <= MAX_SORTED);
        if is_sorted(plan.as_ref()) && !is_small {
            return self.first(frame, limit).await;
        }
        let plan = match is_streamed(plan.as_ref()) {
            // Several partitions would deliver their rows interleaved. One partition keeps the
            // order of the table, so that its first and last rows are those of the result.
            true => {
                let mut state = self.context.state();
                let options = state.config_mut().options_mut();
                options.execution.target_partitions = 1;
                state.create_physical_plan(frame.logical_plan()).await?
            }
            false => plan,
        };
        self.both(&plan, limit - from_end, from_end).await
    }

    /// Reads the first rows and computes no others.
    async fn first(&self, frame: DataFrame, limit: usize) -> Result<HeadAndTail, Error> {
        // One more row shows whether the result is longer than the limit.
        let frame = frame.limit(0, Some(limit.saturating_add(1)))?;
        let plan = frame.create_physical_plan().await?;
        let _progress = Progress::of(&plan, self.progress, self.cancellation);
        let mut stream = execute_stream(Arc::clone(&plan), self.context.task_ctx())?;
        let mut head = Head::new(limit);
        while head.rows <= limit
            && let Some(batch) = stream.next().await
        {
            head.push(&batch?);
        }
        drop(stream);
        let extent = match head.rows > limit {
            true => Extent::Cut {
                rows: limit,
                is_exact: false,
            },
            false => Extent::Whole,
        };
        Ok(HeadAndTail {
            first: head.batches,
            last: Vec::new(),
            extent,
            reading: Reading::of(plan.as_ref()),
        })
    }

    /// Reads the first and the last rows, or only the first if the query does not end within
    /// [`PATIENCE`] after `limit` rows.
    async fn both(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        at_start: usize,
        at_end: usize,
    ) -> Result<HeadAndTail, Error> {
        let limit = at_start + at_end;
        let _progress = Progress::of(plan, self.progress, self.cancellation);
        let mut stream = execute_stream(Arc::clone(plan), self.context.task_ctx())?;
        let (mut head, mut tail) = (Head::new(limit), Tail::new(at_end));
        let mut deadline: Option<Instant> = None;
        let is_whole = loop {
            let next = match deadline {
                None => stream.next().await,
                Some(deadline) if deadline <= Instant::now() => break false,
                Some(deadline) => match timeout_at(deadline, stream.next()).await {
                    Ok(next) => next,
                    Err(_) => break false,
                },
            };
            let Some(batch) = next else {
                break true;
            };
            let batch = batch?;
            head.push(&batch);
            tail.push(batch);
            if head.rows > limit && deadline.is_none() {
                deadline = Some(Instant::now() + PATIENCE);
            }
        };
        drop(stream);
        let rows = head.rows;
        let mut ends = HeadAndTail {
            first: head.batches,
            last: Vec::new(),
            extent: Extent::Whole,
            reading: Reading::of(plan.as_ref()),
        };
        if rows > limit {
            ends.extent = Extent::Cut {
                rows,
                is_exact: is_whole,
            };
            if is_whole {
                let mut first = Head::new(at_start);
                ends.first.iter().for_each(|batch| first.push(batch));
                ends.first = first.batches;
                ends.last = tail.finish();
            }
        }
        Ok(ends)
    }
}

/// Returns the number of rows of a plan, as far as its statistics say.
pub fn rows_of(plan: &dyn ExecutionPlan) -> Precision<usize> {
    let statistics = StatisticsContext::new();
    match statistics.compute(plan, &StatisticsArgs::new()) {
        Ok(found) => found.num_rows,
        Err(_) => Precision::Absent,
    }
}

/// Returns `true` if the last step of a plan sorts all rows.
fn is_sorted(plan: &dyn ExecutionPlan) -> bool {
    if plan.fetch().is_some() {
        return false;
    }
    let passes = plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<SortPreservingMergeExec>().is_some();
    plan.downcast_ref::<SortExec>().is_some()
        || (passes
            && plan
                .children()
                .iter()
                .all(|child| is_sorted(child.as_ref())))
}

fn is_streamed(plan: &dyn ExecutionPlan) -> bool {
    STREAMED.contains(&plan.name())
        && plan
            .children()
            .iter()
            .all(|child| is_streamed(child.as_ref()))
}

/// Keeps the first `most` rows and counts all rows.
struct Head {
    batches: Vec<RecordBatch>,
    rows: usize,
    most: usize,
}

impl Head {
    fn new(most: usize) -> Self {
        Self {
            batches: Vec::new(),
            rows: 0,
            most,
        }
    }

    fn push(&mut self, batch: &RecordBatch) {
        let missing = self.most.saturating_sub(self.rows).min(batch.num_rows());
        if missing > 0 {
            self.batches.push(batch.slice(0, missing));
        }
        self.rows = self.rows.saturating_add(batch.num_rows());
    }
}

/// Keeps the last `most` rows.
struct Tail {
    batches: VecDeque<RecordBatch>,
    rows: usize,
    most: usize,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            rows: 0,
            most,
        }
    }

    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.batches.push_back(batch);
        while let Some(first) = self.batches.front()
            && self.rows - first.num_rows() >= self.most
        {
            self.rows -= first.num_rows();
            self.batches.pop_front();
        }
    }

    fn finish(mut self) -> Vec<RecordBatch> {
        let surplus = self.rows.saturating_sub(self.most);
        if let Some(first) = self.batches.front_mut() {
            *first = first.slice(surplus, first.num_rows() - surplus);
        }
        self.batches.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
        let columns = batches.iter().map(|batch| batch.column(0));
        let values =
            columns.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec());
        values.collect()
    }

    #[test]
    fn ends_are_kept() {
        let (mut head, mut tail) = (Head::new(3), Tail::new(4));
        for start in [0, 2, 4, 6, 8] {
            let values = Arc::new(Int64Array::from(vec![start, start + 1])) as _;
            let batch = RecordBatch::try_from_iter([("n", values)]).unwrap();
            head.push(&batch);
            tail.push(batch);
            assert!(tail.batches.len() <= 3);
        }
        assert_eq!((head.rows, numbers(&head.batches)), (10, vec![0, 1, 2]));
        assert_eq!(numbers(&tail.finish()), [6, 7, 8, 9]);
    }

    async fn ends(sql: &str, limit: usize) -> (Vec<i64>, Vec<i64>, Extent) {
        let context = SessionContext::new();
        let frame = context.sql(sql).await.unwrap();
        let plan = frame.clone().create_physical_plan().await.unwrap();
        let reader = Reader {
            context: &context,
            progress: false,
            cancellation: &Cancellation::default(),
        };
        let ends = match reader.read(frame, plan, limit).await {
            Ok(ends) => ends,
            Err(Error::DataFusion(error)) => panic!("{error}"),
            Err(Error::Failure(failure)) => panic!("{failure:?}"),
        };
        (numbers(&ends.first), numbers(&ends.last), ends.extent)
    }

    #[tokio::test]
    async fn a_result_is_shown_from_both_ends() {
        let cut = |rows, is_exact| Extent::Cut { rows, is_exact };
        let sorted = "SELECT * FROM (VALUES (0), (1), (2), (3), (4), (5), (6))";
        assert_eq!(
            ends("SELECT value FROM range(100000) WHERE value % 2 = 0", 5).await,
            (vec![0, 2, 4], vec![99996, 99998], cut(50000, true))
        );
        assert_eq!(
            ends(&format!("{sorted} ORDER BY column1 DESC"), 4).await,
            (vec![6, 5], vec![1, 0], cut(7, true))
        );
        let (first, last, extent) = ends(
            "SELECT a.value FROM range(1000000) a CROSS JOIN range(1000000) b",
            4,
        )
        .await;
        assert_eq!((first.len(), last.len()), (4, 0));
        assert!(matches!(extent, Extent::Cut { rows, is_exact: false } if rows > 4));
    }
}
