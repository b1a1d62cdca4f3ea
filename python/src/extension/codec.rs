//! Encodes tables, functions and plans for the package `datafusion`, and decodes them again.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, exec_err, not_impl_err};
use datafusion::execution::{FunctionRegistry, SessionStateDefaults, TaskContext};
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_ffi::udaf::ForeignAggregateUDF;
use datafusion_ffi::udf::ForeignScalarUDF;
use datafusion_ffi::udwf::ForeignWindowUDF;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::handles::Handles;
use super::plan::SessionPlan;

/// The tables of plans that are being planned.
static TABLES: Handles<Arc<dyn TableProvider>> = Handles::new();

/// The plans on the way to the package `datafusion`.
static PLANS: Handles<Arc<dyn ExecutionPlan>> = Handles::new();

/// The names of the functions that every session has.
static FUNCTIONS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let scalar = SessionStateDefaults::default_scalar_functions();
    let aggregate = SessionStateDefaults::default_aggregate_functions();
    let window = SessionStateDefaults::default_window_functions();
    let scalar = scalar.iter().map(|function| function.name().to_owned());
    let aggregate = aggregate.iter().map(|function| function.name().to_owned());
    let window = window.iter().map(|function| function.name().to_owned());
    scalar.chain(aggregate).chain(window).collect()
});

/// Returns `true` for the name of a function that every session has.
pub(super) fn is_built_in(name: &str) -> bool {
    FUNCTIONS.contains(name)
}

/// The message of a function that the session has.
const OF_SESSION: &[u8] = b"session";

/// Encodes tables and plans as handles, and functions of DataFusion as those of the session.
///
/// The package encodes a logical plan to pass it to the planner. Its functions would arrive as foreign
/// ones, which no rule recognises. Functions in Python never reach this codec: the package encodes
/// them itself.
pub struct HandleCodec {
    context: SessionContext,
}

impl HandleCodec {
    pub fn new(context: SessionContext) -> Self {
        Self { context }
    }
}

impl fmt::Debug for HandleCodec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HandleCodec")
            .finish_non_exhaustive()
    }
}

/// Marks the message of a function if the session has that function.
fn encode_function(name: &str, is_foreign: bool, message: &mut Vec<u8>) -> Result<()> {
    // A function of another library may have the name of a function of the session.
    if !is_foreign || is_built_in(name) {
        message.extend_from_slice(OF_SESSION);
    }
    Ok(())
}

/// Refuses the message of a function that the session does not have.
fn check_function(name: &str, message: &[u8]) -> Result<()> {
    match message == OF_SESSION {
        true => Ok(()),
        false => not_impl_err!("tet_sql has not encoded the function {name}"),
    }
}

impl LogicalExtensionCodec for HandleCodec {
    fn try_decode(
        &self,
        _message: &[u8],
        _inputs: &[LogicalPlan],
        _context: &TaskContext,
    ) -> Result<Extension> {
        not_impl_err!("tet_sql has no logical operators")
    }

    fn try_encode(&self, _node: &Extension, _message: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("tet_sql has no logical operators")
    }

    fn try_decode_table_provider(
        &self,
        message: &[u8],
        _name: &TableReference,
        _schema: SchemaRef,
        _context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        TABLES.decode(message)
    }

    /// Encodes any table: tables of the package in memory have no encoding of their own.
    fn try_encode_table_provider(
        &self,
        _name: &TableReference,
        table: Arc<dyn TableProvider>,
        message: &mut Vec<u8>,
    ) -> Result<()> {
        *message = TABLES.encode(table);
        Ok(())
    }

    fn try_encode_udf(&self, function: &ScalarUDF, message: &mut Vec<u8>) -> Result<()> {
        let is_foreign = function.inner().is::<ForeignScalarUDF>();
        encode_function(function.name(), is_foreign, message)
    }

    fn try_decode_udf(&self, name: &str, message: &[u8]) -> Result<Arc<ScalarUDF>> {
        check_function(name, message)?;
        self.context.udf(name)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, message: &mut Vec<u8>) -> Result<()> {
        let is_foreign = function.inner().is::<ForeignAggregateUDF>();
        encode_function(function.name(), is_foreign, message)
    }

    fn try_decode_udaf(&self, name: &str, message: &[u8]) -> Result<Arc<AggregateUDF>> {
        check_function(name, message)?;
        self.context.udaf(name)
    }

    fn try_encode_udwf(&self, function: &WindowUDF, message: &mut Vec<u8>) -> Result<()> {
        let is_foreign = function.inner().is::<ForeignWindowUDF>();
        encode_function(function.name(), is_foreign, message)
    }

    fn try_decode_udwf(&self, name: &str, message: &[u8]) -> Result<Arc<WindowUDF>> {
        check_function(name, message)?;
        self.context.udwf(name)
    }
}

impl PhysicalExtensionCodec for HandleCodec {
    fn try_decode(
        &self,
        message: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !inputs.is_empty() {
            return exec_err!(
                "a plan of tet_sql has {} inputs, expected none",
                inputs.len()
            );
        }
        PLANS.decode(message)
    }

    fn try_encode(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        message: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if plan.downcast_ref::<SessionPlan>().is_none() {
            return not_impl_err!("{} is not a plan of tet_sql", plan.name());
        }
        *message = PLANS.encode(plan);
        Ok(())
    }
}
