//! The description of a scan in EXPLAIN.

use crate::provider::planning::partitions;
use crate::provider::plans::planned_reads::PlannedRead;
use crate::provider::scan::ArrayScan;

impl ArrayScan {
    /// Returns the description without columns and filters.
    pub(in crate::provider) fn description_without_projection(&self) -> Vec<String> {
        let parts = self.describe().into_iter();
        parts
            .filter(|(name, _)| !matches!(*name, "projection" | "filter" | "dynamic_filter"))
            .map(|(name, text)| format!("{name}={text}"))
            .collect()
    }

    /// Returns `blocks` if the scan reads values, and zero if it does not.
    fn needed(&self, blocks: Option<u64>) -> Option<u64> {
        if self.reads_values() { blocks } else { Some(0) }
    }

    /// Returns the number of blocks whose values will be read. A limit may have dropped the last of
    /// the selected blocks.
    fn blocks_read(&self) -> Option<u64> {
        let in_partitions = self.plan.partitions.last().map_or(0, |last| last.end);
        let needed = self.needed(self.blocks.count());
        needed.map(|selected| selected.min(in_partitions))
    }

    /// Returns the chunks that the scan will read.
    pub(in crate::provider) fn planned_read(&self) -> PlannedRead {
        let chunks = self.blocks_read();
        let size =
            chunks.map(|chunks| partitions::stored_bytes(&self.blocks, chunks, &self.plan.options));
        PlannedRead {
            table: self.source.name().to_string(),
            total: self.blocks.list().total(),
            chunks,
            bytes: size.map(|(bytes, _)| bytes),
            is_exact: size.is_some_and(|(_, is_exact)| is_exact),
            aggregates: Vec::new(),
            may_read_less: self.plan.dynamic_filter.is_some(),
        }
    }

    /// Returns the entries of the description, each with its name.
    pub(super) fn describe(&self) -> Vec<(&'static str, String)> {
        let mut parts = vec![(self.source.format(), self.source.name().to_string())];
        let list = self.blocks.list();
        parts.extend(list.slice().map(|slice| ("slice", slice)));
        if let Some((name, selected, all)) = list.parts() {
            parts.push((name, format!("{selected} of {all}")));
        }
        let total = list.total();
        let read = self.blocks_read();
        let count = |count: Option<u64>| count.map_or("2^64 or more".into(), |n| n.to_string());
        parts.push(("chunks", format!("{} of {}", count(read), count(total))));
        for (name, count) in self.pruned.labelled(list.pruning_labels()) {
            if count > 0 {
                parts.push((name, count.to_string()));
            }
        }
        if let Some(reason) = &self.unusable {
            parts.push(("unusable_zone_maps", reason.clone()));
        }
        let names: Vec<_> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        parts.push(("projection", format!("[{}]", names.join(", "))));
        if let Some(filter) = &self.plan.filter {
            parts.push(("filter", filter.to_string()));
        }
        if let Some(filter) = &self.plan.dynamic_filter {
            parts.push(("dynamic_filter", filter.to_string()));
        }
        if let Some(fetch) = self.plan.fetch {
            parts.push(("limit", fetch.to_string()));
        }
        parts
    }
}
