//! Sparse arrays as tables.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as ColumnName, Result, ScalarValue};
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt};

use crate::format::tiledb::{Interval, Scalar};
use crate::grid::IndexSet;
use crate::provider::adapters::tiledb::sparse::blocks::SparseBlocks;
use crate::provider::adapters::tiledb::stored::{FORMAT, StoredArray};
use crate::provider::attributes::plain;
use crate::provider::catalog::description::{DimensionDescription, TableDescription};
use crate::provider::catalog::settings::options::ReadOptions;
use crate::provider::planning::pruning::{pruning_predicate, with_zeros};
use crate::provider::source::recipe::Recipe;
use crate::provider::source::{BlockSource, ColumnKind, DIMENSION, SelectedBlocks};

/// The table of a sparse array: one row per cell, with one column per dimension, then one per
/// attribute. A block is a data tile of a fragment.
#[derive(Debug)]
pub(in crate::provider::adapters::tiledb) struct SparseTable {
    stored: Arc<StoredArray>,
    schema: SchemaRef,
    blocks: Arc<SparseBlocks>,
}

impl SparseTable {
    pub fn new(stored: Arc<StoredArray>) -> Self {
        let mark = || (DIMENSION.to_string(), String::new());
        let dimensions = stored.dimensions().iter().map(|column| {
            let field = column.field(false);
            let metadata = field.metadata().clone().into_iter().chain([mark()]);
            field.with_metadata(metadata.collect())
        });
        let attributes = stored.attributes().iter().map(|column| column.field(true));
        let fields: Vec<Field> = dimensions.chain(attributes).collect();
        let schema = Arc::new(Schema::new(fields));
        Self {
            blocks: Arc::new(SparseBlocks::new(&stored)),
            schema,
            stored,
        }
    }

    /// Returns, for each fragment, `true` if its bounding box may hold a cell that satisfies the
    /// filters. Returns `None` if the filters cannot be evaluated on bounding boxes.
    fn fragments_left(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Option<Vec<bool>>> {
        let schema = plain(&self.schema);
        let Some(filter) = conjunction_opt(filters.iter().cloned()) else {
            return Ok(None);
        };
        let Some(predicate) = pruning_predicate(&filter, &schema) else {
            return Ok(None);
        };
        let boxes = FragmentBoxes {
            stored: &self.stored,
            schema,
        };
        // A predicate may fail on bounds although it fails on no row.
        Ok(predicate.prune(&boxes).ok())
    }
}

/// The bounding boxes of fragments, as the containers of DataFusion's pruning.
struct FragmentBoxes<'a> {
    stored: &'a StoredArray,
    schema: SchemaRef,
}

impl FragmentBoxes<'_> {
    fn bounds(&self, column: &ColumnName, side: fn(&Interval) -> &Scalar) -> Option<ArrayRef> {
        let dimension = self.schema.index_of(&column.name).ok()?;
        let column = self.stored.dimensions().get(dimension)?;
        let fragments = self.stored.array().fragments().iter();
        let bounds = fragments.map(|fragment| fragment.domain()?.get(dimension).map(side));
        column.scalars(bounds).ok()
    }
}

impl PruningStatistics for FragmentBoxes<'_> {
    fn min_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        let lows = self.bounds(column, |interval| &interval.low)?;
        Some(with_zeros(&lows, -0.0))
    }

    fn max_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        let highs = self.bounds(column, |interval| &interval.high)?;
        Some(with_zeros(&highs, 0.0))
    }

    fn num_containers(&self) -> usize {
        self.stored.array().fragments().len()
    }

    fn null_counts(&self, column: &ColumnName) -> Option<ArrayRef> {
        let dimension = self.schema.index_of(&column.name).ok()?;
        self.stored.dimensions().get(dimension)?;
        Some(Arc::new(UInt64Array::from(vec![0; self.num_containers()])))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let fragments = self.stored.array().fragments().iter();
        let cells = fragments.map(|fragment| Some(fragment.sparse_cells()));
        Some(Arc::new(cells.collect::<UInt64Array>()))
    }

    fn contained(
        &self,
        _column: &ColumnName,
        _values: &HashSet<ScalarValue>,
    ) -> Option<BooleanArray> {
        None
    }
}

impl BlockSource for SparseTable {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn name(&self) -> &str {
        self.stored.name()
    }

    fn location(&self) -> Option<&str> {
        self.stored.array().path().to_str()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn column_kind(&self, column: usize) -> ColumnKind {
        match column < self.stored.dimensions().len() {
            true => ColumnKind::Located,
            false => ColumnKind::Stored,
        }
    }

    fn select(
        &self,
        filters: &[Arc<dyn PhysicalExpr>],
        _columns: &[usize],
        _options: &ReadOptions,
    ) -> Result<SelectedBlocks> {
        let left = self.fragments_left(filters)?;
        let left = left.filter(|left| left.contains(&false));
        let (kept, blocks) = match left {
            None => (None, Arc::clone(&self.blocks)),
            Some(left) => {
                let is_left = left.iter().zip(self.blocks.of_fragments());
                let ranges = is_left.filter(|(is_left, _)| **is_left);
                let ranges = ranges.map(|(_, blocks)| blocks);
                let kept = IndexSet::from_ranges(self.blocks.length(), ranges);
                let count = left.iter().filter(|is_left| **is_left).count();
                (Some(kept), Arc::new(self.blocks.with_fragments(count)))
            }
        };
        Ok(SelectedBlocks {
            blocks,
            kept,
            residual: Vec::new(),
        })
    }

    fn recipe(&self) -> Result<Option<Recipe>> {
        Ok(Some(self.stored.recipe()?))
    }

    fn renewed(&self) -> Result<Option<Arc<dyn BlockSource>>> {
        let stored = self.stored.renewed()?;
        Ok(stored.map(|stored| Arc::new(Self::new(Arc::new(stored))) as Arc<dyn BlockSource>))
    }

    fn describe(&self) -> Result<TableDescription> {
        let mut description = self.stored.describe();
        for (index, column) in self.stored.dimensions().iter().enumerate() {
            description.dimensions.push(DimensionDescription {
                name: column.name().to_string(),
                extent: 0,
                data_type: column.data_type().clone(),
                range: self.stored.coordinate_range(index)?,
                source: "cells".to_string(),
            });
        }
        description.chunks = Some(self.blocks.length());
        Ok(description)
    }
}
