//! Exceptions, by the kind of error.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tet_sql::provider::error::describe;

// The macro defines types without documentation.
#[allow(missing_docs)]
mod kinds {
    use pyo3::create_exception;

    use super::PyException;

    create_exception!(
        tet_sql,
        Error,
        PyException,
        "The base class of all errors of tet_sql."
    );
    create_exception!(
        tet_sql,
        QueryError,
        Error,
        "A statement cannot be parsed or planned: a syntax error, an unknown name, or a wrong type."
    );
    create_exception!(
        tet_sql,
        FileError,
        Error,
        "A file cannot be opened, read or written, or breaks a rule of its format."
    );
    create_exception!(
        tet_sql,
        ExecutionError,
        Error,
        "A query failed while it ran, such as a division by zero or an overflow."
    );
    create_exception!(
        tet_sql,
        OutOfMemoryError,
        Error,
        "A query needs more memory than the memory limit of its session."
    );
    create_exception!(
        tet_sql,
        UnsupportedError,
        Error,
        "A statement uses a feature that is not supported."
    );
    create_exception!(
        tet_sql,
        ForkError,
        Error,
        "The library was used in a process that was forked after the library had started its threads."
    );
}

pub use kinds::{Error, ExecutionError, FileError, ForkError, QueryError};

/// Adds the exceptions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("QueryError", py.get_type::<QueryError>())?;
    module.add("FileError", py.get_type::<FileError>())?;
    module.add("ExecutionError", py.get_type::<ExecutionError>())?;
    module.add("OutOfMemoryError", py.get_type::<kinds::OutOfMemoryError>())?;
    module.add("UnsupportedError", py.get_type::<kinds::UnsupportedError>())?;
    module.add("ForkError", py.get_type::<ForkError>())
}

/// Returns the exception for an error of DataFusion or of this library.
pub fn exception(error: &DataFusionError) -> PyErr {
    let message = describe(error);
    match error.find_root() {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_) => QueryError::new_err(message),
        DataFusionError::ResourcesExhausted(_) => kinds::OutOfMemoryError::new_err(message),
        DataFusionError::NotImplemented(_) => kinds::UnsupportedError::new_err(message),
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) => {
            FileError::new_err(message)
        }
        DataFusionError::External(inner) => of_library(inner.as_ref(), message),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => of_library(inner.as_ref(), message),
            _ => ExecutionError::new_err(message),
        },
        _ => ExecutionError::new_err(message),
    }
}

/// Returns the exception for an error that DataFusion passes on. An exception that was raised while
/// Python read an array is raised again.
fn of_library(inner: &(dyn std::error::Error + 'static), message: String) -> PyErr {
    if let Some(raised) = inner.downcast_ref::<PyErr>() {
        return Python::attach(|py| raised.clone_ref(py));
    }
    match inner.is::<tet_sql::Error>() {
        true => FileError::new_err(message),
        false => ExecutionError::new_err(message),
    }
}

/// Returns an error that carries an exception through DataFusion.
pub fn carried(error: PyErr) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
