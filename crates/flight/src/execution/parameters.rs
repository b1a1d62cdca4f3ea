//! The parameters of prepared statements: their placeholders in SQL, their types, and rows of
//! values.

use crate::dialect::Dialect;
use crate::panics::untrusted;
use crate::protocol::ipc;
use crate::protocol::wire::plain_type;
use crate::status::{of_arrow, status, wrong};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use futures::{FutureExt, StreamExt, stream};
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::fmt::Display;
use tonic::{Code, Status};

/// The maximum number of parameters of a statement.
const MOST: usize = 1000;
/// The maximum number of rows of parameters.
const ROWS: usize = 10_000;
/// The maximum size of all rows in bytes. They travel in tickets, whose size clients limit.
const BYTES: usize = 1 << 20;

/// Replaces the placeholders `?`, which drivers use, with the numbered ones of DataFusion: `$1`,
/// `$2` and so on.
pub fn number_placeholders(dialect: &dyn Dialect, sql: &str) -> Result<String, Status> {
    // The planner reports a text that cannot be tokenized more clearly.
    let Some(placeholders) = dialect.placeholders(sql) else {
        return Ok(sql.to_owned());
    };
    let mut places = Vec::new();
    let mut has_names = false;
    for (name, range) in placeholders {
        match name.as_str() {
            // The tokenizer expands `/*! */` comments. A placeholder in one has no range in the
            // text.
            "?" if &sql[range.clone()] == "?" => places.push(range),
            "?" => {}
            _ => has_names = true,
        }
    }
    if places.is_empty() {
        return Ok(sql.to_owned());
    }
    if has_names {
        return Err(wrong(
            "the statement mixes ? with numbered or named parameters",
        ));
    }
    let mut numbered = String::with_capacity(sql.len() + 4 * places.len());
    let mut end = 0;
    for (before, range) in places.into_iter().enumerate() {
        numbered.push_str(&sql[end..range.start]);
        numbered.push_str(&format!("${}", before + 1));
        end = range.end;
    }
    numbered.push_str(&sql[end..]);
    Ok(numbered)
}

/// The parameters of a statement, in the order in which they are bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The names without `$`. Numbered parameters include unused numbers below the highest.
    names: Vec<String>,
    are_numbered: bool,
}

impl Parameters {
    /// Returns the parameters of a plan.
    pub fn of(plan: &LogicalPlan) -> Result<Self, DataFusionError> {
        let names = plan.get_parameter_names()?;
        let mut names: Vec<String> = names
            .iter()
            .map(|name| name.trim_start_matches('$').to_owned())
            .collect();
        names.sort();
        let numbers: Option<Vec<usize>> = names.iter().map(|name| name.parse().ok()).collect();
        let Some(numbers) = numbers else {
            return Ok(Self {
                names,
                are_numbered: false,
            });
        };
        let count = numbers.into_iter().max().unwrap_or(0);
        if count > MOST {
            return Err(DataFusionError::Plan(format!(
                "more than {MOST} parameters"
            )));
        }
        Ok(Self {
            names: (1..=count).map(|number| number.to_string()).collect(),
            are_numbered: true,
        })
    }

    /// Returns `true` if the statement has no parameters.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name and type of each parameter. A type that the statement does not determine is
    /// text.
    pub fn schema(&self, plan: &LogicalPlan) -> Schema {
        // Contradicting types are an error, but it only matters once values are bound.
        let types: HashMap<String, Option<DataType>> =
            plan.get_parameter_types().unwrap_or_default();
        let fields = self.names.iter().map(|name| {
            let name = format!("${name}");
            let known = types.get(&name).and_then(Option::as_ref);
            let data_type = known.map_or(DataType::Utf8, plain_type);
            Field::new(name, data_type, true)
        });
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// Returns the values of the parameters in each row of `batches`.
    pub fn rows(&self, batches: &[RecordBatch]) -> Result<Vec<ParamValues>, Status> {
        let mut rows = Vec::new();
        for batch in batches {
            let columns = self.columns(batch.schema_ref())?;
            for row in 0..batch.num_rows() {
                let values = columns
                    .iter()
                    .map(|&column| ScalarValue::try_from_array(batch.column(column), row));
                let values = values.collect::<Result<Vec<_>, _>>();
                let values = values.map_err(|error| wrong(error.to_string()))?;
                rows.push(self.values(values));
            }
        }
        Ok(rows)
    }

    /// Returns the column of each parameter: by name if every named parameter has a column, else by
    /// order.
    fn columns(&self, schema: &Schema) -> Result<Vec<usize>, Status> {
        let (here, there) = (self.names.len(), schema.fields().len());
        if here != there {
            return Err(wrong(format!(
                "the statement has {here} parameters, but {there} are bound"
            )));
        }
        let named = self.names.iter().map(|name| {
            let mut fields = schema.fields().iter();
            fields.position(|field| field.name().strip_prefix('$').unwrap_or(field.name()) == name)
        });
        match named.collect::<Option<Vec<usize>>>() {
            Some(columns) if !self.are_numbered => Ok(columns),
            _ => Ok((0..here).collect()),
        }
    }

    fn values(&self, values: Vec<ScalarValue>) -> ParamValues {
        if self.are_numbered {
            values.into()
        } else {
            let names = self.names.iter().cloned();
            names
                .zip(values)
                .collect::<Vec<(String, ScalarValue)>>()
                .into()
        }
    }
}

/// Messages with rows of parameters, as sent by a client.
#[derive(Default)]
pub struct Received {
    messages: Vec<FlightData>,
    bytes: usize,
}

impl Received {
    /// Adds a message, within the size limit.
    pub fn add(&mut self, message: FlightData) -> Result<(), Status> {
        ipc::check_header(&message.data_header)?;
        // Even an empty message takes memory.
        self.bytes += 64 + message.data_header.len() + message.data_body.len();
        if self.bytes > 2 * BYTES {
            return Err(too_many(&format!("{BYTES} bytes")));
        }
        self.messages.push(message);
        Ok(())
    }

    /// Encodes the received rows as an IPC stream. Decoding the untrusted messages may panic.
    pub fn pack(self) -> Result<Bytes, Status> {
        untrusted(|| {
            let messages = stream::iter(self.messages.into_iter().map(Ok));
            let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
            let mut packing: Option<Packing> = None;
            // All messages have been received, so the stream is never pending.
            while let Some(Some(batch)) = batches.next().now_or_never() {
                let batch = batch.map_err(|error| broken(&error))?;
                let mut rows = match packing.take() {
                    Some(rows) => rows,
                    None => Packing::new(batch.schema_ref())?,
                };
                rows.add(&batch)?;
                packing = Some(rows);
            }
            let rows = match (packing, batches.schema()) {
                (Some(rows), _) => rows,
                (None, Some(schema)) => Packing::new(schema)?,
                (None, None) => return Err(wrong("parameters without a schema")),
            };
            rows.finish()
        })
    }
}

/// Encodes rows of parameters as an IPC stream.
struct Packing {
    writer: StreamWriter<Vec<u8>>,
    rows: usize,
}

impl Packing {
    fn new(schema: &Schema) -> Result<Self, Status> {
        let writer = StreamWriter::try_new(Vec::new(), schema);
        Ok(Self {
            writer: writer.map_err(|error| of_arrow(&error))?,
            rows: 0,
        })
    }

    /// Adds rows, within the limits.
    fn add(&mut self, batch: &RecordBatch) -> Result<(), Status> {
        self.rows += batch.num_rows();
        if self.rows > ROWS {
            return Err(too_many(&format!("{ROWS} rows")));
        }
        let written = self.writer.write(batch);
        written.map_err(|error| of_arrow(&error))?;
        if self.writer.get_ref().len() > BYTES {
            return Err(too_many(&format!("{BYTES} bytes")));
        }
        Ok(())
    }

    fn finish(self) -> Result<Bytes, Status> {
        let bytes = self.writer.into_inner();
        Ok(bytes.map_err(|error| of_arrow(&error))?.into())
    }
}

/// Decodes rows of parameters. The bytes come from a ticket, which a client may have forged.
pub fn decode(bytes: &[u8]) -> Result<Vec<RecordBatch>, Status> {
    if ipc::check_stream(bytes)? > ROWS as u64 {
        return Err(too_many(&format!("{ROWS} rows")));
    }
    untrusted(|| {
        let reader = StreamReader::try_new(bytes, None).map_err(|error| broken(&error))?;
        let batches = reader.collect::<Result<_, _>>();
        batches.map_err(|error| broken(&error))
    })
}

fn broken(error: &impl Display) -> Status {
    wrong(format!("the parameters are invalid: {error}"))
}

fn too_many(limit: &str) -> Status {
    let message = format!("resource exhausted: more than {limit} of parameters");
    status(Code::ResourceExhausted, &message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::DataFusionDialect;
    use datafusion::arrow::array::{ArrayRef, Int64Array, NullArray, StringArray};
    use std::sync::Arc;

    #[test]
    fn places_are_numbered_where_they_are_parameters() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT ?, ?", "SELECT $1, $2"),
            (
                "SELECT 'ä?', \"?\" -- ?\n  FROM t /* ? */ WHERE ö = ? AND x>?",
                "SELECT 'ä?', \"?\" -- ?\n  FROM t /* ? */ WHERE ö = $1 AND x>$2",
            ),
            ("SELECT /*!?*/?", "SELECT /*!?*/$1"),
            ("SELECT $1, $name", "SELECT $1, $name"),
            ("SELECT 'unterminated ?", "SELECT 'unterminated ?"),
        ] {
            assert_eq!(
                number_placeholders(&DataFusionDialect, sql).unwrap(),
                expected
            );
        }
        assert!(number_placeholders(&DataFusionDialect, "SELECT ?, $1").is_err());
    }

    #[test]
    fn columns_are_bound_by_place_or_by_name() {
        let numbered = Parameters {
            names: vec!["1".to_owned(), "2".to_owned()],
            are_numbered: true,
        };
        let named = Parameters {
            names: vec!["from".to_owned(), "to".to_owned()],
            are_numbered: false,
        };
        let batch = RecordBatch::try_from_iter([
            ("to", Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef),
            (
                "$from",
                Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef,
            ),
        ])
        .unwrap();
        let mut packing = Packing::new(&batch.schema()).unwrap();
        packing.add(&batch).unwrap();
        let batches = decode(&packing.finish().unwrap()).unwrap();
        let rows = numbered.rows(&batches).unwrap();
        let second = rows[1].get_placeholders_with_values("$1").unwrap();
        assert_eq!(second.value, ScalarValue::Int64(Some(8)));
        let rows = named.rows(&batches).unwrap();
        let first = rows[0].get_placeholders_with_values("$from").unwrap();
        assert_eq!(first.value, ScalarValue::from("a"));
        let one = batch.project(&[0]).unwrap();
        assert!(numbered.rows(&[one]).is_err());
        assert!(decode(b"no stream").is_err());
        // Many rows of nulls take no bytes.
        let many = Arc::new(NullArray::new(1 << 40)) as ArrayRef;
        let many = RecordBatch::try_from_iter([("a", many)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &many.schema()).unwrap();
        writer.write(&many).unwrap();
        let error = decode(&writer.into_inner().unwrap()).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
    }
}
