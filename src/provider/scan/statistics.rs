//! Statistics of a scan that are known before reading.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};

use crate::provider::scan::ArrayScan;

impl ArrayScan {
    /// Returns the statistics of one partition, or of all partitions.
    pub(super) fn statistics_of(&self, partition: Option<usize>) -> Result<Statistics> {
        let statistics = self.statistics()?;
        let partitions = self.plan.partitions.len();
        if partition.is_none() || partitions == 1 {
            return Ok(statistics);
        }
        // Assume that the partitions are of equal size. An exact count would have to visit every
        // block.
        let mut share = statistics.to_inexact();
        share.num_rows = match share.num_rows {
            Precision::Inexact(rows) => Precision::Inexact(rows / partitions),
            other => other,
        };
        share.calculate_total_byte_size(&self.schema);
        Ok(share)
    }

    fn column_statistics(&self) -> Result<&[ColumnStatistics]> {
        if let Some(known) = self.column_statistics.get() {
            return Ok(known);
        }
        let columns = self.plan.projection.iter();
        let statistics = columns
            .map(|column| self.blocks.column_statistics(*column, &self.plan.options))
            .collect::<Result<_>>()?;
        Ok(self.column_statistics.get_or_init(|| statistics))
    }

    fn statistics(&self) -> Result<Statistics> {
        let mut statistics = Statistics {
            num_rows: self.blocks.rows().precision(),
            total_byte_size: Precision::Absent,
            column_statistics: self.column_statistics()?.to_vec(),
        };
        if self.plan.filter.is_some() {
            statistics = statistics.to_inexact();
        }
        if let Some(fetch) = self.plan.fetch {
            let partitions = self.plan.partitions.len();
            statistics = statistics.with_fetch(Some(fetch), 0, partitions)?;
            if partitions > 1 {
                // A partition may have fewer rows than its limit.
                statistics.num_rows = statistics.num_rows.to_inexact();
            }
        }
        statistics.calculate_total_byte_size(&self.schema);
        Ok(statistics)
    }
}
