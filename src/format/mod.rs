//! Container formats: bytes to structures and back. Nothing here knows Arrow, DataFusion or SQL.

pub mod storage;
pub mod tet;
