//! Functions that wrap a function of DataFusion, and change only some of its methods.

/// Implements the methods that describe a function by those of the field `inner`: its name, signature,
/// return type and documentation. Both scalar and aggregate functions have these methods.
macro_rules! forward_to_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

pub(in crate::provider::functions) use forward_to_inner;
