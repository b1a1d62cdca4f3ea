//! Functions of a session for contexts of the package `datafusion`.

use std::ffi::CStr;
use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;
use datafusion_ffi::udaf::FFI_AggregateUDF;
use datafusion_ffi::udf::FFI_ScalarUDF;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::codec::is_built_in;

/// The names of the capsules.
const SCALAR: &CStr = c"datafusion_scalar_udf";
const AGGREGATE: &CStr = c"datafusion_aggregate_udf";

/// The functions that only the analyzer of a session resolves.
const ANALYZED: [&str; 1] = ["nearest"];

/// A scalar function of a session.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct ScalarFunction(Arc<ScalarUDF>);

#[pymethods]
impl ScalarFunction {
    fn __datafusion_scalar_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, FFI_ScalarUDF::from(Arc::clone(&self.0)), SCALAR)
    }
}

/// An aggregate function of a session.
#[pyclass(frozen, module = "tet_sql._tet_sql")]
pub struct AggregateFunction(Arc<AggregateUDF>);

#[pymethods]
impl AggregateFunction {
    fn __datafusion_aggregate_udf__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, FFI_AggregateUDF::from(Arc::clone(&self.0)), AGGREGATE)
    }
}

/// Returns the functions of a session that the package does not have.
pub fn of_session(context: &SessionContext) -> (Vec<ScalarFunction>, Vec<AggregateFunction>) {
    let state = context.state();
    let is_own =
        |key: &str, name: &str| key == name && !is_built_in(name) && !ANALYZED.contains(&name);
    let scalars = state.scalar_functions().iter();
    let scalars = scalars.filter(|(key, function)| is_own(key, function.name()));
    let aggregates = state.aggregate_functions().iter();
    let aggregates = aggregates.filter(|(key, function)| is_own(key, function.name()));
    (
        scalars
            .map(|(_, function)| ScalarFunction(Arc::clone(function)))
            .collect(),
        aggregates
            .map(|(_, function)| AggregateFunction(Arc::clone(function)))
            .collect(),
    )
}
