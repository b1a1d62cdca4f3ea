//! Files that are written here, compared with those of the reference and read back.

mod collections;
mod input;
mod random;
mod reference;
mod refusals;
