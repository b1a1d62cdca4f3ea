//! The parameters bound to prepared statements.
//!
//! They are the only state kept between requests, because some clients ignore the new handle that
//! could carry the parameters.

use crate::status::status;
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tonic::{Code, Status};
use uuid::Uuid;

/// The time after which unused parameters are deleted.
const IDLE: Duration = Duration::from_secs(3600);
/// The maximum number of statements with parameters.
const STATEMENTS: usize = 4096;
/// The maximum size of all parameters in bytes.
const BYTES: usize = 64 << 20;

/// The parameters of each prepared statement that has any.
#[derive(Debug, Default)]
pub struct Bindings(Mutex<HashMap<Uuid, Binding>>);

#[derive(Debug)]
struct Binding {
    parameters: Bytes,
    used: Instant,
}

impl Bindings {
    /// Binds parameters to a statement, replacing earlier ones.
    pub fn bind(&self, statement: Uuid, parameters: Bytes) -> Result<(), Status> {
        let mut bindings = self.lock();
        bindings.retain(|_, binding| binding.used.elapsed() < IDLE);
        let others = bindings.iter().filter(|(id, _)| **id != statement);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), (_, binding)| {
            (count + 1, bytes + binding.parameters.len())
        });
        if count >= STATEMENTS || bytes + parameters.len() > BYTES {
            return Err(status(
                Code::ResourceExhausted,
                "resource exhausted: too many prepared statements have parameters; close some",
            ));
        }
        let used = Instant::now();
        bindings.insert(statement, Binding { parameters, used });
        Ok(())
    }

    /// Returns the parameters bound to a statement.
    pub fn of(&self, statement: Uuid) -> Option<Bytes> {
        let mut bindings = self.lock();
        let binding = bindings.get_mut(&statement)?;
        binding.used = Instant::now();
        Some(binding.parameters.clone())
    }

    /// Deletes the parameters of a statement.
    pub fn release(&self, statement: Uuid) {
        self.lock().remove(&statement);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Binding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_bounded() {
        let bindings = Bindings::default();
        let id = Uuid::from_u128;
        let half = Bytes::from(vec![0; BYTES / 2]);
        bindings.bind(id(1), half.clone()).unwrap();
        bindings.bind(id(1), half.clone()).unwrap();
        bindings.bind(id(2), half.clone()).unwrap();
        assert!(bindings.bind(id(3), Bytes::from_static(b"x")).is_err());
        bindings.release(id(1));
        bindings.bind(id(3), Bytes::from_static(b"x")).unwrap();
        assert_eq!(bindings.of(id(3)).as_deref(), Some(&b"x"[..]));
        assert_eq!(bindings.of(id(1)), None);
        for number in 4..STATEMENTS as u128 + 2 {
            bindings.bind(id(number), Bytes::new()).unwrap();
        }
        assert!(bindings.bind(id(0), Bytes::new()).is_err());
    }
}
