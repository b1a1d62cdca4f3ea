//! Many sessions read a path while a writer replaces the file.
//!
//! `TET_SQL_CONCURRENCY_SECONDS` sets the duration.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::prelude::SessionContext;
use tet_sql::provider::error::describe;
use tet_sql::{Access, ArrayOptions, ArrayTable, enable_arrays};

use super::number;
use super::versions::{self, numbers, queries, version_of_answer};
use crate::tables::exploded::Random;

const READERS: u64 = 8;

/// State shared by all tasks.
struct Shared {
    path: PathBuf,
    /// The last version that has replaced the file.
    written: AtomicI64,
    /// The last version whose writing has begun.
    begun: AtomicI64,
    is_over: AtomicBool,
    sessions: AtomicU64,
    queries: AtomicU64,
    /// Number of answers from a version that is no longer the last one, which is allowed.
    older: AtomicU64,
    replaced: AtomicU64,
}

fn new_session(access: Access) -> SessionContext {
    enable_arrays(
        SessionContext::new(),
        ArrayOptions::new().with_access(access),
    )
}

/// Reads until the writer is done, each time in a new session or in one that is kept.
async fn read(shared: Arc<Shared>, reader: u64) {
    let mut random = Random(reader + 1);
    let path = shared.path.to_str().unwrap();
    let quoted = format!("'{path}'");
    let kept = [Access::Mmap, Access::Pread].map(new_session);
    while !shared.is_over.load(Ordering::Relaxed) {
        let access = *random.pick(&[Access::Mmap, Access::Pread]);
        let before = shared.written.load(Ordering::SeqCst);
        // A new session, or one that has seen many versions. The table is a quoted path, or a
        // registered table that is queried repeatedly.
        let ctx = match random.below(2) {
            0 => new_session(access),
            _ => kept[usize::from(access == Access::Pread)].clone(),
        };
        let name = format!("v{reader}");
        let is_registered = random.below(2) == 0;
        let table = match is_registered {
            false => &quoted,
            true => {
                let options = ArrayOptions::new().with_access(access);
                let table = ArrayTable::open(&shared.path, &options);
                let table = table.unwrap_or_else(|error| panic!("opening: {error}"));
                ctx.register_table(&name, Arc::new(table)).unwrap();
                &name
            }
        };
        shared.sessions.fetch_add(1, Ordering::Relaxed);
        let mut opened: Option<i64> = None;
        for _ in 0..1 + random.below(4) {
            let all = queries(table);
            let query = random.pick(&all);
            let answered = async { ctx.sql(&query.sql).await?.collect().await };
            let answered = answered.await;
            let after = shared.begun.load(Ordering::SeqCst);
            shared.queries.fetch_add(1, Ordering::Relaxed);
            match answered {
                Ok(batches) => {
                    let answer = numbers(&batches);
                    let version = version_of_answer(query, &answer, before..=after);
                    let version = version.unwrap_or_else(|| {
                        panic!("{}, versions {before} to {after}: {answer:?}", query.sql)
                    });
                    if version < after {
                        shared.older.fetch_add(1, Ordering::Relaxed);
                    }
                    // A registered table keeps its version.
                    if is_registered {
                        assert_eq!(*opened.get_or_insert(version), version, "{}", query.sql);
                    }
                }
                Err(error) => {
                    let text = describe(&error);
                    let is_clear = text.contains(path) && text.contains("replaced or changed");
                    assert!(is_clear, "{}: {text}", query.sql);
                    shared.replaced.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        ctx.deregister_table(&name).unwrap();
    }
}

/// Writes one version after another until `end`.
async fn write(shared: Arc<Shared>, end: Instant) {
    let ctx = new_session(Access::Mmap);
    let mut random = Random(99);
    let mut version = 0;
    while Instant::now() < end {
        version += 1;
        shared.begun.store(version, Ordering::SeqCst);
        match random.below(3) {
            0 => {
                let sql = versions::copy(&shared.path, version);
                ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            }
            _ => write_apart(&shared.path, version).await,
        }
        shared.written.store(version, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(random.below(20) as u64)).await;
    }
    shared.is_over.store(true, Ordering::Relaxed);
}

async fn write_apart(path: &Path, version: i64) {
    let path = path.to_path_buf();
    let written = tokio::task::spawn_blocking(move || versions::write(&path, version));
    written.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_one_version_each() {
    let folder = tempfile::tempdir().unwrap();
    let shared = Arc::new(Shared {
        path: folder.path().join("a.tet"),
        written: AtomicI64::new(0),
        begun: AtomicI64::new(0),
        is_over: AtomicBool::new(false),
        sessions: AtomicU64::new(0),
        queries: AtomicU64::new(0),
        older: AtomicU64::new(0),
        replaced: AtomicU64::new(0),
    });
    versions::write(&shared.path, 0);
    let seconds = Duration::from_secs(number("TET_SQL_CONCURRENCY_SECONDS", 5));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| tokio::spawn(read(Arc::clone(&shared), reader)))
        .collect();
    write(Arc::clone(&shared), Instant::now() + seconds).await;
    for reader in readers {
        reader.await.unwrap();
    }
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    eprintln!(
        "{} versions, {} sessions, {} queries, {} of them of an older version, {} refused",
        shared.written.load(Ordering::Relaxed),
        count(&shared.sessions),
        count(&shared.queries),
        count(&shared.older),
        count(&shared.replaced)
    );
    assert!(count(&shared.queries) > 0);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}
