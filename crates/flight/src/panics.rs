//! Logs panics in one line, except panics caused by the bytes of a client.

use crate::log::Log;
use crate::status::wrong;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use tonic::Status;

thread_local! {
    /// `true` while a panic of this thread becomes an error for a client and must not be logged.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Installs a panic hook that logs each panic in one line. With the environment variable
/// `RUST_BACKTRACE`, the previous hook writes the panic instead.
///
/// The hook applies to the whole process. It also hides panics that decoding the bytes of a client
/// can cause; the client receives an error instead.
pub fn log_briefly(log: Log) {
    let wants_backtrace = std::env::var("RUST_BACKTRACE").is_ok_and(|value| value != "0");
    let verbose = take_hook();
    set_hook(Box::new(move |panic| {
        if IS_EXPECTED.get() {
            return;
        }
        match wants_backtrace {
            true => verbose(panic),
            false => log.note(&brief(panic)),
        }
    }));
}

fn brief(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or_default();
    let message = message.lines().next().unwrap_or_default();
    match panic.location() {
        Some(location) => format!("internal error at {location}: {message}"),
        None => format!("internal error: {message}"),
    }
}

/// Decodes bytes from a client, turning panics into errors. Arrow reports most invalid data as
/// errors but panics on some.
pub fn untrusted<T>(decode: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    IS_EXPECTED.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    IS_EXPECTED.set(false);
    decoded.unwrap_or_else(|_| Err(wrong("the parameters are invalid")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_client() {
        let broken = untrusted::<()>(|| panic!("about bytes"));
        assert_eq!(broken.unwrap_err().message(), "the parameters are invalid");
        assert!(!IS_EXPECTED.get());
        assert_eq!(untrusted(|| Ok(7)).unwrap(), 7);
    }
}
