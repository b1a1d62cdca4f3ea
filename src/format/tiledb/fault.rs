//! Errors of decoders, which do not know the file that their bytes come from.

pub(crate) use crate::format::fault::Fault;

/// The result type of decoders.
pub(crate) type Decoded<T> = Result<T, Fault>;
