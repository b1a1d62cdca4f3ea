//! Calls on several threads.

use std::path::Path;

use crate::error::{Error, Result};

/// The maximum number of calls at the same time that wait for requests.
#[cfg(all(feature = "remote", any(feature = "tatami", feature = "tiledb")))]
const REQUESTS: usize = 16;

/// Calls a function with each item like [`call_on`], on several threads because each call waits for requests
/// most of the time.
///
/// # Errors
/// Returns the errors of the function.
#[cfg(all(feature = "remote", any(feature = "tatami", feature = "tiledb")))]
pub(crate) fn call_all<'a, I: Sync, T: Send>(
    path: &Path,
    items: &'a [I],
    function: impl Fn(&'a I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    call_on(REQUESTS, path, items, function)
}

/// Calls a function with each item on up to `threads` threads. Returns the results in the order of the items,
/// or the first error in this order. `path` is the place that is read or written.
///
/// # Errors
/// Returns the errors of the function.
pub(crate) fn call_on<'a, I: Sync, T: Send, E: From<Error> + Send>(
    threads: usize,
    path: &Path,
    items: &'a [I],
    function: impl Fn(&'a I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if threads.min(items.len()) <= 1 {
        return items.iter().map(function).collect();
    }
    let function = &function;
    let size = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let threads = items.chunks(size).map(|part| {
            scope.spawn(move || part.iter().map(function).collect::<Result<Vec<_>, E>>())
        });
        let threads: Vec<_> = threads.collect();
        let mut results = Vec::with_capacity(items.len());
        for thread in threads {
            let panicked = |_| Error::invalid(path, "internal error in a thread");
            results.extend(thread.join().map_err(panicked)??);
        }
        Ok(results)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_in_the_order_of_the_items() {
        let path = Path::new("a");
        let items: Vec<u64> = (0..100).collect();
        let doubled = call_on(16, path, &items, |item| Ok::<_, Error>(item * 2)).unwrap();
        assert!(doubled.into_iter().eq((0..100).map(|item| item * 2)));
        let fails = |item: &u64| match item {
            20.. => Err(Error::invalid(path, format!("item {item}"))),
            _ => Ok(()),
        };
        let error = call_on(16, path, &items, fails).unwrap_err().to_string();
        assert!(error.contains("item 20"), "{error}");
        assert!(call_on(16, path, &[], fails).unwrap().is_empty());
    }
}
