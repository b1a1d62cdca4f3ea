//! An optimizer rule that keeps NaN in Parquet files from being read as other values.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;

use crate::provider::rules::operators::ReplaceOperators;

/// Makes the min and max of floating-point columns in Parquet files inexact.
///
/// According to the Parquet specification, min and max ignore NaN. DataFusion 55 treats a column
/// with equal exact min and max as constant, and thus reads `[2.0, NaN]` as `[2.0, 2.0]`. It also
/// answers `max(x)` from the statistics.
pub(crate) const INEXACT_FLOAT_BOUNDS: ReplaceOperators = ReplaceOperators {
    name: "InexactFloatBounds",
    replacement: |operator| {
        let source = operator.downcast_ref::<DataSourceExec>();
        let files = source.and_then(|source| source.data_source().downcast_ref::<FileScanConfig>());
        let files = files.and_then(inexact);
        Ok(files.map(|files| DataSourceExec::from_data_source(files) as _))
    },
};

/// Returns the scan with inexact statistics, or `None` unless it reads Parquet files with
/// floating-point columns.
fn inexact(files: &FileScanConfig) -> Option<FileScanConfig> {
    files.file_source().downcast_ref::<ParquetSource>()?;
    let schema = files.file_schema();
    let is_float = |schema: &Schema| {
        let mut fields = schema.fields().iter();
        fields.any(|field| field.data_type().is_floating())
    };
    if !is_float(schema) {
        return None;
    }
    let groups = files.file_groups.iter().map(|group| {
        let files = group
            .files()
            .iter()
            .cloned()
            .map(|mut file: PartitionedFile| {
                if let Some(statistics) = &file.statistics {
                    file.statistics = Some(Arc::new(without_float_bounds(statistics, schema)));
                }
                file
            });
        let inexact = FileGroup::new(files.collect());
        match group.file_statistics(None) {
            Some(statistics) => {
                inexact.with_statistics(Arc::new(without_float_bounds(statistics, schema)))
            }
            None => inexact,
        }
    });
    let all = without_float_bounds(&files.statistics(), schema);
    let builder = FileScanConfigBuilder::from(files.clone());
    Some(
        builder
            .with_file_groups(groups.collect())
            .with_statistics(all)
            .build(),
    )
}

fn without_float_bounds(statistics: &Statistics, schema: &SchemaRef) -> Statistics {
    let mut statistics = statistics.clone();
    let columns = statistics.column_statistics.iter_mut().zip(schema.fields());
    for (column, field) in columns {
        if field.data_type().is_floating() {
            column.min_value = column.min_value.clone().to_inexact();
            column.max_value = column.max_value.clone().to_inexact();
        }
    }
    statistics
}
