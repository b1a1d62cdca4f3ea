//! Calls that wait for requests, several at a time.

use std::path::Path;

use crate::error::{Error, Result};

/// The maximum number of calls at the same time.
const AT_A_TIME: usize = 16;

/// Calls a function with each item, on several threads, because each call waits for requests most of the
/// time. Returns the results in the order of the items, or the first error in this order. `path` is the
/// place that is read.
///
/// # Errors
/// Returns the errors of the function.
pub(crate) fn call_all<I: Sync, T: Send>(
    path: &Path,
    items: &[I],
    function: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if items.len() <= 1 {
        return items.iter().map(function).collect();
    }
    let function = &function;
    let size = items.len().div_ceil(AT_A_TIME);
    std::thread::scope(|scope| {
        let threads = items
            .chunks(size)
            .map(|part| scope.spawn(move || part.iter().map(function).collect::<Result<Vec<_>>>()));
        let threads: Vec<_> = threads.collect();
        let mut results = Vec::with_capacity(items.len());
        for thread in threads {
            let panicked = |_| Error::invalid(path, "cannot be read: internal error");
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
        let doubled = call_all(path, &items, |item| Ok(item * 2)).unwrap();
        assert!(doubled.into_iter().eq((0..100).map(|item| item * 2)));
        let fails = |item: &u64| match item {
            20.. => Err(Error::invalid(path, format!("item {item}"))),
            _ => Ok(()),
        };
        let error = call_all(path, &items, fails).unwrap_err().to_string();
        assert!(error.contains("item 20"), "{error}");
        assert!(call_all(path, &[], fails).unwrap().is_empty());
    }
}
