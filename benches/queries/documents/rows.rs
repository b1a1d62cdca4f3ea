//! Generates the documents.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;

/// The number of documents in a batch.
const BATCH: u64 = 1024;
/// The number of different words in bodies.
const WORDS: f64 = 50_000.0;
/// The number of different hosts.
const HOSTS: f64 = 5_000.0;
const LANGUAGES: [&str; 8] = ["en", "de", "fr", "es", "ja", "pt", "it", "nl"];
const SYLLABLES: [&str; 16] = [
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "we",
];

/// The documents as a stream of rows in the order of their ids, generated as the stream is read.
///
/// Words and hosts have frequencies inversely proportional to their ranks. Bodies have 0.5 to 4 KB.
#[derive(Debug)]
pub struct Generated {
    count: u64,
    schema: SchemaRef,
}

impl Generated {
    pub fn new(count: u64) -> Self {
        let text = |name| Field::new(name, DataType::Utf8, false);
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        Self {
            count,
            schema: Arc::new(Schema::new(vec![
                Field::new("id", DataType::Int64, false),
                text("url"),
                text("host"),
                text("lang"),
                Field::new("ts", time, false),
                Field::new("len", DataType::UInt32, false),
                text("body"),
            ])),
        }
    }

    /// Returns the URL of a document.
    pub fn url(&self, id: u64) -> String {
        let mut random = Random(id);
        url(id, &host(&mut random))
    }
}

/// Returns a word by its rank, a smaller one for more frequent words.
pub fn word(rank: u64) -> String {
    let mut word = String::new();
    push_word(rank, &mut word);
    word
}

fn push_word(mut rank: u64, text: &mut String) {
    text.push_str(SYLLABLES[(rank % 16) as usize]);
    while rank >= 16 {
        rank /= 16;
        text.push_str(SYLLABLES[(rank % 16) as usize]);
    }
    text.push('n');
}

fn host(random: &mut Random) -> String {
    let rank = random.rank(HOSTS);
    format!("{}.example.org", word(rank))
}

fn url(id: u64, host: &str) -> String {
    format!("https://{host}/articles/{id}")
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a rank from 0 to `most` - 1, each with a probability inversely proportional to it.
    fn rank(&mut self, most: f64) -> u64 {
        let fraction = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        most.powf(fraction) as u64 - 1
    }
}

impl PartitionStream for Generated {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, count) = (Arc::clone(&self.schema), self.count);
        let batches = (0..count.div_ceil(BATCH)).map(move |batch| {
            let ids = batch * BATCH..count.min((batch + 1) * BATCH);
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns(ids))?)
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream,
        ))
    }
}

fn columns(ids: std::ops::Range<u64>) -> Vec<ArrayRef> {
    let (mut urls, mut hosts, mut languages) = (Vec::new(), Vec::new(), Vec::new());
    let (mut times, mut bodies) = (Vec::new(), Vec::new());
    for id in ids.clone() {
        let mut random = Random(id);
        let host = host(&mut random);
        urls.push(url(id, &host));
        hosts.push(host);
        languages.push(LANGUAGES[random.rank(LANGUAGES.len() as f64) as usize]);
        // Documents are crawled over a year, not quite in the order of their ids.
        let second = 1_700_000_000 + id * 31 + random.next() % 3600;
        times.push(second as i64 * 1_000_000 + (random.next() % 1_000_000) as i64);
        let length = 512 + random.next() % 3584;
        let mut body = format!("Document {id}:");
        while (body.len() as u64) < length {
            body.push(' ');
            push_word(random.rank(WORDS), &mut body);
        }
        bodies.push(body);
    }
    let lengths = bodies.iter().map(|body| body.len() as u32);
    vec![
        Arc::new(Int64Array::from_iter_values(ids.map(|id| id as i64))),
        Arc::new(StringArray::from(urls)),
        Arc::new(StringArray::from(hosts)),
        Arc::new(StringArray::from(languages)),
        Arc::new(TimestampMicrosecondArray::from(times)),
        Arc::new(UInt32Array::from_iter_values(lengths)),
        Arc::new(StringArray::from(bodies)),
    ]
}
