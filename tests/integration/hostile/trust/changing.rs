//! Files that change while they are open. An answer comes from the file that was opened, or is an
//! error.

use std::fs::File;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tet_sql::provider::error::describe;
use tet_sql::{Access, ArrayOptions};
use tokio::sync::Mutex;

use super::versions::{self, CELLS, numbers, of_values, queries, version_of_answer};
use crate::support::sql::open;

/// Held by each test of this module, because the process has one pool of open files.
static OPEN_FILES: Mutex<()> = Mutex::const_new(());
const BOTH: [Access; 2] = [Access::Mmap, Access::Pread];

async fn session(path: &Path, access: Access) -> SessionContext {
    let ctx = open(path, ArrayOptions::new().with_access(access)).await;
    // Small batches, so that a scan is far from its end when its first rows arrive.
    ctx.sql("SET datafusion.execution.batch_size = 32")
        .await
        .unwrap();
    ctx
}

/// Runs each query, and returns the version that its answer belongs to, or an error that names the
/// file.
async fn ask(ctx: &SessionContext, path: &Path, last: i64) -> Vec<Result<i64, String>> {
    let mut found = Vec::new();
    for query in queries("v") {
        let answered = async { ctx.sql(&query.sql).await?.collect().await };
        found.push(match answered.await {
            Ok(batches) => {
                let answer = numbers(&batches);
                let version = version_of_answer(&query, &answer, 0..=last);
                Ok(version.unwrap_or_else(|| panic!("{}: {answer:?}", query.sql)))
            }
            Err(error) => {
                let text = describe(&error);
                assert!(text.contains(path.to_str().unwrap()), "{text}");
                Err(text)
            }
        });
    }
    found
}

/// Starts a scan of all rows, and returns the stream with the values of its first batch.
async fn started(ctx: &SessionContext) -> (SendableRecordBatchStream, Vec<i64>) {
    let frame = ctx.sql("SELECT value FROM v").await.unwrap();
    let mut stream = frame.execute_stream().await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let values = first
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec();
    (stream, values)
}

async fn rest(mut stream: SendableRecordBatchStream, values: &mut Vec<i64>) -> Result<(), String> {
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| describe(&error))?;
        values.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(())
}

/// Truncates a file in place, so that its last chunks are lost. Returns the new length.
fn truncate(path: &Path) -> u64 {
    let file = File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len() / 2;
    file.set_len(length).unwrap();
    length
}

#[tokio::test]
async fn truncated_files_are_errors() {
    let _alone = OPEN_FILES.lock().await;
    let folder = tempfile::tempdir().unwrap();
    for version in 0..4 {
        let path = folder.path().join(format!("{version}.tet"));
        versions::write(&path, version);
        let ctx = session(&path, Access::Pread).await;
        let (stream, mut values) = started(&ctx).await;
        let length = truncate(&path);
        let error = rest(stream, &mut values).await.unwrap_err();
        let expected = format!("now {length} bytes");
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(of_values(values), Ok(version));
        let answers = ask(&ctx, &path, version).await;
        let failed = answers.iter().flatten().count() < answers.len();
        assert!(failed, "{answers:?}");
        for answer in answers {
            match answer {
                Ok(found) => assert_eq!(found, version),
                Err(error) => assert!(error.contains(&expected), "{error}"),
            }
        }
    }
}

#[tokio::test]
async fn appended_bytes_do_not_change_answers() {
    use std::io::Write;
    let _alone = OPEN_FILES.lock().await;
    let folder = tempfile::tempdir().unwrap();
    for version in 0..4 {
        for access in BOTH {
            let path = folder.path().join(format!("{version}{access}.tet"));
            versions::write(&path, version);
            let ctx = session(&path, access).await;
            let (stream, mut values) = started(&ctx).await;
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(&[7; 100_000]).unwrap();
            rest(stream, &mut values).await.unwrap();
            assert_eq!(values.len() as i64, CELLS);
            assert_eq!(of_values(values), Ok(version));
            for answer in ask(&ctx, &path, version).await {
                assert_eq!(answer, Ok(version));
            }
        }
    }
}

/// Replaces the file, with a `TetWriter` or with COPY in the session that has the file open.
async fn replace(ctx: &SessionContext, path: &Path, version: i64) {
    match version % 2 {
        0 => versions::write(path, version),
        _ => {
            let sql = versions::copy(path, version);
            ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_replaced_file_is_read_to_its_end() {
    let _alone = OPEN_FILES.lock().await;
    let folder = tempfile::tempdir().unwrap();
    for access in BOTH {
        let path = folder.path().join(format!("{access}.tet"));
        versions::write(&path, 0);
        for version in 1..5 {
            let ctx = session(&path, access).await;
            let (stream, mut values) = started(&ctx).await;
            replace(&ctx, &path, version).await;
            rest(stream, &mut values).await.unwrap();
            assert_eq!(values.len() as i64, CELLS);
            assert_eq!(of_values(values), Ok(version - 1));
            for answer in ask(&ctx, &path, version).await {
                assert_eq!(answer, Ok(version - 1));
            }
            // A query by path reads the current file.
            let sql = format!("SELECT value FROM '{}'", path.display());
            let batches = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
            let values = numbers(&batches).into_iter().flatten();
            assert_eq!(of_values(values), Ok(version));
        }
    }
}

/// The process keeps a limited number of files open. A table whose file was closed and replaced
/// cannot read it again.
#[tokio::test]
async fn a_replaced_file_that_was_closed_is_an_error() {
    let _alone = OPEN_FILES.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    for access in BOTH {
        versions::write(&path, 0);
        let ctx = session(&path, access).await;
        versions::write(&path, 1);
        // Twice as many files as are kept open, each read twice, so that the file of the table is
        // closed.
        let others: Vec<_> = (0..520)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, "some").unwrap();
                tet_sql::format::io::storage::Storage::open(&path).unwrap()
            })
            .collect();
        for other in others.iter().chain(&others) {
            other.read_at(0, &mut [0; 4]).unwrap();
        }
        let answers = ask(&ctx, &path, 1).await;
        for answer in &answers {
            match answer {
                Ok(found) => assert_eq!(*found, 0),
                Err(error) => assert!(error.contains("replaced or changed"), "{error}"),
            }
        }
        assert!(answers.iter().any(Result::is_err), "{answers:?}");
    }
}
