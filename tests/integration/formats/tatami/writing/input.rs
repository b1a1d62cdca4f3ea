//! Rows as input of the writer.

use std::path::Path;

use serde_json::Value;
use tet_sql::format::tatami::{
    BitSlice, ColumnType, Field, InputColumn, InputValues, Schema, TatamiWriter, WriterOptions,
    WrittenFile,
};

use super::super::data::{Random, document, from_base64, lines};

/// The scalar bytes of each row of a column. `None` for nulls.
pub type Cells = Vec<Option<Vec<u8>>>;

/// Rows of some columns.
pub struct Rows {
    pub schema: Schema,
    pub columns: Vec<Cells>,
}

pub fn field(name: &str, column_type: ColumnType, flags: u8) -> Field {
    Field {
        name: name.to_string(),
        column_type,
        flags,
        element_type: 0,
    }
}

impl Rows {
    /// Reads the rows of a file of the corpus.
    pub fn of_corpus(name: &str) -> Self {
        let layout = document(&format!("{name}.layout.json"));
        let fields = layout["schema"]
            .as_array()
            .unwrap()
            .iter()
            .map(|described| {
                let id = described["type_id"].as_u64().unwrap() as u8;
                let flags = described["flags"].as_u64().unwrap() as u8;
                let column_type = ColumnType::from_id(id).unwrap();
                field(described["name"].as_str().unwrap(), column_type, flags)
            });
        let schema = Schema {
            fields: fields.collect(),
        };
        let rows = lines(&format!("{name}.rows.jsonl"));
        let columns = schema.fields.iter().enumerate().map(|(column, field)| {
            let cells = rows
                .iter()
                .map(|row| scalar(&row[column], field.column_type));
            cells.collect()
        });
        Self {
            columns: columns.collect(),
            schema,
        }
    }

    pub fn len(&self) -> usize {
        self.columns[0].len()
    }

    /// Writes all rows, in batches of random lengths and forms.
    pub fn write(
        &self,
        path: &Path,
        options: WriterOptions,
        random: &mut Random,
    ) -> Result<WrittenFile, tet_sql::Error> {
        self.append(
            TatamiWriter::create(path, self.schema.clone(), options)?,
            random,
        )?
        .finish()
    }

    /// Appends all rows, in batches of random lengths and forms.
    pub fn append(
        &self,
        mut writer: TatamiWriter,
        random: &mut Random,
    ) -> Result<TatamiWriter, tet_sql::Error> {
        let mut next = 0;
        while next < self.len() {
            let end = self.len().min(next + 1 + random.below(300));
            let fields = self.schema.fields.iter().zip(&self.columns);
            let batch: Vec<Batch<'_>> = fields
                .map(|(field, cells)| Batch::new(field.column_type, &cells[next..end], random))
                .collect();
            let columns: Vec<InputColumn<'_>> = batch.iter().map(Batch::column).collect();
            writer.write(end - next, &columns)?;
            next = end;
            assert_eq!(writer.rows(), next as u64);
        }
        Ok(writer)
    }
}

/// Returns the scalar bytes of a value in the notation of the corpus.
fn scalar(cell: &Value, column_type: ColumnType) -> Option<Vec<u8>> {
    Some(match cell {
        Value::Null => return None,
        Value::Bool(value) => vec![u8::from(*value)],
        Value::Number(number) => {
            let word = number.as_i64().map(|value| value as u64);
            let word = word.or_else(|| number.as_u64()).unwrap();
            word.to_le_bytes()[..column_type.width().unwrap()].to_vec()
        }
        Value::String(text) if column_type.is_float() => {
            let bits = u64::from_str_radix(&text[4..], 16).unwrap();
            bits.to_le_bytes()[..column_type.width().unwrap()].to_vec()
        }
        Value::String(text) => text.as_bytes().to_vec(),
        cell => from_base64(cell["b64"].as_str().unwrap()),
    })
}

enum Values<'a> {
    Bits(Vec<u8>, usize),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Bytes32(Vec<i32>, Vec<u8>),
    Bytes64(Vec<i64>, Vec<u8>),
    Slices(Vec<&'a [u8]>),
}

/// One column of a batch, in buffers as the writer takes them.
struct Batch<'a> {
    validity: Option<(Vec<u8>, usize)>,
    values: Values<'a>,
}

impl<'a> Batch<'a> {
    fn new(column_type: ColumnType, cells: &'a [Option<Vec<u8>>], random: &mut Random) -> Self {
        let has_nulls = cells.iter().any(Option::is_none);
        let validity = (has_nulls || random.below(2) == 0).then(|| {
            let offset = random.below(20);
            (bits(cells.iter().map(Option::is_some), offset), offset)
        });
        // The values of nulls are arbitrary.
        macro_rules! words {
            ($variant:ident, $word:ty) => {
                Values::$variant(
                    cells
                        .iter()
                        .map(|cell| match cell {
                            Some(bytes) => {
                                <$word>::from_le_bytes(bytes.as_slice().try_into().unwrap())
                            }
                            None => 77 as $word,
                        })
                        .collect(),
                )
            };
        }
        let values = match column_type {
            ColumnType::Bool => {
                let offset = random.below(20);
                let values = cells.iter().map(|cell| cell.as_deref() != Some(&[0]));
                Values::Bits(bits(values, offset), offset)
            }
            ColumnType::Int8 => words!(Int8, i8),
            ColumnType::Int16 => words!(Int16, i16),
            ColumnType::Int32 => words!(Int32, i32),
            ColumnType::Int64 | ColumnType::TimestampMicros => words!(Int64, i64),
            ColumnType::Uint8 => words!(Uint8, u8),
            ColumnType::Uint16 => words!(Uint16, u16),
            ColumnType::Uint32 => words!(Uint32, u32),
            ColumnType::Uint64 => words!(Uint64, u64),
            ColumnType::Float32 => words!(Float32, f32),
            ColumnType::Float64 => words!(Float64, f64),
            _ => {
                let mut data = b"before".to_vec();
                let mut ends = vec![data.len()];
                for cell in cells {
                    data.extend_from_slice(cell.as_deref().unwrap_or(b"null"));
                    ends.push(data.len());
                }
                match random.below(3) {
                    0 => Values::Bytes32(ends.iter().map(|end| *end as i32).collect(), data),
                    1 => Values::Bytes64(ends.iter().map(|end| *end as i64).collect(), data),
                    _ => {
                        let cells = cells.iter().map(|cell| cell.as_deref().unwrap_or(b"null"));
                        Values::Slices(cells.collect())
                    }
                }
            }
        };
        Self { validity, values }
    }

    fn column(&self) -> InputColumn<'_> {
        let slice = |bytes, offset| BitSlice { bytes, offset };
        InputColumn {
            validity: self
                .validity
                .as_ref()
                .map(|(bytes, offset)| slice(bytes, *offset)),
            values: match &self.values {
                Values::Bits(bytes, offset) => InputValues::Bool(slice(bytes, *offset)),
                Values::Int8(values) => InputValues::Int8(values),
                Values::Int16(values) => InputValues::Int16(values),
                Values::Int32(values) => InputValues::Int32(values),
                Values::Int64(values) => InputValues::Int64(values),
                Values::Uint8(values) => InputValues::Uint8(values),
                Values::Uint16(values) => InputValues::Uint16(values),
                Values::Uint32(values) => InputValues::Uint32(values),
                Values::Uint64(values) => InputValues::Uint64(values),
                Values::Float32(values) => InputValues::Float32(values),
                Values::Float64(values) => InputValues::Float64(values),
                Values::Bytes32(offsets, data) => InputValues::Bytes32 { offsets, data },
                Values::Bytes64(offsets, data) => InputValues::Bytes64 { offsets, data },
                Values::Slices(values) => InputValues::ByteSlices(values),
            },
        }
    }
}

/// Packs bits after `offset` set bits.
fn bits(values: impl Iterator<Item = bool>, offset: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let before = std::iter::repeat_n(true, offset);
    for (index, is_set) in before.chain(values).enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        bytes[index / 8] |= u8::from(is_set) << (index % 8);
    }
    bytes
}
