//! Handles: objects that pass through messages within a process.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, PoisonError};

use datafusion::common::{Result, exec_err};

/// The number of objects that are kept. More than a plan has, so that only the objects of messages that
/// were never decoded are dropped.
const CAPACITY: usize = 4096;

/// Objects that messages refer to. Decoding a message takes its object.
pub struct Handles<T> {
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    next: u64,
    objects: BTreeMap<u64, T>,
}

impl<T> Handles<T> {
    pub const fn new() -> Self {
        Self {
            kept: Mutex::new(Kept {
                next: 0,
                objects: BTreeMap::new(),
            }),
        }
    }

    /// Keeps an object, and returns its message.
    pub fn encode(&self, object: T) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.next;
        kept.next += 1;
        kept.objects.insert(number, object);
        // Dropped outside of the lock, since dropping an object may call another library.
        let dropped = match kept.objects.len() > CAPACITY {
            true => kept.objects.pop_first(),
            false => None,
        };
        drop(kept);
        drop(dropped);
        let mut message = process::id().to_le_bytes().to_vec();
        message.extend(number.to_le_bytes());
        message
    }

    /// Takes the object of a message.
    ///
    /// # Errors
    /// Returns an error if the message is from another process, or was decoded before.
    pub fn decode(&self, message: &[u8]) -> Result<T> {
        let parts = message
            .split_first_chunk::<4>()
            .and_then(|(process, number)| Some((*process, <[u8; 8]>::try_from(number).ok()?)));
        let Some((process, number)) = parts else {
            return exec_err!(
                "a message of tet_sql has {} bytes, expected 12",
                message.len()
            );
        };
        let process = u32::from_le_bytes(process);
        if process != process::id() {
            return exec_err!(
                "a plan with tables of tet_sql was made by process {process}, and cannot be used by process {}",
                process::id()
            );
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.objects.remove(&u64::from_le_bytes(number)) {
            Some(object) => Ok(object),
            None => exec_err!("a serialized plan with tables of tet_sql can be used only once"),
        }
    }
}
