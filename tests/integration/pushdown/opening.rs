//! Opens a file with a very long chunk index. Neither opening it nor reading one chunk may read the
//! whole index.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect};
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};

use crate::support::cells::{ACCESS, OpenFile, from_column};

/// The extent of both axes. Each cell is a chunk of its own, with 104 bytes in the index.
const EXTENT: u64 = 1000;

/// Returns a metric of a plan, summed over all nodes and partitions.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> Option<usize> {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let inputs = plan
        .children()
        .into_iter()
        .filter_map(|input| metric(input, name));
    own.map(|value| value.as_usize())
        .into_iter()
        .chain(inputs)
        .reduce(|a, b| a + b)
}

#[tokio::test]
async fn reading_one_chunk_does_not_read_the_whole_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.tet");
    let cell = |row: u64, column: u64| ((row * 7 + column * 13) % 251) as u8;
    let spec = DatasetSpec::new("a", Dtype::U8, &[EXTENT, EXTENT], &[1, 1]);
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    for row in 0..EXTENT {
        for column in 0..EXTENT {
            writer
                .write_chunk(0, &[row, column], &[cell(row, column)])
                .unwrap();
        }
    }
    writer.finish().unwrap();
    let length = path.metadata().unwrap().len();
    assert!(length > EXTENT * EXTENT * 105, "{length} bytes");

    for access in ACCESS {
        let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
            .await
            .unwrap();
        assert_eq!(file.tet().chunk_rows(), EXTENT * EXTENT);
        for (row, column) in [(0, 0), (123, 456), (EXTENT - 1, EXTENT - 1)] {
            let sql = format!("SELECT value FROM f.a WHERE dim_0 = {row} AND dim_1 = {column}");
            let plan = file
                .ctx
                .sql(&sql)
                .await
                .unwrap()
                .create_physical_plan()
                .await
                .unwrap();
            let batches = collect(Arc::clone(&plan), file.ctx.task_ctx())
                .await
                .unwrap();
            let found: Vec<_> = batches
                .iter()
                .flat_map(|b| from_column(b.column(0)))
                .collect();
            assert_eq!(found, [Some(cell(row, column).into())], "{access}");
            let all = (EXTENT * EXTENT) as usize;
            assert_eq!(metric(&plan, "chunks_total"), Some(all));
            assert_eq!(metric(&plan, "chunks_pruned_by_slice"), Some(all - 1));
            assert_eq!(metric(&plan, "chunks_read"), Some(1));
            assert_eq!(metric(&plan, "bytes_read"), Some(1));
        }
        // Queries that the axes can answer read no chunk at all.
        let plan = file
            .ctx
            .sql("SELECT count(*) FROM f.a WHERE dim_1 < 10")
            .await
            .unwrap();
        let plan = plan.create_physical_plan().await.unwrap();
        let batches = collect(Arc::clone(&plan), file.ctx.task_ctx())
            .await
            .unwrap();
        assert_eq!(from_column(batches[0].column(0)), [Some(10 * EXTENT)]);
        assert_eq!(metric(&plan, "chunks_read").unwrap_or(0), 0);
    }
}
