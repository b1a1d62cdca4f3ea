//! Tasks that run side by side on the threads of the runtime.

use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;

/// Waits for the result of a task.
///
/// # Errors
/// Fails if the task fails or panics.
pub(crate) async fn result_of<T: 'static>(task: SpawnedTask<Result<T>>) -> Result<T> {
    let result = task.join().await;
    result.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
