//! Runs queries within their limits.

use crate::serve::limits::Limits;
use crate::serve::parameters::{Received, number_places};
use crate::serve::plans::Plans;
use crate::serve::running::Running;
use crate::serve::runtimes::Runtimes;
use crate::serve::statement::Statement;
use crate::serve::status::{of_arrow, of_engine, of_flight};
use crate::serve::ticket::Execution;
use crate::serve::wire::convert;
use crate::session::worker_threads::Cancellation;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ParamValues;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::bytes::Bytes;
use std::sync::Arc;
use tet_sql::provider::sql::budget::check_bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};
use tonic::Status;

/// Messages of a result that are made before the client takes them; each has about two megabytes at most.
const AHEAD: usize = 2;

/// What is sent for a result.
pub type Answer = BoxStream<'static, Result<FlightData, Status>>;

/// Runs queries, each on a runtime of its own. The threads of the network only pass results on, and planning for a client and small
/// requests have runtimes apart, so that they are answered while queries compute.
pub struct Queries {
    context: SessionContext,
    /// For executions.
    workers: Runtimes,
    /// For everything that is short.
    planners: Runtimes,
    limits: Arc<Limits>,
    running: Running,
    plans: Arc<Plans>,
}

impl Queries {
    /// Queries of a session.
    pub fn new(
        context: SessionContext,
        workers: Runtimes,
        planners: Runtimes,
        limits: Limits,
        running: Running,
    ) -> Self {
        Self {
            context,
            workers,
            planners,
            limits: Arc::new(limits),
            running,
            plans: Arc::default(),
        }
    }

    /// The queries that run.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Plans a statement as the client wrote it: its text with numbered parameters, and its plan.
    pub async fn prepare(&self, sql: String) -> Result<(String, Statement), Status> {
        // Before anything goes through its text.
        check_bytes(self.context.copied_config().options(), &sql)
            .map_err(|error| of_engine(&error))?;
        if Plans::may_have(&sql) {
            let sql = number_places(&sql)?;
            if let Some(statement) = self.plans.get(&sql) {
                return Ok((sql, statement));
            }
        }
        let (context, plans) = (self.context.clone(), Arc::clone(&self.plans));
        self.work(async move {
            let sql = number_places(&sql)?;
            let statement = planned(&context, &plans, &sql).await?;
            Ok((sql, statement))
        })
        .await
    }

    /// The schema of the result of an execution of a statement.
    pub async fn schema(
        &self,
        statement: Statement,
        execution: &Execution,
    ) -> Result<SchemaRef, Status> {
        if statement.has_no_parameters() {
            return Ok(statement.schema());
        }
        let execution = execution.clone();
        self.work(async move { Ok(opening(&statement, &execution)?.1) })
            .await
    }

    /// Receives the rows of parameters of a prepared statement, and packs them.
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

    /// Something short that the session is asked, within the time of a query.
    pub async fn ask<T, F>(&self, question: impl FnOnce(SessionContext) -> F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        self.work(question(self.context.clone())).await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let place = self.limits.place(&self.planners).await?;
        match timeout(self.limits.time(), place.spawn(work)?).await {
            Ok(result) => result,
            Err(_) => Err(self.limits.too_late()),
        }
    }

    /// Runs a query. It stops when its answer is dropped, as is that of a client that goes away.
    pub async fn execute(&self, execution: Execution) -> Result<Answer, Status> {
        let (registration, mut stop) = self.running.enter(execution.id()?)?;
        let place = tokio::select! {
            biased;
            Ok(why) = &mut stop => return Err(why),
            place = self.limits.place(&self.workers) => place?,
        };
        let (sender, receiver) = mpsc::channel(AHEAD);
        let (context, limits) = (self.context.clone(), Arc::clone(&self.limits));
        let cancellation = Cancellation::default();
        let work = produce(
            context,
            Arc::clone(&self.plans),
            Arc::clone(&limits),
            execution,
            cancellation.clone(),
            sender,
        );
        let (deadline, task) = (limits.deadline(), place.spawn(work)?);
        // On a clock of its own: a client that takes nothing does not poll its answer.
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

/// A batch that is there already, as an answer.
pub fn answer(batch: RecordBatch) -> Answer {
    let schema = batch.schema();
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema);
    encoder
        .build(stream::iter([Ok(batch)]))
        .map_err(of_flight)
        .boxed()
}

/// The messages of a query's result, on the side of the network.
struct Results {
    receiver: mpsc::Receiver<FlightData>,
    /// Gives the result of the query, and cancels the query if it is dropped. None after the query has ended.
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
                    result.map_err(|_| Status::internal("internal error: the query was given up"))??;
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

/// The plan of a statement, which is kept for the requests that follow.
async fn planned(context: &SessionContext, plans: &Plans, sql: &str) -> Result<Statement, Status> {
    if let Some(statement) = plans.get(sql) {
        return Ok(statement);
    }
    let statement = Statement::plan(context, sql).await?;
    plans.keep(sql, &statement);
    Ok(statement)
}

/// Runs a query to its end, or until nobody listens.
async fn produce(
    context: SessionContext,
    plans: Arc<Plans>,
    limits: Arc<Limits>,
    execution: Execution,
    cancellation: Cancellation,
    sender: mpsc::Sender<FlightData>,
) -> Result<(), Status> {
    let statement = planned(&context, &plans, &execution.sql).await?;
    let (rows, schema) = opening(&statement, &execution)?;
    let streams = stream::iter(rows).then(move |values| {
        let bound = statement.clone().bind(&values);
        let (context, cancellation) = (context.clone(), cancellation.clone());
        async move {
            let stream = bound?.stream(&context, cancellation).await;
            stream.map_err(FlightError::from)
        }
    });
    let batches = streams
        .map_ok(|batches| batches.map_err(|error| FlightError::from(of_engine(&error))))
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

/// The rows of parameters that a statement is run with, and the schema of all that comes of it.
fn opening(
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
