//! Generated queries over generated arrays answer the same as over the same cells exploded into rows of a `MemTable`.
//!
//! `TET_SQL_CASES` sets the number of arrays, `TET_SQL_SEED` the first of them; a failure names its seed.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float32Array, Float64Array, Int16Array, Int64Array, RecordBatch,
    StringArray, UInt8Array,
};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
use tet_sql::{Access, TetOptions, TetSessionExt};

const QUERIES_PER_ARRAY: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn any_query_answers_as_over_exploded_rows() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("TET_SQL_SEED", 1);
    for seed in first..first + number("TET_SQL_CASES", 40) {
        let mut random = Random(seed);
        let array = Array::generate(&mut random);
        let ctx = array.register(&mut random).await;
        for _ in 0..QUERIES_PER_ARRAY {
            let query = array.query(&mut random);
            let ours = rows(&ctx, &query.replace("{t}", "ours")).await;
            let theirs = rows(&ctx, &query.replace("{t}", "theirs")).await;
            assert_eq!(
                ours,
                theirs,
                "seed {seed}: {query}\nshape {:?}, chunks {:?}, {:?}\n{:?}",
                array.shape,
                array.chunk_shape,
                array.dtype,
                array
                    .axes
                    .iter()
                    .map(|axis| &axis.labels)
                    .collect::<Vec<_>>()
            );
        }
    }
}

/// The rows of a query as text, sorted.
async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            rows.push(cells.join("|"));
        }
    }
    rows.sort();
    rows
}

/// splitmix64: short, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Number,
    Text,
    Date,
}

struct TestAxis {
    name: String,
    kind: Kind,
    /// As in the footer; none for a counted axis.
    labels: Option<Vec<String>>,
    /// What the labels, or the positions, are as coordinates.
    coordinates: ArrayRef,
}

impl TestAxis {
    fn generate(random: &mut Random, number: usize, extent: usize) -> Self {
        let name = format!("d{number}");
        let with = |kind, labels, coordinates| Self {
            name: name.clone(),
            kind,
            labels,
            coordinates,
        };
        // Ascending, descending, or any order with repeats.
        let order = random.below(3);
        let steps: Vec<i64> = (0..extent as i64)
            .map(|position| match order {
                0 => position * 2 - 3,
                1 => 9 - position * 3,
                _ => random.below(4) as i64,
            })
            .collect();
        match random.below(5) {
            0 => {
                let counted = Int64Array::from_iter_values(0..extent as i64);
                with(Kind::Number, None, Arc::new(counted))
            }
            1 => {
                let labels = steps.iter().map(ToString::to_string).collect();
                with(
                    Kind::Number,
                    Some(labels),
                    Arc::new(Int64Array::from(steps)),
                )
            }
            2 => {
                let values: Vec<_> = steps.iter().map(|step| *step as f64 + 0.25).collect();
                let labels = values.iter().map(ToString::to_string).collect();
                with(
                    Kind::Number,
                    Some(labels),
                    Arc::new(Float64Array::from(values)),
                )
            }
            3 => {
                let labels: Vec<_> = steps.iter().map(|step| format!("label {step}")).collect();
                let values = StringArray::from(labels.clone());
                with(Kind::Text, Some(labels), Arc::new(values))
            }
            _ => {
                // Days of January 1970 count from zero.
                let days: Vec<_> = steps.iter().map(|step| *step as i32 + 10).collect();
                let labels = days.iter().map(|day| format!("1970-01-{:02}", day + 1));
                with(
                    Kind::Date,
                    Some(labels.collect()),
                    Arc::new(Date32Array::from(days)),
                )
            }
        }
    }

    fn predicate(&self, random: &mut Random) -> String {
        let name = &self.name;
        let number = random.below(12) as i64 - 3;
        let comparison = random.pick(&["<", "<=", ">", ">=", "=", "<>"]);
        match (self.kind, random.below(4)) {
            (Kind::Number, 0) => format!("{name} BETWEEN {number} AND {}", number + 4),
            (Kind::Number, 1) => format!("{name} IN ({number}, 1, 2.25)"),
            (Kind::Number, 2) => format!("CAST({name} AS BIGINT) % 2 = 1"),
            (Kind::Number, _) => format!("{name} {comparison} {number}"),
            (Kind::Text, 0) => format!("{name} LIKE '%{}'", number.abs()),
            (Kind::Text, 1) => format!("{name} NOT IN ('label 1', 'label 3')"),
            (Kind::Text, _) => format!("upper({name}) {comparison} 'LABEL {number}'"),
            (Kind::Date, 0) => format!("date_part('day', {name}) > {number}"),
            (Kind::Date, _) => format!("{name} {comparison} DATE '1970-01-{:02}'", number + 4),
        }
    }
}

struct Array {
    shape: Vec<usize>,
    chunk_shape: Vec<usize>,
    axes: Vec<TestAxis>,
    dtype: Dtype,
    compression: Compression,
    fill: bool,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy)]
enum Cell {
    Number(i64),
    Missing,
}

impl Array {
    fn generate(random: &mut Random) -> Self {
        let rank = 1 + random.below(4);
        let shape: Vec<_> = (0..rank).map(|_| 1 + random.below(6)).collect();
        let dtype = *random.pick(&[
            Dtype::F16,
            Dtype::F32,
            Dtype::F64,
            Dtype::I16,
            Dtype::I64,
            Dtype::U8,
        ]);
        let is_float = matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64);
        let fill = random.chance(40);
        let cells = (0..shape.iter().product())
            .map(|_| match random.chance(20) && (is_float || fill) {
                true => Cell::Missing,
                false => Cell::Number(random.below(60) as i64),
            })
            .collect();
        Self {
            chunk_shape: shape.iter().map(|_| 1 + random.below(7)).collect(),
            axes: shape
                .iter()
                .enumerate()
                .map(|(number, extent)| TestAxis::generate(random, number, *extent))
                .collect(),
            compression: *random.pick(&[Compression::Raw, Compression::Zstd { level: 1 }]),
            shape,
            dtype,
            fill,
            cells,
        }
    }

    /// The fill value is 99, which is no cell's value. Without one a missing cell is NaN.
    fn bytes(&self) -> Vec<u8> {
        let float = |cell: &Cell| match cell {
            Cell::Number(number) => *number as f32,
            Cell::Missing if self.fill => 99.0,
            Cell::Missing => f32::NAN,
        };
        let integer = |cell: &Cell| match cell {
            Cell::Number(number) => *number,
            Cell::Missing => 99,
        };
        let mut bytes = Vec::new();
        for cell in &self.cells {
            match self.dtype {
                Dtype::F16 => bytes.extend(half::f16::from_f32(float(cell)).to_le_bytes()),
                Dtype::F32 => bytes.extend(float(cell).to_le_bytes()),
                Dtype::F64 => bytes.extend(f64::from(float(cell)).to_le_bytes()),
                Dtype::I16 => bytes.extend((integer(cell) as i16).to_le_bytes()),
                Dtype::I64 => bytes.extend(integer(cell).to_le_bytes()),
                _ => bytes.push(integer(cell) as u8),
            }
        }
        bytes
    }

    /// The table `ours` over a file, and `theirs` over exploded rows.
    async fn register(&self, random: &mut Random) -> SessionContext {
        let config = SessionConfig::new()
            .with_target_partitions(1 + random.below(4))
            .with_batch_size(*random.pick(&[1, 3, 16, 8192]))
            .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
        let ctx = SessionContext::new_with_config(config);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("array.tet");
        let extents = |extents: &[usize]| extents.iter().map(|e| *e as u64).collect::<Vec<_>>();
        let mut spec = DatasetSpec::new(
            "ours",
            self.dtype,
            &extents(&self.shape),
            &extents(&self.chunk_shape),
        )
        .with_compression(self.compression)
        .with_dim_names(self.axes.iter().map(|axis| axis.name.clone()));
        for axis in &self.axes {
            if let Some(labels) = &axis.labels {
                spec = spec.with_labels(&axis.name, labels.clone());
            }
        }
        if self.fill {
            spec = spec.with_attribute("_FillValue", "99");
        }
        let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
        writer.write_dataset(0, &self.bytes()).unwrap();
        writer.finish().unwrap();
        let options = TetOptions::new()
            .with_access(*random.pick(&[Access::Mmap, Access::Pread]))
            .with_declare_ordering(random.chance(50));
        ctx.register_tet("ours".into(), &path, options)
            .await
            .unwrap();
        let rows = self.exploded();
        ctx.register_table(
            "theirs",
            Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]]).unwrap()),
        )
        .unwrap();
        ctx
    }

    fn exploded(&self) -> RecordBatch {
        let count = self.cells.len();
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (number, axis) in self.axes.iter().enumerate() {
            let step: usize = self.shape[number + 1..].iter().product();
            let positions = (0..count).map(|row| (row / step % self.shape[number]) as u64);
            let positions = datafusion::arrow::array::UInt64Array::from_iter_values(positions);
            let column =
                datafusion::arrow::compute::take(&axis.coordinates, &positions, None).unwrap();
            fields.push(Field::new(&axis.name, column.data_type().clone(), false));
            columns.push(column);
        }
        let numbers = self.cells.iter().map(|cell| match cell {
            Cell::Number(number) => Some(*number),
            Cell::Missing => None,
        });
        let values: ArrayRef = match self.dtype {
            Dtype::F16 | Dtype::F32 => Arc::new(
                numbers
                    .map(|n| n.map(|n| n as f32))
                    .collect::<Float32Array>(),
            ),
            Dtype::F64 => Arc::new(
                numbers
                    .map(|n| n.map(|n| n as f64))
                    .collect::<Float64Array>(),
            ),
            Dtype::I16 => Arc::new(numbers.map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
            Dtype::I64 => Arc::new(numbers.collect::<Int64Array>()),
            _ => Arc::new(numbers.map(|n| n.map(|n| n as u8)).collect::<UInt8Array>()),
        };
        fields.push(Field::new("value", values.data_type().clone(), true));
        columns.push(values);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    fn predicate(&self, random: &mut Random, depth: usize) -> String {
        if depth > 0 && random.chance(50) {
            let left = self.predicate(random, depth - 1);
            let right = self.predicate(random, depth - 1);
            return match random.below(5) {
                0 | 1 => format!("({left} AND {right})"),
                2 | 3 => format!("({left} OR {right})"),
                _ => format!("NOT ({left})"),
            };
        }
        if random.chance(15) {
            let number = random.below(60);
            return random
                .pick(&[
                    format!("value > {number}"),
                    format!("value = {number}"),
                    "value IS NULL".to_string(),
                    "value IS NOT NULL".to_string(),
                ])
                .clone();
        }
        let (one, other) = (random.pick(&self.axes), random.pick(&self.axes));
        if one.kind == other.kind && random.chance(20) {
            return format!("{} {} {}", one.name, random.pick(&["<", "="]), other.name);
        }
        one.predicate(random)
    }

    fn query(&self, random: &mut Random) -> String {
        let mut columns: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
        columns.push("value");
        let mut chosen: Vec<&str> = columns
            .iter()
            .copied()
            .filter(|_| random.chance(60))
            .collect();
        if chosen.is_empty() {
            chosen.push(columns[random.below(columns.len())]);
        }
        let mut condition = String::new();
        let conjuncts = random.below(4);
        for number in 0..conjuncts {
            let word = if number == 0 { "WHERE" } else { "AND" };
            let predicate = self.predicate(random, 2);
            write!(condition, " {word} {predicate}").unwrap();
        }
        let list = chosen.join(", ");
        // Sums are of small integers, so they are exact in any order.
        const AGGREGATES: &str =
            "count(*), count(value), sum(value), min(value), max(value), avg(value)";
        match random.below(8) {
            0 | 1 => format!("SELECT {list} FROM {{t}}{condition}"),
            2 => format!("SELECT {AGGREGATES} FROM {{t}}{condition}"),
            3 => format!("SELECT {list}, {AGGREGATES} FROM {{t}}{condition} GROUP BY {list}"),
            4 => {
                let axis = &random.pick(&self.axes).name;
                format!("SELECT count(*), min({axis}), max({axis}) FROM {{t}}{condition}")
            }
            5 => {
                // All columns, so that rows that tie are the same.
                let all = columns.join(", ");
                let limit = random.below(20);
                format!("SELECT {all} FROM {{t}}{condition} ORDER BY {all} LIMIT {limit}")
            }
            6 => format!("SELECT DISTINCT {list} FROM {{t}}{condition}"),
            _ => {
                // Without an order any rows may come, but so many of them.
                let (limit, offset) = (random.below(30), random.below(5));
                format!(
                    "SELECT count(*) FROM \
                     (SELECT {list} FROM {{t}}{condition} LIMIT {limit} OFFSET {offset})"
                )
            }
        }
    }
}
