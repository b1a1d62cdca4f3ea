//! Queries of the package `datafusion` over the tables of a session.
//!
//! The package is another library with its own copy of DataFusion. Both call each other through the
//! stable structures of `datafusion-ffi`, which Python passes on in capsules:
//!
//! ```text
//! package datafusion                          this library
//!   SQL -> logical plan, optimized
//!      | bytes; codec: tables as handles  ->  planner: plans in the session
//!      |                                              |
//!   opaque operator   <-  codec: a handle  <-  SessionPlan: the physical plan
//!      |
//!   execute                               ->  runs on the threads of this library
//! ```
//!
//! A whole physical plan returns as one operator, so that all operators keep their types, their dynamic
//! filters and the settings of the session.

mod capsules;
mod codec;
mod functions;
mod handles;
mod plan;
mod planner;
mod table;

use std::sync::Arc;

use datafusion::execution::SessionStateDefaults;
use datafusion::prelude::SessionContext;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::FFI_QueryPlanner;
use datafusion_ffi::table_provider_factory::FFI_TableProviderFactory;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::session::Session;
use codec::HandleCodec;
use functions::{AggregateFunction, ScalarFunction};
use planner::{RULES_OF_EMPTY_PLANS, SessionPlanner};
use table::SessionTableFactory;

pub use capsules::table_capsule;

/// An extension for a context of the package `datafusion`, which plans queries in a session.
#[pyclass(frozen, subclass, module = "tet_sql._tet_sql")]
pub struct Extension {
    context: SessionContext,
}

impl Extension {
    fn codec(&self) -> Arc<HandleCodec> {
        Arc::new(HandleCodec::new(self.context.clone()))
    }
}

#[pymethods]
impl Extension {
    /// The identity of the codecs, which marks what they have encoded.
    #[classattr]
    #[pyo3(name = "__datafusion_codec_id__")]
    const CODEC_ID: &str = "tet_sql";

    #[new]
    fn new(session: &Session) -> Self {
        Self {
            context: session.context().clone(),
        }
    }

    /// The formats of `CREATE EXTERNAL TABLE ... STORED AS`.
    #[getter]
    fn formats(&self) -> Vec<String> {
        let state = self.context.state();
        let names = state.table_factories().keys();
        let mut names: Vec<_> = names.filter(|name| !is_common(name)).cloned().collect();
        names.sort();
        names
    }

    /// The scalar and the aggregate functions that the package does not have.
    fn functions(&self) -> (Vec<ScalarFunction>, Vec<AggregateFunction>) {
        functions::of_session(&self.context)
    }

    fn __datafusion_logical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let tasks = capsules::task_contexts(session)?;
        let codec = FFI_LogicalExtensionCodec::new(self.codec(), None, tasks);
        PyCapsule::new_with_value(py, codec, capsules::LOGICAL_CODEC)
    }

    fn __datafusion_physical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let tasks = capsules::task_contexts(session)?;
        let codec = FFI_PhysicalExtensionCodec::new(self.codec(), None, tasks);
        PyCapsule::new_with_value(py, codec, capsules::PHYSICAL_CODEC)
    }

    /// Returns a planner that plans in the session. `fallback` plans queries without tables of this
    /// library that the session cannot plan. Removes the optimizer rules of the context whose results cannot be
    /// encoded.
    fn __datafusion_session_planner__<'py>(
        &self,
        py: Python<'py>,
        session: &Bound<'py, PyAny>,
        fallback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let fallback = capsules::planner(fallback)?;
        for rule in RULES_OF_EMPTY_PLANS {
            session.call_method1("remove_optimizer_rule", (rule,))?;
        }
        let planner = SessionPlanner::new(self.context.clone(), (&fallback).into());
        let planner = FFI_QueryPlanner::new_with_ffi_codecs(
            Arc::new(planner),
            capsules::logical_codec(session)?,
            capsules::physical_codec(session)?,
        );
        PyCapsule::new_with_value(py, planner, capsules::PLANNER)
    }

    /// Returns the factory of tables for one of the [formats](Self::formats).
    fn __datafusion_table_provider_factory__<'py>(
        &self,
        py: Python<'py>,
        codec: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let factory = SessionTableFactory::new(self.context.clone());
        let codec = capsules::logical_codec(codec)?;
        let factory = FFI_TableProviderFactory::new_with_ffi_codec(Arc::new(factory), None, codec);
        PyCapsule::new_with_value(py, factory, capsules::TABLE_FACTORY)
    }
}

/// Returns `true` for a format that every session has.
fn is_common(format: &str) -> bool {
    SessionStateDefaults::default_table_factories().contains_key(format)
}
