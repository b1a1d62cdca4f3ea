//! Random arrays: schemas of all kinds, and the cells of some writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    ArrayWriter, Attribute, CellValues, DataOrder, Datatype, DenseCellWriter, DenseWriter,
    Dimension, EncryptionKey, Filter, IndexBox, Interval, Layout, OpenOptions, Pipeline,
    Representation, Scalar, Schema, SparseWriter, TileBuffers, TileDbArray, WriteOptions,
    default_fill,
};

/// A generator of numbers that are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005);
        self.0 = self.0.wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

/// An array, and the cells of each of its fragments.
pub struct RandomArray {
    pub schema: Schema,
    pub key: Option<EncryptionKey>,
    pub writes: Vec<Write>,
}

/// The cells of one write.
pub struct Write {
    /// The cells of a dense array.
    pub cells: IndexBox,
    /// The number of cells.
    pub count: usize,
    /// Attributes of a dense array, in row-major order; dimensions and attributes of a sparse array.
    pub columns: Vec<TileBuffers>,
}

const INTEGERS: [Datatype; 10] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
    Datatype::DatetimeDay,
    Datatype::DatetimeNanosecond,
];

/// Appends a value of a datatype, which is small in magnitude.
fn put_value(datatype: Datatype, value: i64, bytes: &mut Vec<u8>) {
    match datatype {
        Datatype::Float32 => bytes.extend((value as f32 / 4.0).to_le_bytes()),
        Datatype::Float64 => bytes.extend((value as f64 / 4.0).to_le_bytes()),
        Datatype::Bool => bytes.push((value & 1) as u8),
        _ => bytes.extend(&value.to_le_bytes()[..datatype.size()]),
    }
}

fn scalar(datatype: Datatype, value: i64) -> Scalar {
    let mut bytes = Vec::new();
    put_value(datatype, value, &mut bytes);
    Scalar::from_bytes(datatype, &bytes).unwrap()
}

/// Returns filters that can store all values of a datatype.
fn filters(random: &mut Random, datatype: Datatype, is_text: bool) -> Pipeline {
    let mut filters = Vec::new();
    let compressors = [
        Filter::Gzip { level: -1 },
        Filter::Zstd { level: 5 },
        Filter::Lz4 { level: -1 },
        Filter::Bzip2 { level: 3 },
    ];
    if is_text && random.one_in(3) {
        filters.push(random.choose(&[Filter::Rle, Filter::Dictionary]));
    } else if !is_text && random.one_in(2) {
        let max_window = random.choose(&[16, 256, 1024]);
        let is_float = datatype.representation() == Representation::Float;
        filters.push(match random.below(6) {
            0 => Filter::BitWidthReduction { max_window },
            1 => Filter::Xor,
            2 if !is_float => Filter::DoubleDelta { reinterpret: None },
            3 if !is_float => Filter::Delta { reinterpret: None },
            4 if is_float => Filter::FloatScale {
                scale: 0.25,
                offset: 1.0,
                width: 4,
            },
            _ => Filter::Rle,
        });
    }
    let shuffles = [Filter::Bitshuffle, Filter::Byteshuffle];
    if random.one_in(3) {
        filters.push(random.choose(&shuffles));
    }
    if random.one_in(2) {
        filters.push(random.choose(&compressors));
    }
    if random.one_in(4) {
        filters.push(random.choose(&[Filter::Md5, Filter::Sha256]));
    }
    Pipeline::new(filters)
}

fn attribute(random: &mut Random, name: String) -> Attribute {
    let datatypes = [
        Datatype::Float32,
        Datatype::Float64,
        Datatype::Bool,
        Datatype::TimeSecond,
        Datatype::StringAscii,
        Datatype::StringUtf8,
        Datatype::Blob,
        Datatype::Char,
    ];
    let datatype = match random.one_in(2) {
        true => random.choose(&INTEGERS),
        false => random.choose(&datatypes),
    };
    let is_text = matches!(datatype, Datatype::StringAscii | Datatype::StringUtf8);
    let cell_values = match datatype {
        Datatype::StringAscii | Datatype::StringUtf8 | Datatype::Blob => CellValues::Variable,
        Datatype::Char => CellValues::Fixed(3),
        Datatype::Int16 | Datatype::Float64 if random.one_in(4) => CellValues::Variable,
        Datatype::Int32 | Datatype::Float32 if random.one_in(4) => CellValues::Fixed(2),
        _ => CellValues::Fixed(1),
    };
    let pipeline = filters(random, datatype, is_text);
    let values = match cell_values {
        CellValues::Fixed(values) => values as usize,
        CellValues::Variable => 1,
    };
    Attribute {
        name,
        datatype,
        cell_values,
        filters: pipeline,
        fill: default_fill(datatype).repeat(values),
        is_nullable: random.one_in(3),
        is_fill_valid: false,
        order: DataOrder::Unordered,
        enumeration: None,
    }
}

/// Returns random cells of an attribute or a dimension.
fn cells(
    random: &mut Random,
    (datatype, cell_values): (Datatype, CellValues),
    is_nullable: bool,
    count: usize,
) -> TileBuffers {
    let mut column = TileBuffers {
        cells: count,
        ..TileBuffers::default()
    };
    let runs = random.one_in(2);
    let mut value = 0;
    for _ in 0..count {
        if !runs || random.one_in(5) {
            value = random.below(100) as i64 - 50;
        }
        if cell_values.is_variable() {
            column.offsets.push(column.values.len() as u64);
        }
        let values = match cell_values {
            CellValues::Fixed(values) => values as usize,
            // TileDB-Py does not tell an empty cell from a NUL.
            CellValues::Variable => 1 + random.below(5) as usize,
        };
        for index in 0..values {
            match datatype {
                Datatype::StringAscii | Datatype::StringUtf8 | Datatype::Char => {
                    column
                        .values
                        .push(b'a' + (value.unsigned_abs() as u8 + index as u8) % 20);
                }
                _ => put_value(datatype, value + index as i64, &mut column.values),
            }
        }
        if is_nullable {
            column.validity.push(u8::from(!random.one_in(4)));
        }
    }
    if cell_values.is_variable() {
        column.offsets.push(column.values.len() as u64);
    }
    column
}

impl RandomArray {
    /// Returns the array with a number.
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9).wrapping_add(7));
        for _ in 0..5 {
            random.next();
        }
        let is_sparse = random.one_in(2);
        let count = 1 + random.below(3) as usize;
        let datatype = random.choose(&INTEGERS);
        let dimensions: Vec<Dimension> = (0..count)
            .map(|index| {
                let mut datatype = datatype;
                if is_sparse {
                    let others = [Datatype::Float32, Datatype::Float64, Datatype::StringAscii];
                    datatype = match random.one_in(2) {
                        true => random.choose(&INTEGERS),
                        false => random.choose(&others),
                    };
                }
                let low = match datatype.representation() {
                    Representation::Unsigned => random.below(5) as i64,
                    _ => random.below(30) as i64 - 20,
                };
                let length = 1 + random.below(if is_sparse { 60 } else { 12 }) as i64;
                let extent = 1 + random.below(length as u64) as i64;
                let is_text = datatype == Datatype::StringAscii;
                let has_extent = !is_text && (!is_sparse || !random.one_in(3));
                Dimension {
                    name: format!("d{index}"),
                    datatype,
                    cell_values: match is_text {
                        true => CellValues::Variable,
                        false => CellValues::Fixed(1),
                    },
                    filters: match random.one_in(2) {
                        // Rounding would change coordinates.
                        true if datatype.representation() != Representation::Float => {
                            filters(&mut random, datatype, is_text)
                        }
                        _ => Pipeline::default(),
                    },
                    domain: (!is_text).then(|| Interval {
                        low: scalar(datatype, low),
                        high: scalar(datatype, low + length - 1),
                    }),
                    extent: has_extent.then(|| scalar(datatype, extent)),
                }
            })
            .collect();
        let orders = [Layout::RowMajor, Layout::ColumnMajor];
        let has_key = random.one_in(6);
        let attributes = 1 + random.below(4) as usize;
        let schema = Schema {
            version: ArrayWriter::VERSION,
            allows_duplicates: is_sparse && random.one_in(2),
            is_sparse,
            tile_order: random.choose(&orders),
            cell_order: match is_sparse && random.one_in(3) {
                true => Layout::Hilbert,
                false => random.choose(&orders),
            },
            capacity: 1 + random.below(40),
            coordinate_filters: Pipeline::new(vec![Filter::Zstd { level: -1 }]),
            offset_filters: random.choose(&[
                Pipeline::default(),
                Pipeline::new(vec![Filter::Zstd { level: -1 }]),
                Pipeline::new(vec![
                    Filter::PositiveDelta { max_window: 1024 },
                    Filter::BitWidthReduction { max_window: 256 },
                    Filter::Lz4 { level: -1 },
                ]),
                Pipeline::new(vec![Filter::DoubleDelta { reinterpret: None }]),
            ]),
            validity_filters: random
                .choose(&[Pipeline::new(vec![Filter::Rle]), Pipeline::default()]),
            dimensions,
            attributes: (0..attributes)
                .map(|index| attribute(&mut random, format!("a{index}")))
                .collect(),
            labels: Vec::new(),
            enumerations: Vec::new(),
            current_domain: None,
        };
        let mut array = Self {
            key: has_key.then(super::key),
            writes: Vec::new(),
            schema,
        };
        for _ in 0..1 + random.below(3) {
            let write = match is_sparse {
                true => array.sparse_write(&mut random),
                false => array.dense_write(&mut random),
            };
            array.writes.push(write);
        }
        array
    }

    /// The number of cells along each dimension of a dense array.
    fn shape(&self) -> Vec<u64> {
        let length = |dimension: &Dimension| match dimension.domain.clone().unwrap() {
            Interval {
                low: Scalar::Signed(low),
                high: Scalar::Signed(high),
            } => (high - low) as u64 + 1,
            Interval {
                low: Scalar::Unsigned(low),
                high: Scalar::Unsigned(high),
            } => high - low + 1,
            other => panic!("{other:?}"),
        };
        self.schema.dimensions.iter().map(length).collect()
    }

    fn dense_write(&self, random: &mut Random) -> Write {
        let is_whole = random.one_in(2);
        let range = |length: u64| match is_whole {
            true => 0..length,
            false => {
                let start = random.below(length);
                start..start + 1 + random.below(length - start)
            }
        };
        let cells_box = IndexBox {
            ranges: self.shape().into_iter().map(range).collect(),
        };
        let count = cells_box.cells().unwrap() as usize;
        let attributes = self.schema.attributes.iter();
        let columns = attributes
            .map(|attribute| {
                let kind = (attribute.datatype, attribute.cell_values);
                cells(random, kind, attribute.is_nullable, count)
            })
            .collect();
        Write {
            cells: cells_box,
            count,
            columns,
        }
    }

    fn sparse_write(&self, random: &mut Random) -> Write {
        let wanted = random.choose(&[1, 5, 40, 200]);
        let mut seen = std::collections::HashSet::new();
        let mut coordinates: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..wanted {
            let mut key = Vec::new();
            for dimension in &self.schema.dimensions {
                let mut bytes = Vec::new();
                match &dimension.domain {
                    None => {
                        let length = random.below(4);
                        bytes.extend((0..length).map(|_| b'a' + random.below(4) as u8));
                    }
                    Some(Interval {
                        low: Scalar::Float(low),
                        high: Scalar::Float(high),
                    }) => {
                        let steps = ((high - low) * 4.0) as u64 + 1;
                        let value = low + random.below(steps) as f64 / 4.0;
                        put_value(dimension.datatype, (value * 4.0) as i64, &mut bytes);
                    }
                    Some(Interval {
                        low: Scalar::Signed(low),
                        high: Scalar::Signed(high),
                    }) => {
                        let value = low + random.below((high - low) as u64 + 1) as i64;
                        put_value(dimension.datatype, value, &mut bytes);
                    }
                    Some(Interval {
                        low: Scalar::Unsigned(low),
                        high: Scalar::Unsigned(high),
                    }) => {
                        let value = low + random.below(high - low + 1);
                        put_value(dimension.datatype, value as i64, &mut bytes);
                    }
                    Some(other) => panic!("{other:?}"),
                }
                key.push(bytes);
            }
            if seen.insert(key.clone()) || self.schema.allows_duplicates {
                coordinates.push(key);
            }
        }
        let count = coordinates.len();
        let mut columns = Vec::new();
        for (index, dimension) in self.schema.dimensions.iter().enumerate() {
            let mut column = TileBuffers {
                cells: count,
                ..TileBuffers::default()
            };
            for key in &coordinates {
                if dimension.cell_values.is_variable() {
                    column.offsets.push(column.values.len() as u64);
                }
                column.values.extend(&key[index]);
            }
            if dimension.cell_values.is_variable() {
                column.offsets.push(column.values.len() as u64);
            }
            columns.push(column);
        }
        for attribute in &self.schema.attributes {
            let kind = (attribute.datatype, attribute.cell_values);
            columns.push(cells(random, kind, attribute.is_nullable, count));
        }
        Write {
            cells: IndexBox { ranges: Vec::new() },
            count,
            columns,
        }
    }

    /// Writes the array: the first fragment with the array, the others to the existing array.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        for (index, write) in self.writes.iter().enumerate() {
            let options = WriteOptions {
                timestamp: Some(10 * (index as u64 + 1)),
                key: self.key.clone(),
                // Sorts many cells with temporary files.
                sort_memory: 1000,
            };
            if index == 0 {
                let array = ArrayWriter::create(path, self.schema.clone(), &[], &options)?;
                match self.schema.is_sparse {
                    true => write_sparse(SparseWriter::new(&array)?, write)?,
                    false => write_dense(DenseWriter::new(&array, write.cells.clone())?, write)?,
                }
                array.finish()?;
                continue;
            }
            let array = self.open(path)?;
            match self.schema.is_sparse {
                true => write_sparse(SparseWriter::append(&array, &options)?, write)?,
                false if index == 1 => {
                    let writer = DenseCellWriter::append(&array, &options)?;
                    write_dense_cells(writer, &self.schema, write)?;
                }
                false => {
                    let cells = write.cells.clone();
                    write_dense(DenseWriter::append(&array, cells, &options)?, write)?;
                }
            }
        }
        Ok(())
    }

    /// Opens the written array.
    pub fn open(&self, path: &Path) -> Result<Arc<TileDbArray>, Error> {
        let options = OpenOptions {
            key: self.key.clone(),
            ..OpenOptions::default()
        };
        TileDbArray::open(path, &options, Access::Mmap).map(Arc::new)
    }

    /// Returns the cells that the array has after all writes, as rows.
    pub fn rows(&self) -> Vec<Vec<serde_json::Value>> {
        let schema = &self.schema;
        let mut all = Vec::new();
        let mut by_coordinates = BTreeMap::new();
        if !schema.is_sparse {
            let shape = self.shape().into_iter().map(|length| 0..length);
            let whole = IndexBox {
                ranges: shape.collect(),
            };
            for index in super::rows::indices(&whole) {
                let attributes = schema.attributes.iter();
                let fill = attributes.map(|attribute| {
                    let fill = TileBuffers {
                        cells: 1,
                        values: attribute.fill.clone(),
                        offsets: match attribute.cell_values.is_variable() {
                            true => vec![0, attribute.fill.len() as u64],
                            false => Vec::new(),
                        },
                        validity: vec![0; usize::from(attribute.is_nullable)],
                    };
                    let (datatype, values) = (attribute.datatype, attribute.cell_values);
                    super::rows::column(datatype, values, None, &fill).remove(0)
                });
                by_coordinates.insert(index, fill.collect::<Vec<_>>());
            }
        }
        for write in &self.writes {
            let dimensions = schema.dimensions.iter();
            let dimensions =
                dimensions.map(|dimension| (dimension.datatype, dimension.cell_values));
            let attributes = schema.attributes.iter();
            let attributes =
                attributes.map(|attribute| (attribute.datatype, attribute.cell_values));
            let fields: Vec<_> = match schema.is_sparse {
                true => dimensions.chain(attributes).collect(),
                false => attributes.collect(),
            };
            let columns: Vec<_> = fields
                .iter()
                .zip(&write.columns)
                .map(|((datatype, values), column)| {
                    super::rows::column(*datatype, *values, None, column)
                })
                .collect();
            let rows = (0..write.count).map(|row| {
                let row = columns.iter().map(|column| column[row].clone());
                row.collect::<Vec<_>>()
            });
            if !schema.is_sparse {
                let indices = super::rows::indices(&write.cells);
                by_coordinates.extend(indices.into_iter().zip(rows));
            } else if schema.allows_duplicates {
                all.extend(rows);
            } else {
                for row in rows {
                    let key = format!("{:?}", &row[..schema.dimensions.len()]);
                    all.retain(|other: &Vec<serde_json::Value>| {
                        format!("{:?}", &other[..schema.dimensions.len()]) != key
                    });
                    all.push(row);
                }
            }
        }
        if !schema.is_sparse {
            for (index, row) in by_coordinates {
                let dimensions = schema.dimensions.iter().zip(index);
                let coordinates = dimensions.map(|(dimension, index)| {
                    match dimension.domain.clone().unwrap().low {
                        Scalar::Signed(low) => serde_json::json!(low + index as i64),
                        Scalar::Unsigned(low) => serde_json::json!(low + index),
                        other => panic!("{other:?}"),
                    }
                });
                all.push(coordinates.chain(row).collect());
            }
        }
        all
    }
}

fn write_sparse(mut writer: SparseWriter, write: &Write) -> Result<(), Error> {
    // Two batches of cells.
    let middle = write.count / 2;
    for range in [0..middle, middle..write.count] {
        let rows: Vec<usize> = range.collect();
        writer.write(rows.len(), &take(&write.columns, &rows))?;
    }
    writer.finish().map(drop)
}

fn write_dense(mut writer: DenseWriter, write: &Write) -> Result<(), Error> {
    while let Some(window) = writer.next_tile() {
        let rows: Vec<usize> = super::rows::indices(&window)
            .iter()
            .map(|index| {
                let axes = index.iter().zip(&write.cells.ranges);
                axes.fold(0, |row, (index, range)| {
                    row * (range.end - range.start) as usize + (index - range.start) as usize
                })
            })
            .collect();
        writer.write(&take(&write.columns, &rows))?;
    }
    writer.finish().map(drop)
}

/// Writes the cells of a dense array in another order, with their coordinates.
fn write_dense_cells(
    mut writer: DenseCellWriter,
    schema: &Schema,
    write: &Write,
) -> Result<(), Error> {
    let indices = super::rows::indices(&write.cells);
    let mut columns = Vec::new();
    for (axis, dimension) in schema.dimensions.iter().enumerate() {
        let low = match dimension.domain.clone().unwrap().low {
            Scalar::Signed(low) => low,
            Scalar::Unsigned(low) => low as i64,
            other => panic!("{other:?}"),
        };
        let mut column = TileBuffers {
            cells: write.count,
            ..TileBuffers::default()
        };
        for index in &indices {
            put_value(
                dimension.datatype,
                low + index[axis] as i64,
                &mut column.values,
            );
        }
        columns.push(column);
    }
    columns.extend(write.columns.iter().cloned());
    let rows: Vec<usize> = (0..write.count).rev().collect();
    for rows in rows.chunks(7) {
        writer.write(rows.len(), &take(&columns, rows))?;
    }
    writer.finish(true).map(drop)
}

/// Returns some rows of columns.
pub fn take(columns: &[TileBuffers], rows: &[usize]) -> Vec<TileBuffers> {
    let take = |column: &TileBuffers| {
        let size = column.values.len() / column.cells.max(1);
        let mut taken = TileBuffers {
            cells: rows.len(),
            ..TileBuffers::default()
        };
        let is_variable = !column.offsets.is_empty();
        for row in rows {
            let range = match is_variable {
                true => column.offsets[*row] as usize..column.offsets[row + 1] as usize,
                false => row * size..(row + 1) * size,
            };
            if is_variable {
                taken.offsets.push(taken.values.len() as u64);
            }
            taken.values.extend(&column.values[range]);
            taken.validity.extend(column.validity.get(*row));
        }
        if is_variable {
            taken.offsets.push(taken.values.len() as u64);
        }
        taken
    };
    columns.iter().map(take).collect()
}
