//! Random arrays: schemas of all kinds, and the cells of some writes.

mod cells;
mod writers;

use std::path::Path;
use std::sync::Arc;

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tiledb::{
    ArrayWriter, Attribute, CellValues, DataOrder, Datatype, Dimension, EncryptionKey, Filter,
    IndexBox, Interval, Layout, OpenOptions, Pipeline, Representation, Scalar, Schema, TileBuffers,
    TileDbArray, default_fill,
};

use cells::scalar;

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

    /// Opens the written array.
    pub fn open(&self, path: &Path) -> Result<Arc<TileDbArray>, Error> {
        let options = OpenOptions {
            key: self.key.clone(),
            ..OpenOptions::default()
        };
        TileDbArray::open(path, &options, Access::Mmap).map(Arc::new)
    }
}
