//! Generated arrays in files, registered beside the same rows in memory.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use tet_sql::format::tet::{Dtype, TetWriter};
use tet_sql::{Access, ArrayOptions, Unpack, enable_arrays, open_location};
use tetration::catalog::embed_indexes_in_tet;

use super::array::TestArray;
use super::axis::TestAxis;
use super::column::TestColumn;
use super::random::Random;
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;

/// The number of cells of a small array, at most. Joins multiply the rows.
const MAX_CELLS: usize = 250;

/// Extents of large arrays along each axis, larger than the tiles and runs that reductions process
/// at a time.
const LARGE: [&[usize]; 3] = [&[1, 12, 40, 90], &[1, 30, 70], &[3, 600, 700, 1100]];

/// The number of cells of a large array, at most.
const MAX_LARGE_CELLS: usize = 100_000;

/// Arrays on the same axes.
#[derive(Debug)]
pub struct Case {
    axes: Vec<TestAxis>,
    arrays: Vec<TestArray>,
    /// The indices along the first axis that each file holds.
    parts: Vec<Range<usize>>,
    has_indexes: bool,
    options: ArrayOptions,
}

/// A table of a case. Its name contains `{t}`, which stands for `ours` or `theirs`.
#[derive(Debug)]
pub struct TestTable {
    pub name: String,
    pub dimensions: Vec<TestColumn>,
    pub values: Vec<TestColumn>,
    pub rows: usize,
}

/// A case registered in a session. Dropping this deletes the files.
pub struct Session {
    pub ctx: SessionContext,
    /// `true` if aggregates are computed in array space.
    pub is_enabled: bool,
    /// One table per dataset, then a wide table of all of them if there are several.
    pub tables: Vec<TestTable>,
    _folder: TempDir,
}

impl Case {
    pub fn generate(random: &mut Random) -> Self {
        let rank = 1 + random.below(4);
        let mut shape: Vec<_> = (0..rank).map(|_| 1 + random.below(6)).collect();
        while shape.iter().product::<usize>() > MAX_CELLS {
            let longest = shape.iter_mut().max().unwrap();
            *longest -= 1;
        }
        if rank == 1 && random.chance(50) {
            // Up to the limit on the number of labels of an axis.
            shape[0] += random.below(59);
        }
        let axes = shape
            .iter()
            .enumerate()
            .map(|(number, extent)| TestAxis::generate(random, number, *extent))
            .collect();
        let parts = match random.chance(25) {
            true => split(random, shape[0]),
            false => std::iter::once(0..shape[0]).collect(),
        };
        let names = ["a", "b", "c"];
        let arrays = names[..*random.pick(&[1, 2, 2, 3])]
            .iter()
            .map(|name| TestArray::generate(random, name, &shape))
            .collect();
        Self {
            axes,
            arrays,
            parts,
            has_indexes: random.chance(60),
            options: options(random),
        }
    }

    /// Generates arrays of many cells, all of one type.
    pub fn large(random: &mut Random, dtype: Dtype) -> Self {
        let mut shape: Vec<_> = LARGE.iter().map(|extents| *random.pick(extents)).collect();
        while shape.iter().product::<usize>() > MAX_LARGE_CELLS {
            // Shorten the longer of the first two axes. Runs of cells lie along the last, which
            // keeps its extent.
            let axis = usize::from(shape[1] > shape[0]);
            shape[axis] -= 1;
        }
        let axes = shape
            .iter()
            .enumerate()
            .map(|(number, extent)| TestAxis::long(random, number, *extent))
            .collect();
        let arrays = ["a", "b"][..1 + random.below(2)]
            .iter()
            .map(|name| TestArray::large(random, name, &shape, dtype))
            .collect();
        let parts = match random.chance(20) {
            true => split(random, shape[0]),
            false => std::iter::once(0..shape[0]).collect(),
        };
        Self {
            axes,
            arrays,
            parts,
            has_indexes: random.chance(50),
            options: options(random),
        }
    }

    pub async fn register(&self, random: &mut Random) -> Session {
        let config = SessionConfig::new()
            .with_target_partitions(1 + random.below(4))
            .with_batch_size(*random.pick(&[1, 3, 16, 8192]))
            .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
            .set_bool("datafusion.optimizer.prefer_hash_join", random.chance(85));
        let ctx = SessionContext::new_with_config(config);
        let is_enabled = random.chance(90);
        let ctx = match is_enabled {
            true => enable_arrays(ctx, ArrayOptions::new()),
            false => ctx,
        };
        let folder = tempfile::tempdir().unwrap();
        let axes = self.write(folder.path());
        let files = folder.path().join("*.tet");
        let names: Vec<_> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let mut wide = names.join("_");
        if names.len() == 1 && axes[0].sibling().is_some() {
            // The name is taken by a coordinate column.
            wide.push('_');
        }
        let mut tables = Vec::new();
        let mut values = Vec::new();
        for (number, array) in self.arrays.iter().enumerate() {
            let column = array.column(&self.options);
            values.push(TestColumn::new(&array.name, Arc::clone(&column)));
            let name = format!("{{t}}{number}");
            let columns = vec![TestColumn::new("value", column)];
            tables.push((name, array.name.clone(), columns));
        }
        if values.len() > 1 {
            tables.push(("{t}_wide".to_string(), wide, values));
        }
        let mut registered = Vec::new();
        for (name, dataset, values) in tables {
            let location = format!("{}#{dataset}", files.display());
            let state = ctx.state();
            let ours = open_location(&location, &self.options, state.config()).unwrap();
            let (dimensions, theirs) = self.exploded(&axes, &values, folder.path());
            let types = |schema: &Schema| {
                let fields = schema.fields().iter();
                let types = fields.map(|field| (field.name().clone(), field.data_type().clone()));
                types.collect::<Vec<_>>()
            };
            assert_eq!(types(&ours.schema()), types(&theirs.schema()), "{self:?}");
            registered.push(TestTable {
                name: name.clone(),
                dimensions,
                values,
                rows: theirs.num_rows(),
            });
            ctx.register_table(name.replace("{t}", "ours"), Arc::new(ours))
                .unwrap();
            ctx.register_table(name.replace("{t}", "theirs"), memory(theirs))
                .unwrap();
        }
        // Small tables to join with, with values drawn from both kinds of tables alike.
        for column in registered[0].dimensions.iter().chain(&registered[0].values) {
            let count = 1 + random.below(4);
            let rows = (0..count).map(|_| random.below(column.values.len()) as u64);
            let rows = UInt64Array::from_iter_values(rows);
            let few = take(&column.values, &rows, None).unwrap();
            let fields = vec![Field::new("k", few.data_type().clone(), true)];
            let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![few]).unwrap();
            ctx.register_table(format!("few_{}", column.name), memory(batch))
                .unwrap();
        }
        #[cfg(feature = "proto")]
        if is_enabled && random.chance(50) {
            // Workers get tasks, and no whole plans.
            Encoded::add_to(&ctx, &["ClusterExec cannot be encoded"]);
        }
        Session {
            ctx,
            is_enabled,
            tables: registered,
            _folder: folder,
        }
    }

    /// Writes the files and returns the axes of all of them together.
    fn write(&self, folder: &Path) -> Vec<TestAxis> {
        let (first, parts) = match self.parts.len() {
            1 => (self.axes[0].clone(), vec![self.axes[0].clone()]),
            _ => self.axes[0].cut(&self.parts),
        };
        for (number, axis) in parts.iter().enumerate() {
            let path = folder.join(file_name(number));
            let mut axes = self.axes.clone();
            axes[0] = axis.clone();
            let siblings: Vec<_> = axes.iter().filter_map(TestAxis::sibling).collect();
            let mut specs: Vec<_> = siblings.iter().map(|(spec, _)| spec.clone()).collect();
            specs.extend(self.arrays.iter().map(|array| array.spec(&axes)));
            let mut cells: Vec<_> = siblings.into_iter().map(|(_, cells)| cells).collect();
            let whole = self.axes[0].coordinates.len();
            for array in &self.arrays {
                let bytes = array.bytes();
                let row = bytes.len() / whole;
                let part = &self.parts[number];
                cells.push(bytes[part.start * row..part.end * row].to_vec());
            }
            let mut writer = TetWriter::create(&path, specs).unwrap();
            for (dataset, cells) in cells.iter().enumerate() {
                writer.write_dataset(dataset, cells).unwrap();
            }
            writer.finish().unwrap();
            if self.has_indexes {
                embed_indexes_in_tet(&path, 0).unwrap();
            }
        }
        let mut axes = self.axes.clone();
        axes[0] = first;
        axes
    }

    /// Returns the dimensions as columns, and all rows.
    fn exploded(
        &self,
        axes: &[TestAxis],
        values: &[TestColumn],
        folder: &Path,
    ) -> (Vec<TestColumn>, RecordBatch) {
        let extents: Vec<_> = axes.iter().map(|axis| axis.coordinates.len()).collect();
        let count: usize = extents.iter().product();
        let along = |number: usize, coordinates: &ArrayRef| {
            let step: usize = extents[number + 1..].iter().product();
            let positions = (0..count).map(|row| (row / step % extents[number]) as u64);
            take(coordinates, &UInt64Array::from_iter_values(positions), None).unwrap()
        };
        let mut columns = Vec::new();
        let mut dimensions = Vec::new();
        for (number, axis) in axes.iter().enumerate() {
            let column = along(number, &axis.coordinates);
            columns.push((axis.name.clone(), column, false));
            dimensions.push(TestColumn::new(&axis.name, Arc::clone(&axis.coordinates)));
        }
        for value in values {
            columns.push((value.name.clone(), Arc::clone(&value.values), true));
        }
        if self.options.file_column {
            let mut files = Vec::new();
            for (number, part) in self.parts.iter().enumerate() {
                let path = folder.join(file_name(number)).display().to_string();
                files.extend(std::iter::repeat_n(path, part.len()));
            }
            let files: ArrayRef = Arc::new(StringArray::from(files));
            columns.push(("file".to_string(), along(0, &files), false));
            dimensions.push(TestColumn::new("file", files));
        }
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        (dimensions, batch)
    }
}

fn file_name(number: usize) -> String {
    format!("part {number}.tet")
}

fn memory(batch: RecordBatch) -> Arc<MemTable> {
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
}

/// Splits an axis into up to four ranges.
fn split(random: &mut Random, extent: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < extent {
        let end = match parts.len() {
            3 => extent,
            _ => start + 1 + random.below(extent - start),
        };
        parts.push(start..end);
        start = end;
    }
    parts
}

fn options(random: &mut Random) -> ArrayOptions {
    let mut options = ArrayOptions::new()
        .with_access(*random.pick(&[Access::Mmap, Access::Pread]))
        .with_declare_ordering(random.chance(50))
        .with_unpack(*random.pick(&[Unpack::Auto, Unpack::Always]))
        .with_zone_maps(random.chance(85))
        .with_file_column(random.chance(15));
    if random.chance(25) {
        options = options.with_nan_as_null(false);
    }
    if random.chance(25) {
        options = options.with_fill_as_null(false);
    }
    options
}
