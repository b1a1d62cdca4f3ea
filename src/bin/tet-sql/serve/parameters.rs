//! Parameters of prepared statements: their places in SQL, their types, and rows of their values.

use crate::serve::ipc;
use crate::serve::panics::untrusted;
use crate::serve::status::{of_arrow, status, wrong};
use crate::serve::wire::plain_type;
use crate::statement::tokens::Tokens;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::{FutureExt, StreamExt, stream};
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::fmt::Display;
use tonic::{Code, Status};

/// The most parameters of a statement.
const MOST: usize = 1000;
/// The most rows of parameters.
const ROWS: usize = 10_000;
/// The most bytes of all rows. They travel in tickets, which clients take only so much of.
const BYTES: usize = 1 << 20;

/// Gives the places `?`, as drivers write them, the numbers that the engine knows them by: `$1`, `$2`.
pub fn number_places(sql: &str) -> Result<String, Status> {
    let Tokens { tokens, broken } = Tokens::of(sql, &GenericDialect {});
    // What is wrong with it, the planner says better.
    if broken.is_some() {
        return Ok(sql.to_owned());
    }
    let mut places = Vec::new();
    let mut has_names = false;
    for (token, place) in tokens {
        match token {
            Token::Placeholder(text) if text != "?" => has_names = true,
            // In a comment that is expanded into tokens it has no place.
            Token::Placeholder(_) if &sql[place.clone()] == "?" => places.push(place),
            _ => {}
        }
    }
    if places.is_empty() {
        return Ok(sql.to_owned());
    }
    if has_names {
        return Err(wrong(
            "the statement has parameters both as ? and by number or name",
        ));
    }
    let mut numbered = String::with_capacity(sql.len() + 4 * places.len());
    let mut end = 0;
    for (before, place) in places.into_iter().enumerate() {
        numbered.push_str(&sql[end..place.start]);
        numbered.push_str(&format!("${}", before + 1));
        end = place.end;
    }
    numbered.push_str(&sql[end..]);
    Ok(numbered)
}

/// The parameters of a statement, in the order in which they are bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Without `$`. Of numbered ones those between two that are there are there, too.
    names: Vec<String>,
    are_numbered: bool,
}

impl Parameters {
    /// Of a plan.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Names, and types as far as the statement tells them; text where it does not.
    pub fn schema(&self, plan: &LogicalPlan) -> Schema {
        // It is an error if they contradict each other, which only matters once they have values.
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

    /// The rows of some batches as values of these parameters.
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

    /// The column of each parameter: the one of its name, if all have one, else the one in its place.
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

/// Messages with rows of parameters, as a client sends them.
#[derive(Default)]
pub struct Received {
    messages: Vec<FlightData>,
    bytes: usize,
}

impl Received {
    /// Adds a message, unless they are too many.
    pub fn add(&mut self, message: FlightData) -> Result<(), Status> {
        ipc::check_header(&message.data_header)?;
        // A message without anything in it takes memory, too.
        self.bytes += 64 + message.data_header.len() + message.data_body.len();
        if self.bytes > 2 * BYTES {
            return Err(too_many(&format!("{BYTES} bytes")));
        }
        self.messages.push(message);
        Ok(())
    }

    /// Packs the rows of the messages. They are a client's, so that decoding them may panic.
    pub fn pack(self) -> Result<Bytes, Status> {
        untrusted(|| {
            let messages = stream::iter(self.messages.into_iter().map(Ok));
            let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
            let mut packing: Option<Packing> = None;
            // All messages are there, so that the stream is never pending.
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

/// Packs rows of parameters.
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

    /// Adds rows, unless they are too many.
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

/// Unpacks rows of parameters. They come of a client's ticket, which need not be one that this server gave.
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
    wrong(format!("the parameters are broken: {error}"))
}

fn too_many(limit: &str) -> Status {
    let message = format!("resource exhausted: more than {limit} of parameters");
    status(Code::ResourceExhausted, &message)
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(number_places(sql).unwrap(), expected);
        }
        assert!(number_places("SELECT ?, $1").is_err());
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
        // It takes no bytes to say that there are many rows of nothing.
        let many = Arc::new(NullArray::new(1 << 40)) as ArrayRef;
        let many = RecordBatch::try_from_iter([("a", many)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &many.schema()).unwrap();
        writer.write(&many).unwrap();
        let error = decode(&writer.into_inner().unwrap()).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
    }
}
