//! Several ranges of objects: which of them share a request.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;

use crate::error::{Error, Result};
use crate::format::io::remote::object::RemoteObject;

/// Maximum number of bytes between two ranges that are fetched by one request.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Maximum number of bytes of a request for several ranges.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// The bytes of several ranges.
#[derive(Debug)]
pub(crate) struct FetchedRanges {
    /// The bytes of each range.
    pub parts: Vec<Bytes>,
    pub requests: u64,
    pub bytes_fetched: u64,
}

/// Fetches ranges of an object at the same time, with one request for those that are close to each other.
/// Ranges that are in memory take none.
/// Must run on the thread of requests.
pub(crate) async fn fetch_ranges(
    object: &Arc<RemoteObject>,
    ranges: &[Range<u64>],
) -> Result<FetchedRanges> {
    // The requests for ranges that are not in the object fail.
    let is_valid = |range: &Range<u64>| range.start <= range.end && range.end <= object.size();
    let kept = |range| is_valid(range).then(|| object.kept(range)).flatten();
    let mut parts: Vec<Option<Bytes>> = ranges.iter().map(kept).collect();
    let is_missing = |number: &usize| parts[*number].is_none();
    let missing: Vec<usize> = (0..ranges.len()).filter(is_missing).collect();
    let of_missing = missing
        .iter()
        .map(|number| Some((0, ranges[*number].clone())));
    let requests = merged(&of_missing.collect::<Vec<_>>());
    let fetches = requests.into_iter().map(|group| {
        let numbers = group.into_iter().map(|number| missing[number]);
        numbers.collect::<Vec<usize>>()
    });
    let fetches = fetches.map(|numbers| async move {
        let ends = numbers.iter().map(|number| ranges[*number].end);
        let covered = ranges[numbers[0]].start..ends.max().unwrap_or(0);
        let found = match covered.is_empty() {
            true => Some(Bytes::new()),
            false => object.find(&covered).await,
        };
        let (bytes, requests) = match found {
            Some(bytes) => (bytes, 0),
            None => {
                let bytes = object.fetch(covered.clone()).await?;
                object.keep([(covered.clone(), bytes.clone())]).await;
                (bytes, 1)
            }
        };
        Ok::<_, Error>((numbers, covered.start, bytes, requests))
    });
    let (mut all_requests, mut bytes_fetched) = (0, 0);
    for (numbers, start, bytes, requests) in try_join_all(fetches).await? {
        all_requests += requests;
        bytes_fetched += requests * bytes.len() as u64;
        for number in numbers {
            let Range { start: from, end } = ranges[number];
            parts[number] = Some(bytes.slice((from - start) as usize..(end - start) as usize));
        }
    }
    Ok(FetchedRanges {
        // Every range was in memory or in a request.
        parts: parts.into_iter().map(Option::unwrap_or_default).collect(),
        requests: all_requests,
        bytes_fetched,
    })
}

/// Groups the numbers of ranges that one request should cover, each with the file it is in. `None`
/// stands for a request of its own.
pub(crate) fn merged(ranges: &[Option<(usize, Range<u64>)>]) -> Vec<Vec<usize>> {
    let in_files = (0..ranges.len()).filter(|number| ranges[*number].is_some());
    let mut order: Vec<usize> = in_files.collect();
    let key = |number: &usize| {
        ranges[*number]
            .as_ref()
            .map(|(file, range)| (*file, range.start))
    };
    order.sort_by_key(key);
    let others = (0..ranges.len()).filter(|number| ranges[*number].is_none());
    let mut groups: Vec<Vec<usize>> = others.map(|number| vec![number]).collect();
    let mut last: Option<(usize, Range<u64>)> = None;
    for number in order {
        let Some((file, range)) = ranges[number].clone() else {
            continue;
        };
        match (&mut last, groups.last_mut()) {
            (Some((of, covered)), Some(group))
                if *of == file
                    && range.start <= covered.end.saturating_add(MAX_GAP_BYTES)
                    && range.end.max(covered.end) - covered.start <= MAX_REQUEST_BYTES =>
            {
                covered.end = covered.end.max(range.end);
                group.push(number);
            }
            _ => {
                groups.push(vec![number]);
                last = Some((file, range));
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_of_a_file_are_one_request() {
        let near = 4 + MAX_GAP_BYTES;
        let far = near + 10 + MAX_GAP_BYTES + 1;
        let ranges = [
            Some((1, near..near + 10)),
            None,
            Some((1, 0..4)),
            Some((2, 4..8)),
            Some((1, far..far + 1)),
            Some((1, 2..3)),
        ];
        assert_eq!(merged(&ranges), [vec![1], vec![2, 5, 0], vec![4], vec![3]]);
        let large = [
            Some((1, 0..MAX_REQUEST_BYTES)),
            Some((1, MAX_REQUEST_BYTES..MAX_REQUEST_BYTES + 1)),
        ];
        assert_eq!(merged(&large).len(), 2);
        assert!(merged(&[]).is_empty());
    }
}
