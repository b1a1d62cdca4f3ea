//! Files and queries made to cost more than they should.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;
use tet_sql::format::tet::{
    ChunkReader, Compression, DatasetSpec, Dtype, OpenOptions, TetFile, TetWriter,
};
use tet_sql::{Access, ArrayOptions, ArraySchema, ArraySessionExt};

use crate::support::sql;

/// Writes a file of one dataset `a` in a temporary directory, which is deleted when the returned
/// guard is dropped.
fn file(spec: DatasetSpec, cells: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.tet");
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, cells).unwrap();
    writer.finish().unwrap();
    (folder, path)
}

/// Adds a footer to a file that has none.
fn add_footer(path: &Path, json: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[12] = 1;
    bytes.extend_from_slice(json.as_bytes());
    bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&2u32.to_le_bytes());
    bytes.extend_from_slice(b"THST");
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn overlong_labels_are_left_out_with_a_warning() {
    for label in [format!("0.{}1", "0".repeat(70_000)), "x".repeat(300_000)] {
        let (_folder, path) = file(DatasetSpec::new("a", Dtype::U8, &[1], &[1]), &[7]);
        add_footer(
            &path,
            &format!(
                r#"{{"metadata":{{"datasets":{{"a":{{"coords":{{"0":{{"labels":["{label}"]}}}}}}}}}}}}"#
            ),
        );
        let schema = ArraySchema::open("f", &path, ArrayOptions::new()).unwrap();
        assert_eq!(schema.warnings().len(), 1);
        assert!(
            schema.warnings()[0].contains("more than 1024 bytes"),
            "{:?}",
            schema.warnings()
        );
    }
}

#[test]
fn impossible_chunk_indices_and_shapes_are_errors() {
    let (_folder, path) = file(DatasetSpec::new("a", Dtype::U8, &[2, 2], &[1, 1]), &[7; 4]);
    let good = std::fs::read(&path).unwrap();
    let open = || TetFile::open(&path, OpenOptions::default()).unwrap();
    for chunk in [&[0][..], &[2, 0], &[0; 3], &[0; 20], &[u64::MAX; 2]] {
        let opened = open();
        let dataset = opened.dataset("a").unwrap();
        let error = opened.chunk_row(dataset, chunk, Access::Mmap).unwrap_err();
        assert!(
            error.to_string().contains("no row for this chunk"),
            "{error}"
        );
    }
    // The chunk extents are the last 16 bytes of the directory: 40 + 24 for the head and the name +
    // 16 for the shape.
    let mut bytes = good;
    assert_eq!(bytes[80], 1);
    bytes[80] = 0;
    std::fs::write(&path, bytes).unwrap();
    let opened = open();
    let dataset = opened.dataset("a").unwrap();
    let error = opened
        .chunk_row(dataset, &[0, 0], Access::Mmap)
        .unwrap_err();
    assert!(
        error.to_string().contains("chunk_shape is [0, 1]"),
        "{error}"
    );
}

/// Statistics answer queries without reading the chunk, even if it claims more cells than fit in
/// memory.
#[tokio::test]
async fn statistics_of_huge_chunks_answer_without_reading() {
    let cells = 1u64 << 40;
    for (is_missing, sums) in [
        (false, "7696581394432.0 7.0 7.0 0.0"),
        (true, "NULL NULL NULL NULL"),
    ] {
        let (_folder, path) = file(DatasetSpec::new("a", Dtype::F32, &[4], &[4]), &[0; 16]);
        let mut bytes = std::fs::read(&path).unwrap();
        // The shape of the array and the extent of the chunk.
        for at in [64, 72] {
            assert_eq!(bytes[at..at + 8], 4u64.to_le_bytes());
            bytes[at..at + 8].copy_from_slice(&cells.to_le_bytes());
        }
        let zone = match is_missing {
            true => format!(r#""null_count":{cells}"#),
            false => r#""null_count":0,"min_le":"0000e040","max_le":"0000e040""#.to_string(),
        };
        let zones = format!(
            r#"{{"version":1,"generation":0,"packed_sha256":"00","chunks":[{{"dataset_id":0,"chunk_index":[0],"element_count":{cells},{zone}}}]}}"#
        );
        let (offset, length) = (bytes.len(), zones.len());
        bytes.extend_from_slice(zones.as_bytes());
        std::fs::write(&path, bytes).unwrap();
        add_footer(
            &path,
            &format!(r#"{{"history":[],"zone_maps_ref":{{"offset":{offset},"len":{length}}}}}"#),
        );
        let ctx = sql::open(&path, ArrayOptions::new()).await;
        let whole = "SELECT sum(value), avg(value), min(value), stddev_pop(value) FROM a";
        assert_eq!(sql::rows(&ctx, whole).await, [sums]);
        let few = "SELECT dim_0 % 2 AS k, count(value), sum(value) FROM a WHERE dim_0 > 1099511627770 GROUP BY 1 ORDER BY 1";
        let expected = match is_missing {
            true => ["0 0 NULL", "1 0 NULL"],
            false => ["0 2 14.0", "1 3 21.0"],
        };
        assert_eq!(sql::rows(&ctx, few).await, expected);
        if !is_missing {
            let read = sql::error(&ctx, "SELECT sum(value * 2) FROM a").await;
            assert!(read.contains("chunk [0]"), "{read}");
        }
    }
}

/// Chunks above 32 MiB are decompressed in steps. The decompressed size that a payload claims must
/// not be allocated in advance.
#[test]
fn large_corrupt_payloads_are_errors() {
    let cells = 64u64 << 20;
    let spec = DatasetSpec::new("a", Dtype::U8, &[cells], &[cells])
        .with_compression(Compression::Zstd { level: 1 });
    let (_folder, path) = file(spec, &vec![0; cells as usize]);
    let mut bytes = std::fs::read(&path).unwrap();
    let payload = bytes.len() - 100;
    bytes[payload..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    for access in [Access::Mmap, Access::Pread] {
        let opened = Arc::new(TetFile::open(&path, OpenOptions::default()).unwrap());
        let mut reader = ChunkReader::new(Arc::<TetFile>::clone(&opened), access);
        reader.open(opened.dataset("a").unwrap(), &[0]).unwrap();
        let error = loop {
            match reader.advance() {
                Ok(ready) => assert!(!ready),
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        assert!(
            text.contains("dataset \"a\", chunk [0]: zstd payload is"),
            "{text}"
        );
    }
}

/// With one row per chunk, a batch takes long to fill. The scan still yields between chunks.
#[tokio::test]
async fn a_scan_can_be_cancelled_between_chunks() {
    let spec = DatasetSpec::new("a", Dtype::U8, &[500, 1000], &[1, 1000])
        .with_compression(Compression::Zstd { level: 1 });
    let (_folder, path) = file(spec, &vec![1; 500_000]);
    let ctx = SessionContext::new();
    ctx.register_array("a".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    let query = ctx
        .sql("SELECT value FROM a WHERE dim_1 = 5")
        .await
        .unwrap();
    let plan = query.create_physical_plan().await.unwrap();
    let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
    assert!(futures::poll!(stream.next()).is_pending());
    drop(stream);
    let metrics = plan
        .children()
        .first()
        .map_or(plan.metrics(), |child| child.metrics());
    let read = metrics
        .unwrap()
        .sum_by_name("chunks_read")
        .unwrap()
        .as_usize();
    assert!(read < 10, "{read} chunks were read");
}

#[tokio::test]
async fn long_in_lists_are_resolved_quickly() {
    let (_folder, path) = file(
        DatasetSpec::new("a", Dtype::U8, &[100_000], &[1000]),
        &vec![1; 100_000],
    );
    let ctx = SessionContext::new();
    ctx.register_array("a".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    let numbers: Vec<_> = (0..20_000)
        .map(|number| (number * 7 % 140_000).to_string())
        .collect();
    let sql = format!(
        "SELECT count(*) FROM a WHERE dim_0 IN ({})",
        numbers.join(", ")
    );
    let batches = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    let expected = (0..20_000)
        .filter(|number| number * 7 % 140_000 < 100_000)
        .count() as i64;
    let count = batches[0].column(0);
    let count: &Int64Array = count.as_any().downcast_ref().unwrap();
    assert_eq!(count.value(0), expected);
}

/// An async function that returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsyncIdentity(Signature);

impl ScalarUDFImpl for AsyncIdentity {
    fn name(&self) -> &str {
        "later"
    }
    fn signature(&self) -> &Signature {
        &self.0
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        panic!("an async function was called synchronously")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for AsyncIdentity {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

#[tokio::test]
async fn async_functions_are_not_pushed_down() {
    let (_folder, path) = file(DatasetSpec::new("a", Dtype::U8, &[10], &[5]), &[1; 10]);
    let ctx = SessionContext::new();
    ctx.register_array("a".into(), &path, ArrayOptions::new())
        .await
        .unwrap();
    let later = AsyncIdentity(Signature::any(1, Volatility::Immutable));
    ctx.register_udf(AsyncScalarUDF::new(Arc::new(later)).into_scalar_udf());
    let query = ctx
        .sql("SELECT value FROM a WHERE later(dim_0) = 3")
        .await
        .unwrap();
    assert_eq!(query.count().await.unwrap(), 1);
}
