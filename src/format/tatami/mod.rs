//! The `.tatami` format (TAT1, version 1.1): a table of documents in one file.
//!
//! ```text
//! header (64 bytes)
//! row group 0    column chunk 0    page | page | ... | page index, if this is the sort key
//!                column chunk 1    page | page | ...
//! row group 1    ...
//! blob runs | dictionaries | Bloom filters | term dictionary, postings, skips, live documents
//! footer         schema, row groups with zones, locations of all records
//! trailer        footer length, footer checksum, TAT1
//! ```
//!
//! Pages, blob runs, dictionaries and indexes are records: a [`RecordHeader`] and a payload. Reader and
//! writer share the types that describe the layout: [`FileHeader`], [`RecordHeader`], [`Footer`] and
//! [`Trailer`].
//!
//! A *zone* is the min and the max of a column in one row group. A *blob* is a large value that is stored
//! apart from the pages, in a *run* of blobs that are compressed together.

mod blobs;
mod bloom;
mod byte_map;
pub mod bytes;
mod collection;
mod encoding;
mod file;
mod layout;
mod pages;
mod ranges;
pub mod search;
mod verify;
mod verify_collection;
mod writer;

pub use crate::format::fault::Fault;
pub use bloom::{BLOOM_HEADER_BYTES, BloomFilter, MAX_BLOOM_PROBES, bloom_bits, bloom_hash};
pub use byte_map::{Region, RegionKind};
pub use collection::{
    Collection, MANIFEST_MAGIC, MANIFEST_NAME, MAX_MANIFEST_BYTES, Member, MemberZone,
};
pub use file::{TatamiFile, is_tatami};
pub use layout::bounds::{Scalar, ValueBounds};
pub use layout::footer::{
    BLOOM_KIND, BlobColumn, BlobRun, BloomRef, DictionaryRef, Extent, Footer, Inverted,
    SEARCH_COLUMNS_KEY, SORT_KEY_KEY, Stats, VERSION_KEY,
};
pub use layout::header::{
    FLAG_BLOBS, FLAG_BLOCK_TREE, FLAG_DICTIONARIES, FLAG_INDEXES, FLAG_SEARCH_SEGMENT, FLAG_SORTED,
    FileHeader, HEADER_BYTES, MAGIC, MAJOR_VERSION, MINOR_VERSION, TRAILER_BYTES, Trailer,
};
pub use layout::record::{
    KIND_BLOB_RUN, KIND_DATA, KIND_DICTIONARY, KIND_INDEX, RECORD_FLAG_INLINE_BOUNDS,
    RECORD_FLAG_NULLS, RECORD_HEADER_BYTES, RecordHeader,
};
pub use layout::row_group::{Bounds, ColumnChunk, RowGroup};
pub use layout::schema::{
    FIELD_BLOB_SEPARATED, FIELD_BLOOM, FIELD_DICTIONARY_HINT, FIELD_NULLABLE, FIELD_SORT_KEY,
    Field, Schema,
};
pub use layout::types::{Codec, ColumnType, Encoding};
#[cfg(feature = "remote")]
pub(crate) use pages::ahead::read_headers_ahead;
pub use pages::bitmap::{Bitmap, Validity};
pub use pages::page::{MAX_PAGE_ROWS, Page};
pub use pages::page_index::PageIndexEntry;
pub use pages::payload::MAX_PAYLOAD_BYTES;
pub use pages::reader::PageReader;
pub use pages::strings::Strings;
pub use pages::values::{ColumnValues, Values};
pub use ranges::{IndexRecord, RangeBuffer};
pub use verify::verify;
pub use verify_collection::verify_collection;
pub use writer::{
    BitSlice, CollectionChange, InputColumn, InputValues, MAX_ROW_GROUP_BYTES, MAX_ROW_GROUP_ROWS,
    MAX_ZSTD_LEVEL, SearchSegment, TatamiWriter, WriterOptions, WrittenFile,
};
