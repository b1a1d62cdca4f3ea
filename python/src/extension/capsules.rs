//! Capsules: how Python passes on the structures of `datafusion-ffi`.

use std::ffi::CStr;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::prelude::SessionContext;
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::FFI_QueryPlanner;
use datafusion_ffi::table_provider::FFI_TableProvider;
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::table::SessionTable;

/// The names of the capsules.
pub(super) const LOGICAL_CODEC: &CStr = c"datafusion_logical_extension_codec";
pub(super) const PHYSICAL_CODEC: &CStr = c"datafusion_physical_extension_codec";
pub(super) const PLANNER: &CStr = c"datafusion_query_planner";
pub(super) const TABLE_FACTORY: &CStr = c"datafusion_table_provider_factory";
const TABLE: &CStr = c"datafusion_table_provider";
const TASK_CONTEXTS: &CStr = c"datafusion_task_context_provider";

/// Returns a table of a session for a context of the package `datafusion`.
pub fn table_capsule<'py>(
    py: Python<'py>,
    table: Arc<dyn TableProvider>,
    context: &SessionContext,
    session: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let table = Arc::new(SessionTable::new(table, context.clone()));
    let codec = logical_codec(session)?;
    let table = FFI_TableProvider::new_with_ffi_codec(table, true, None, codec);
    PyCapsule::new_with_value(py, table, TABLE)
}

/// Returns the provider of task contexts of a context of the package `datafusion`.
pub(super) fn task_contexts(session: &Bound<'_, PyAny>) -> PyResult<FFI_TaskContextProvider> {
    let capsule = capsule(session, "__datafusion_task_context_provider__")?;
    let pointer = capsule.pointer_checked(Some(TASK_CONTEXTS))?;
    // SAFETY: a capsule of this name holds this structure. It has no version; the codecs, which come
    // from the same library, have one.
    Ok(unsafe { pointer.cast::<FFI_TaskContextProvider>().as_ref() }.clone())
}

/// Returns the logical codec of a context of the package `datafusion`, or of a capsule.
pub(super) fn logical_codec(object: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let capsule = capsule(object, "__datafusion_logical_extension_codec__")?;
    versioned(
        &capsule,
        LOGICAL_CODEC,
        |codec: &FFI_LogicalExtensionCodec| codec.version,
    )
}

/// Returns the physical codec of a context of the package `datafusion`.
pub(super) fn physical_codec(object: &Bound<'_, PyAny>) -> PyResult<FFI_PhysicalExtensionCodec> {
    let capsule = capsule(object, "__datafusion_physical_extension_codec__")?;
    versioned(
        &capsule,
        PHYSICAL_CODEC,
        |codec: &FFI_PhysicalExtensionCodec| codec.version,
    )
}

/// Returns the planner in a capsule.
pub(super) fn planner(object: &Bound<'_, PyAny>) -> PyResult<FFI_QueryPlanner> {
    let capsule = capsule(object, "__datafusion_query_planner__")?;
    versioned(&capsule, PLANNER, |planner: &FFI_QueryPlanner| {
        planner.version
    })
}

/// Returns a copy of the structure in a capsule of this name, after checking its version.
fn versioned<T: Clone>(
    capsule: &Bound<'_, PyCapsule>,
    name: &CStr,
    version: impl Fn(&T) -> unsafe extern "C" fn() -> u64,
) -> PyResult<T> {
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: a capsule of this name holds this structure, whose version is checked before use.
    let structure = unsafe { pointer.cast::<T>().as_ref() };
    check_version(unsafe { version(structure)() })?;
    Ok(structure.clone())
}

/// Returns the object if it is a capsule, or else the capsule that its method returns.
fn capsule<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyCapsule>> {
    let returned = match object.cast::<PyCapsule>() {
        Ok(capsule) => return Ok(capsule.clone()),
        Err(_) => object.call_method0(method)?,
    };
    let returned = returned.cast_into::<PyCapsule>();
    returned.map_err(|_| PyTypeError::new_err(format!("{method} returned no PyCapsule")))
}

/// Compares the major version of a library with that of DataFusion here.
fn check_version(found: u64) -> PyResult<()> {
    let expected = datafusion_ffi::version();
    if found == expected {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "the package datafusion has version {found}, but tet_sql was built for version {expected}; install \
         datafusion=={expected}.*"
    )))
}
