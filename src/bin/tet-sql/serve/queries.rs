//! Runs queries within their limits.

use crate::serve::limits::Limits;
use crate::serve::running::{Registration, Running};
use crate::serve::statement::Statement;
use crate::serve::status::{of_arrow, of_engine, of_flight, status};
use crate::serve::ticket::Execution;
use crate::serve::wire::convert;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep_until, timeout, timeout_at};
use tonic::{Code, Status};

/// Messages of a result that are made before the client takes them; each has about two megabytes at most.
const AHEAD: usize = 2;

/// What is sent for a result.
pub type Answer = BoxStream<'static, Result<FlightData, Status>>;

/// Runs queries on the worker threads. The threads of the network only pass results on, so that a query that computes
/// for long without a pause keeps nobody from being heard.
pub struct Queries {
    context: SessionContext,
    workers: Handle,
    limits: Arc<Limits>,
    running: Running,
}

impl Queries {
    /// Queries of a session.
    pub fn new(context: SessionContext, workers: Handle, limits: Limits, running: Running) -> Self {
        Self {
            context,
            workers,
            limits: Arc::new(limits),
            running,
        }
    }

    /// The queries that run.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The schema of a result that is about to be asked for.
    pub async fn schema(&self, execution: Execution) -> Result<SchemaRef, Status> {
        let context = self.context.clone();
        self.work(async move {
            let statement = Statement::plan(&context, &execution.sql).await?;
            Ok(opening(&statement, &execution)?.1)
        })
        .await
    }

    /// The schemas of the result and of the parameters of a statement that is being prepared.
    pub async fn prepare(&self, sql: String) -> Result<(SchemaRef, Schema), Status> {
        let context = self.context.clone();
        self.work(async move {
            let statement = Statement::plan(&context, &sql).await?;
            Ok((statement.schema(), statement.parameter_schema()))
        })
        .await
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
        let task = Task(self.workers.spawn(work));
        match timeout(self.limits.time(), task).await {
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
            place = self.limits.place() => place?,
        };
        let deadline = self.limits.deadline();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let (context, limits) = (self.context.clone(), Arc::clone(&self.limits));
        let task = self.workers.spawn(async move {
            // A query that cannot be stopped keeps its place until it ends.
            let _place = place;
            // The task has a clock of its own: a client that takes nothing does not look at that of the answer.
            let work = produce(context, Arc::clone(&limits), execution, sender);
            match timeout_at(deadline, work).await {
                Ok(result) => result,
                Err(_) => Err(limits.too_late()),
            }
        });
        let results = Results {
            receiver,
            task: Task(task),
            stop,
            deadline: Box::pin(sleep_until(deadline)),
            limits: Arc::clone(&self.limits),
            _registration: registration,
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

/// What a query gives, on the side of the network.
struct Results {
    receiver: mpsc::Receiver<FlightData>,
    task: Task<()>,
    stop: oneshot::Receiver<Status>,
    deadline: Pin<Box<Sleep>>,
    limits: Arc<Limits>,
    _registration: Registration,
}

impl Results {
    async fn next(&mut self) -> Result<Option<FlightData>, Status> {
        let (receiver, task) = (&mut self.receiver, &mut self.task);
        let next = async {
            match receiver.recv().await {
                Some(data) => Ok(Some(data)),
                // The end, or an error, or a panic.
                None => task.await.map(|()| None),
            }
        };
        tokio::select! {
            biased;
            Ok(why) = &mut self.stop => Err(why),
            () = &mut self.deadline => Err(self.limits.too_late()),
            data = next => data,
        }
    }
}

/// Runs a query to its end, or until nobody listens.
async fn produce(
    context: SessionContext,
    limits: Arc<Limits>,
    execution: Execution,
    sender: mpsc::Sender<FlightData>,
) -> Result<(), Status> {
    let statement = Statement::plan(&context, &execution.sql).await?;
    let (rows, schema) = opening(&statement, &execution)?;
    let streams = stream::iter(rows).then(move |values| {
        let bound = statement.clone().bind(&values);
        async move { bound?.stream().await.map_err(FlightError::from) }
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

/// Work on the worker threads that is given up when this is dropped.
struct Task<T>(JoinHandle<Result<T, Status>>);

impl<T> Future for Task<T> {
    type Output = Result<T, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A panic has been told by its hook.
        let broken = |_| {
            Err(status(
                Code::Internal,
                "internal error: the query was given up",
            ))
        };
        let result = std::task::ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(result.unwrap_or_else(broken))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
