//! Arrays in object stores and on HTTP servers.

mod answers;
mod cached;
mod command;
mod copies;
mod directories;
mod faults;
#[cfg(feature = "zarr")]
mod images;
#[cfg(feature = "tiledb")]
mod logged;
#[cfg(feature = "zarr")]
mod references;
mod requests;
mod rows;
mod stores;
#[cfg(feature = "tiledb")]
mod tiles;

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype};
use tet_sql::{ArrayOptions, LazyStores, enable_arrays};

use crate::cells;
use crate::support::sql::write;

/// Creates a session that creates object stores on first use.
fn session() -> SessionContext {
    with_partitions(1)
}

fn with_partitions(partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_information_schema(true);
    let runtime = LazyStores::runtime().unwrap();
    let ctx = SessionContext::new_with_config_rt(config, runtime);
    enable_arrays(ctx, ArrayOptions::new())
}

/// The values of [`write_grid`]: far from compressible, so that chunks keep their size.
fn value(index: usize) -> f32 {
    (index as u32).wrapping_mul(2_654_435_761) as f32 / 1e6
}

/// Writes an array `t` of `times` x 64 x 64 cells, one chunk of 16 KiB per time.
fn write_grid(path: &Path, times: usize, compression: Compression) {
    let shape = [times as u64, 64, 64];
    let cells = (0..times * 64 * 64).map(value);
    let spec = DatasetSpec::new("t", Dtype::F32, &shape, &[1, 64, 64])
        .with_dim_names(["time", "y", "x"])
        .with_compression(compression);
    write(path, &[(spec, cells!(cells))]);
}

/// Puts the files of a directory into a store.
pub async fn put_directory(store: &InMemory, directory: &Path) {
    let mut directories = vec![directory.to_path_buf()];
    while let Some(next) = directories.pop() {
        for entry in next.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
            let content = std::fs::read(&path).unwrap();
            store
                .put(&ObjectPath::from(name), content.into())
                .await
                .unwrap();
        }
    }
}
