//! Checks of the footers of Parquet files.
//!
//! DataFusion 55 panics if the length of a footer exceeds the file.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use futures::{StreamExt, TryStreamExt, stream};

use crate::provider::error::{invalid_file, quoted};

/// The bytes at the end of a file: the length of the footer, and the magic.
const TAIL: u64 = 8;
/// The bytes of the magic at both ends, and of the length of the footer.
const FRAME: u64 = 12;
/// The magic at the end of a file, without and with an encrypted footer.
const MAGIC: [&[u8]; 2] = [b"PAR1", b"PARE"];

/// Checks that the footers of Parquet files lie inside the files. Footers in DataFusion's cache have been checked before.
///
/// # Errors
/// Returns an error that names a file without such a footer.
pub(in crate::provider) async fn check_footers(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<()> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let mut checks = Vec::new();
    for file in files {
        let cached = cache.get(&file.location);
        if !cached.is_some_and(|cached| cached.is_valid_for(file)) {
            checks.push(check(store, file));
        }
    }
    let limit = state.config_options().execution.meta_fetch_concurrency;
    let checks = stream::iter(checks).buffer_unordered(limit.into());
    checks.try_collect().await
}

async fn check(store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<()> {
    let size = file.size;
    let invalid = |text: String| -> Result<()> { Err(invalid_file(&file.location, text).into()) };
    let Some(max_length) = size.checked_sub(FRAME) else {
        return invalid(format!(
            "not a Parquet file, or truncated: the file has {size} bytes, expected at least {FRAME}"
        ));
    };
    let tail = store.get_range(&file.location, size - TAIL..size).await?;
    match tail.split_first_chunk() {
        Some((length, magic)) if MAGIC.contains(&magic) => {
            let length = u32::from_le_bytes(*length);
            match u64::from(length) <= max_length {
                true => Ok(()),
                false => invalid(format!(
                    "a damaged Parquet file: its footer has {length} bytes, in a file of {size} bytes"
                )),
            }
        }
        other => invalid(format!(
            "not a Parquet file, or truncated: found {}, expected \"PAR1\" at its end",
            quoted(other.map_or(&[][..], |(_, magic)| magic))
        )),
    }
}
