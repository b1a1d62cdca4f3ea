//! Runs queries within their limits.

use crate::dialect::Session;
use crate::execution::cancellation::Cancellation;
use crate::execution::parameters::{Received, number_placeholders};
use crate::execution::plans::Plans;
use crate::execution::running::Running;
use crate::execution::runtimes::Runtimes;
use crate::execution::statement::Statement;
use crate::limits::Limits;
use crate::protocol::ticket::Execution;
use crate::protocol::wire::convert;
use crate::status::{of_arrow, of_datafusion, of_flight};
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ParamValues;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};
use tonic::Status;

/// The maximum number of messages of a result buffered for a client. A message has at most about
/// two megabytes.
const AHEAD: usize = 2;

/// The messages of a result.
pub type Answer = BoxStream<'static, Result<FlightData, Status>>;

/// Plans and runs queries.
///
/// Each query runs on a runtime of its own. Planning and other short requests use separate
/// runtimes, so that they are answered while queries compute. The threads of the network only
/// forward messages.
///
/// ```text
///                   planner runtime             worker runtime
/// GetFlightInfo ──► plan (cached) ──► ticket
/// DoGet(ticket) ────────────────────────────► plan (cached), run ──► channel ──► client
///                                                   ▲
///                      time limit, cancellation, client gone: abort
/// ```
pub struct Queries {
    session: Session,
    /// Runtimes that execute queries.
    workers: Runtimes,
    /// Runtimes for short requests.
    planners: Runtimes,
    limits: Arc<Limits>,
    running: Running,
    plans: Arc<Plans>,
}

impl Queries {
    /// Creates the queries of a session.
    pub fn new(
        session: Session,
        workers: Runtimes,
        planners: Runtimes,
        limits: Limits,
        running: Running,
    ) -> Self {
        Self {
            session,
            workers,
            planners,
            limits: Arc::new(limits),
            running,
            plans: Arc::default(),
        }
    }

    /// Returns the running queries.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Plans a statement from a client. Returns its text with numbered parameters, and its plan.
    pub async fn prepare(&self, sql: String) -> Result<(String, Statement), Status> {
        // Check the size before anything parses the text.
        let Session { context, dialect } = &self.session;
        dialect
            .check(context, &sql)
            .map_err(|error| of_datafusion(dialect.as_ref(), &error))?;
        if Plans::may_have(&sql) {
            let sql = number_placeholders(dialect.as_ref(), &sql)?;
            if let Some(statement) = self.plans.get(&sql) {
                return Ok((sql, statement));
            }
        }
        let (session, plans) = (self.session.clone(), Arc::clone(&self.plans));
        self.work(async move {
            let sql = number_placeholders(session.dialect.as_ref(), &sql)?;
            let statement = planned(&session, &plans, &sql).await?;
            Ok((sql, statement))
        })
        .await
    }

    /// Returns the schema of the result of an execution.
    pub async fn schema(
        &self,
        statement: Statement,
        execution: &Execution,
    ) -> Result<SchemaRef, Status> {
        if statement.has_no_parameters() {
            return Ok(statement.schema());
        }
        let execution = execution.clone();
        self.work(async move { Ok(parameter_rows_and_schema(&statement, &execution)?.1) })
            .await
    }

    /// Receives rows of parameters for a prepared statement, and encodes them.
    pub async fn receive(
        &self,
        mut messages: impl Stream<Item = Result<FlightData, Status>> + Unpin,
    ) -> Result<Bytes, Status> {
        let receiving = async {
            let mut received = Received::default();
            while let Some(message) = messages.try_next().await? {
                received.add(message)?;
            }
            Ok(received)
        };
        let received = timeout(self.limits.time(), receiving).await;
        let received = received.unwrap_or_else(|_| Err(self.limits.too_late()))?;
        self.work(async { received.pack() }).await
    }

    /// Runs a short request on the session, within the time limit of a query.
    pub async fn ask<T, F>(&self, question: impl FnOnce(Session) -> F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        self.work(question(self.session.clone())).await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = self.limits.place(&self.planners).await?;
        match timeout(self.limits.time(), permit.spawn(work)?).await {
            Ok(result) => result,
            Err(_) => Err(self.limits.too_late()),
        }
    }

    /// Runs a query. Dropping its answer stops the query, as when a client disconnects.
    pub async fn execute(&self, execution: Execution) -> Result<Answer, Status> {
        let (registration, mut stop) = self.running.enter(execution.id()?)?;
        let permit = tokio::select! {
            biased;
            Ok(why) = &mut stop => return Err(why),
            permit = self.limits.place(&self.workers) => permit?,
        };
        let (sender, receiver) = mpsc::channel(AHEAD);
        let (session, limits) = (self.session.clone(), Arc::clone(&self.limits));
        let cancellation = Cancellation::default();
        let work = produce(
            session,
            Arc::clone(&self.plans),
            Arc::clone(&limits),
            execution,
            cancellation.clone(),
            sender,
        );
        let (deadline, task) = (limits.deadline(), permit.spawn(work)?);
        // The time limit has a task of its own, because a client that reads nothing does not poll
        // its answer.
        let watch = tokio::spawn(async move {
            let (_registration, _cancellation) = (registration, CancelOnDrop(cancellation));
            tokio::select! {
                biased;
                result = task => result,
                Ok(why) = stop => Err(why),
                () = sleep_until(deadline) => Err(limits.too_late()),
            }
        });
        let results = Results {
            receiver,
            watch: Some(AbortOnDrop(watch)),
        };
        let answer = stream::unfold(Some(results), |results| async {
            let mut results = results?;
            match results.next().await {
                Ok(Some(data)) => Some((Ok(data), Some(results))),
                Ok(None) => None,
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(answer.boxed())
    }
}

/// Returns a batch as an answer.
pub fn answer(batch: RecordBatch) -> Answer {
    let schema = batch.schema();
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
    encoder
        .build(stream::iter([Ok(batch)]))
        .map_err(of_flight)
        .boxed()
}

/// The messages of a query's result, received on the network runtime.
struct Results {
    receiver: mpsc::Receiver<FlightData>,
    /// Yields the outcome of the query, and cancels the query when dropped. `None` after the query
    /// has ended.
    watch: Option<AbortOnDrop>,
}

impl Results {
    async fn next(&mut self) -> Result<Option<FlightData>, Status> {
        if let Some(AbortOnDrop(watch)) = &mut self.watch {
            tokio::select! {
                biased;
                Some(data) = self.receiver.recv() => return Ok(Some(data)),
                result = watch => {
                    self.watch = None;
                    result.map_err(|_| Status::internal("internal error: the task of the query failed"))??;
                }
            }
        }
        Ok(self.receiver.recv().await)
    }
}

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<Result<(), Status>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Cancels a query when this is dropped.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Returns the plan of a statement, and caches it for later requests.
async fn planned(session: &Session, plans: &Plans, sql: &str) -> Result<Statement, Status> {
    if let Some(statement) = plans.get(sql) {
        return Ok(statement);
    }
    let statement = Statement::plan(session, sql).await?;
    plans.keep(sql, &statement);
    Ok(statement)
}

/// Runs a query until its end, or until the receiver is dropped.
async fn produce(
    session: Session,
    plans: Arc<Plans>,
    limits: Arc<Limits>,
    execution: Execution,
    cancellation: Cancellation,
    sender: mpsc::Sender<FlightData>,
) -> Result<(), Status> {
    let statement = planned(&session, &plans, &execution.sql).await?;
    let (rows, schema) = parameter_rows_and_schema(&statement, &execution)?;
    let dialect = Arc::clone(&session.dialect);
    let streams = stream::iter(rows).then(move |values| {
        let bound = statement.clone().bind(&values);
        let (session, cancellation) = (session.clone(), cancellation.clone());
        async move {
            let stream = bound?.stream(&session, cancellation).await;
            stream.map_err(FlightError::from)
        }
    });
    let batches = streams
        .map_ok(move |batches| {
            let dialect = Arc::clone(&dialect);
            batches.map_err(move |error| FlightError::from(of_datafusion(dialect.as_ref(), &error)))
        })
        .try_flatten();
    let encoder = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&schema));
    let mut count = 0;
    let plain = batches.map(move |batch| {
        let batch = batch?;
        count += batch.num_rows() as u64;
        limits.check_rows(count)?;
        convert(&batch, &schema).map_err(|error| FlightError::from(of_arrow(&error)))
    });
    let mut encoded = encoder.build(plain);
    while let Some(data) = encoded.next().await {
        if sender.send(data.map_err(of_flight)?).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Returns the rows of parameters of an execution, and the schema of its result.
fn parameter_rows_and_schema(
    statement: &Statement,
    execution: &Execution,
) -> Result<(Vec<ParamValues>, SchemaRef), Status> {
    let rows = statement.rows(execution.parameters.as_deref())?;
    let schema = match rows.first() {
        Some(values) => statement.clone().bind(values)?.schema(),
        None => statement.schema(),
    };
    Ok((rows, schema))
}
