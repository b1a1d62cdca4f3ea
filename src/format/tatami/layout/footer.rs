//! The footer: a list of tagged sections that describe everything else in the file.

use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_byte_string, put_varint};
use crate::format::tatami::layout::row_group::RowGroup;
use crate::format::tatami::layout::schema::Schema;

/// The only codec of a footer: no compression.
const FOOTER_CODEC_NONE: u8 = 0;

const SECTION_SCHEMA: u64 = 1;
const SECTION_ROW_GROUPS: u64 = 2;
const SECTION_BLOBS: u64 = 3;
const SECTION_DICTIONARIES: u64 = 4;
const SECTION_BLOOMS: u64 = 5;
const SECTION_KEY_VALUES: u64 = 6;
const SECTION_STATS: u64 = 7;
const SECTION_INVERTED: u64 = 8;

/// The id of the only defined kind of Bloom filter.
pub const BLOOM_KIND: u8 = 0;
/// The key of the first key-value pair of every file, whose value is the version.
pub const VERSION_KEY: &str = "tatami.version";
/// The key of the key-value pair that names the sort key.
pub const SORT_KEY_KEY: &str = "tatami.sort_key";
/// The key of the key-value pair that names the columns whose words are indexed, separated by commas.
/// Segments of the reference implementation do not have it; they index `body`, `title` and `url`.
pub const SEARCH_COLUMNS_KEY: &str = "tet-sql.search_columns";

/// A run of blob values, compressed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRun {
    /// The offset of the record.
    pub offset: u64,
    /// The stored length of the payload in bytes.
    pub stored_size: u64,
    /// The length of the payload before compression.
    pub raw_size: u64,
    /// The number of values.
    pub values: u64,
}

/// The values of a blob column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobColumn {
    /// The index of the column in the schema.
    pub column: usize,
    /// The index of the dictionary of the runs in [`Footer::dictionaries`].
    pub dictionary: Option<usize>,
    /// The id of the [`Codec`](crate::format::tatami::Codec) of the runs.
    pub codec: u8,
    /// The runs, in the order of the rows.
    pub runs: Vec<BlobRun>,
}

/// A dictionary record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictionaryRef {
    /// The offset of the record.
    pub offset: u64,
    /// The length of the dictionary in bytes, before compression.
    pub raw_size: u64,
}

/// The record of a Bloom filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BloomRef {
    /// The offset of the record.
    pub offset: u64,
    /// The length of the payload in bytes.
    pub length: u64,
    /// The kind of filter: [`BLOOM_KIND`].
    pub kind: u8,
}

/// Totals over the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of pages, blob runs and dictionaries before compression, without headers.
    pub raw_bytes: u64,
    /// The stored bytes of pages, blob runs and dictionaries, without headers.
    pub stored_bytes: u64,
}

/// The location of an index record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The offset of the record's header.
    pub offset: u64,
    /// The length of the payload in bytes.
    pub length: u64,
}

/// The parts of the inverted index of a search segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inverted {
    /// The term dictionary.
    pub term_dictionary: Extent,
    /// The posting lists.
    pub postings: Extent,
    /// The skip entries of the posting lists.
    pub skips: Extent,
    /// The number of terms.
    pub terms: u64,
    /// The number of documents, deleted ones included.
    pub documents: u64,
    /// The bitset of live documents. Without it, all documents are live.
    pub live: Option<Extent>,
}

/// The contents of a footer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footer {
    /// The columns.
    pub schema: Schema,
    /// The row groups, in the order of the rows.
    pub row_groups: Vec<RowGroup>,
    /// The blob columns.
    pub blobs: Vec<BlobColumn>,
    /// The dictionaries.
    pub dictionaries: Vec<DictionaryRef>,
    /// The Bloom filters.
    pub blooms: Vec<BloomRef>,
    /// The key-value pairs, in order. Keys may be repeated.
    pub key_values: Vec<(String, String)>,
    /// Totals over the file.
    pub stats: Stats,
    /// The inverted index.
    pub inverted: Option<Inverted>,
}

impl Footer {
    /// Parses a footer. Sections with unknown tags are skipped. If a tag occurs several times, the last
    /// section is used. Offsets and counts are not checked against the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields = Cursor::new(bytes);
        let codec = fields.byte("footer codec")?;
        if codec != FOOTER_CODEC_NONE {
            return Err(Fault::new("footer codec", codec, "0, not compressed"));
        }
        let mut footer = Self::default();
        while fields.remaining() > 0 {
            let tag = fields.varint("section tag")?;
            let mut body = Cursor::new(fields.byte_string("section length")?);
            footer.parse_section(tag, &mut body)?;
        }
        footer.schema.check()?;
        Ok(footer)
    }

    fn parse_section(&mut self, tag: u64, body: &mut Cursor<'_>) -> Result<(), Fault> {
        match tag {
            SECTION_SCHEMA => self.schema = Schema::parse(body)?,
            SECTION_ROW_GROUPS => {
                self.row_groups = body.list("number of row groups", 5, RowGroup::parse)?;
            }
            SECTION_BLOBS => {
                self.blobs = body.list("number of blob columns", 4, BlobColumn::parse)?
            }
            SECTION_DICTIONARIES => {
                self.dictionaries = body.list("number of dictionaries", 2, |body| {
                    Ok(DictionaryRef {
                        offset: body.varint("dictionary offset")?,
                        raw_size: body.varint("dictionary length")?,
                    })
                })?;
            }
            SECTION_BLOOMS => {
                self.blooms = body.list("number of Bloom filters", 3, |body| {
                    Ok(BloomRef {
                        offset: body.varint("Bloom filter offset")?,
                        length: body.varint("Bloom filter length")?,
                        kind: body.byte("Bloom filter kind")?,
                    })
                })?;
            }
            SECTION_KEY_VALUES => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.key_values = body.list("number of key-value pairs", 2, |body| {
                    let key = text(body.byte_string("key")?);
                    Ok((key, text(body.byte_string("value")?)))
                })?;
            }
            SECTION_STATS => {
                self.stats = Stats {
                    rows: body.varint("number of rows")?,
                    raw_bytes: body.varint("uncompressed bytes")?,
                    stored_bytes: body.varint("stored bytes")?,
                };
            }
            SECTION_INVERTED => self.inverted = Some(Inverted::parse(body)?),
            _ => return Ok(()),
        }
        body.finish("section length")
    }

    /// Returns the footer as stored, without the trailer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FOOTER_CODEC_NONE];
        let mut body = Vec::new();
        let mut section = |tag, body: &mut Vec<u8>| {
            put_varint(&mut out, tag);
            put_byte_string(&mut out, body);
            body.clear();
        };
        self.schema.encode(&mut body);
        section(SECTION_SCHEMA, &mut body);
        put_varint(&mut body, self.row_groups.len() as u64);
        for group in &self.row_groups {
            group.encode(&mut body);
        }
        section(SECTION_ROW_GROUPS, &mut body);
        if !self.blobs.is_empty() {
            put_varint(&mut body, self.blobs.len() as u64);
            for blobs in &self.blobs {
                blobs.encode(&mut body);
            }
            section(SECTION_BLOBS, &mut body);
        }
        if !self.dictionaries.is_empty() {
            put_varint(&mut body, self.dictionaries.len() as u64);
            for dictionary in &self.dictionaries {
                put_varint(&mut body, dictionary.offset);
                put_varint(&mut body, dictionary.raw_size);
            }
            section(SECTION_DICTIONARIES, &mut body);
        }
        if !self.blooms.is_empty() {
            put_varint(&mut body, self.blooms.len() as u64);
            for bloom in &self.blooms {
                put_varint(&mut body, bloom.offset);
                put_varint(&mut body, bloom.length);
                body.push(bloom.kind);
            }
            section(SECTION_BLOOMS, &mut body);
        }
        if let Some(inverted) = &self.inverted {
            inverted.encode(&mut body);
            section(SECTION_INVERTED, &mut body);
        }
        put_varint(&mut body, self.key_values.len() as u64);
        for (key, value) in &self.key_values {
            put_byte_string(&mut body, key.as_bytes());
            put_byte_string(&mut body, value.as_bytes());
        }
        section(SECTION_KEY_VALUES, &mut body);
        for number in [
            self.stats.rows,
            self.stats.raw_bytes,
            self.stats.stored_bytes,
        ] {
            put_varint(&mut body, number);
        }
        section(SECTION_STATS, &mut body);
        out
    }
}

impl BlobColumn {
    fn parse(body: &mut Cursor<'_>) -> Result<Self, Fault> {
        let column = body.size("blob column")?;
        Ok(Self {
            column,
            // A reference counts from 1. 0 means that there is no dictionary.
            dictionary: body.size("dictionary reference")?.checked_sub(1),
            codec: body.byte("codec of blob runs")?,
            runs: body.list("number of blob runs", 4, |body| {
                Ok(BlobRun {
                    offset: body.varint("blob run offset")?,
                    stored_size: body.varint("blob run stored size")?,
                    raw_size: body.varint("blob run uncompressed size")?,
                    values: body.varint("blob run values")?,
                })
            })?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.column as u64);
        put_varint(out, self.dictionary.map_or(0, |index| index as u64 + 1));
        out.push(self.codec);
        put_varint(out, self.runs.len() as u64);
        for run in &self.runs {
            for number in [run.offset, run.stored_size, run.raw_size, run.values] {
                put_varint(out, number);
            }
        }
    }
}

impl Inverted {
    fn parse(body: &mut Cursor<'_>) -> Result<Self, Fault> {
        let extent = |body: &mut Cursor<'_>, offset, length| {
            Ok::<_, Fault>(Extent {
                offset: body.varint(offset)?,
                length: body.varint(length)?,
            })
        };
        let mut inverted = Self {
            term_dictionary: extent(body, "term dictionary offset", "term dictionary length")?,
            postings: extent(body, "postings offset", "postings length")?,
            skips: extent(body, "skips offset", "skips length")?,
            terms: body.varint("number of terms")?,
            documents: body.varint("number of documents")?,
            live: None,
        };
        if body.remaining() > 0 {
            let live = extent(body, "live documents offset", "live documents length")?;
            inverted.live = Some(live).filter(|live| *live != Extent::default());
        }
        Ok(inverted)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut put_extent = |extent: Extent| {
            put_varint(out, extent.offset);
            put_varint(out, extent.length);
        };
        put_extent(self.term_dictionary);
        put_extent(self.postings);
        put_extent(self.skips);
        put_varint(out, self.terms);
        put_varint(out, self.documents);
        let live = self.live.unwrap_or_default();
        put_varint(out, live.offset);
        put_varint(out, live.length);
    }
}
