//! The expected outcome for each file.

/// The expected outcome for a file.
pub enum Outcome {
    /// The file cannot be opened. The error contains this text.
    RefusedAtOpen(&'static str),
    /// The file opens without its only dataset. A query of the dataset fails with an error that
    /// contains this text.
    LeftOut(&'static str),
    /// The file opens, and its only dataset `a` has this number of rows. Reading all values fails
    /// with an error that contains this text.
    RefusedWhenRead(u64, &'static str),
    /// The file has these tables. The first one has this number of rows, and values with this sum.
    Answers(&'static [&'static str], u64, Option<f64>),
    /// The file opens and has no table.
    Empty,
}

use Outcome::{Answers, Empty, LeftOut, RefusedAtOpen, RefusedWhenRead};

/// A dataset `a` of two cells, 1 and 2.
const TWO: Outcome = Answers(&["a"], 2, Some(3.0));
/// A dataset `a` of two rows and three columns, which hold 1 to 6 in some order.
const SIX: Outcome = Answers(&["a"], 6, Some(21.0));

/// File name, outcome, and reason.
pub const CASES: &[(&str, Outcome, &str)] = &[
    // Files without datasets, or without a complete superblock.
    (
        "zero_bytes",
        RefusedAtOpen("file length is 0 bytes"),
        "no superblock",
    ),
    (
        "31bytes",
        RefusedAtOpen("file length is 31 bytes"),
        "a byte short of a superblock",
    ),
    (
        "empty32",
        Empty,
        "a superblock without datasets is a valid file",
    ),
    (
        "dataset_count_0_with_blob",
        Empty,
        "bytes after the superblock are then ignored, as in the reference",
    ),
    // Superblock.
    (
        "bad_magic",
        RefusedAtOpen("superblock magic is \"NOPE\""),
        "not a .tet file",
    ),
    (
        "layout2",
        RefusedAtOpen("layout_version is 2"),
        "there is only version 1",
    ),
    (
        "flags_bit1_set",
        TWO,
        "reserved bits are to be ignored by readers",
    ),
    (
        "flags_bit0_no_footer",
        RefusedAtOpen("footer magic is"),
        "the flag announces a footer that does not exist",
    ),
    (
        "footer_but_flag_0",
        TWO,
        "without the flag, the footer is not read",
    ),
    (
        "reserved_nonzero",
        TWO,
        "reserved fields are to be ignored by readers",
    ),
    // Dataset directory.
    (
        "ndim_0",
        RefusedAtOpen("dataset_count is 1"),
        "a record of 24 bytes cannot hold a dimension",
    ),
    ("ndim_9", RefusedAtOpen("ndim is 9"), "at most 8 dimensions"),
    (
        "name_bad_utf8",
        RefusedAtOpen("dataset name is"),
        "names are UTF-8",
    ),
    (
        "empty_name",
        Answers(&[""], 2, Some(3.0)),
        "odd, but a name; quoted as \"\" in SQL",
    ),
    (
        "dup_name",
        Answers(&["a"], 2, Some(3.0)),
        "of two datasets with one name, the first is used, as in the reference",
    ),
    (
        "dataset_count_less",
        RefusedAtOpen("dataset_blob_len is 80, with 40 bytes left"),
        "the directory must not have trailing bytes",
    ),
    (
        "dtype_0",
        LeftOut("dtype is tag 0"),
        "an unknown type leaves out its dataset, not the whole file",
    ),
    ("dtype_11", LeftOut("dtype is tag 11"), "the same"),
    (
        "chunk_0",
        LeftOut("chunk_shape is [0, 2]"),
        "no grid has chunks without cells; refused before dividing by it",
    ),
    (
        "shape_0",
        Answers(&["a"], 0, None),
        "no cells, no rows; the reference cannot express that selection",
    ),
    (
        "shape_0_with_row",
        Answers(&["a"], 0, None),
        "the row of a chunk that does not exist is never looked at",
    ),
    (
        "huge_shape",
        LeftOut("shape is [1099511627776, 1099511627776]"),
        "2^80 cells: no count of them fits 64 bits",
    ),
    (
        "huge_grid_ok_product",
        RefusedWhenRead(1 << 51, "no row for this chunk"),
        "one row for 2^51 chunks; the reference runs out of memory",
    ),
    (
        "chunk_bigger_than_shape",
        SIX,
        "a chunk may exceed the shape; it is clipped",
    ),
    // Chunk index.
    (
        "tidx_offset_plus8",
        RefusedAtOpen("chunk_index_offset is 88"),
        "the index follows the directory",
    ),
    (
        "entry_count_mismatch",
        RefusedAtOpen("entry_count is 2"),
        "two rows do not fit the length",
    ),
    (
        "index_len_trailing",
        RefusedAtOpen("entry_count is 1"),
        "the length must equal that of the rows exactly",
    ),
    (
        "idx_ver2",
        RefusedAtOpen("index_version is 2"),
        "there is only version 1",
    ),
    (
        "dataset_id_oob",
        RefusedWhenRead(2, "no row for this chunk"),
        "the row belongs to no dataset; the reference says so when it queries, too",
    ),
    (
        "codec_2",
        RefusedWhenRead(2, "codec is 2"),
        "rows are read when touched: the reference reads them all and refuses the file",
    ),
    (
        "missing_chunk",
        RefusedWhenRead(6, "no row for this chunk"),
        "the format has no implicit fill",
    ),
    (
        "dup_coord_missing_other",
        RefusedWhenRead(6, "no row for this chunk"),
        "two rows for one chunk leave none for the other",
    ),
    (
        "extra_row_same_coord",
        RefusedWhenRead(6, "ambiguous: rows 1 and 2"),
        "two rows for one chunk; the reference silently takes the first",
    ),
    ("rows_reversed", SIX, "rows may come in any order"),
    (
        "unused_index_slots_nonzero",
        TWO,
        "slots beyond the rank are ignored, as in the reference",
    ),
    // Payloads.
    ("ok", SIX, "nothing wrong with it"),
    ("payload_reversed", SIX, "payloads may come in any order"),
    (
        "gap_before_payload",
        SIX,
        "and with gaps, here one that leaves f32 cells unaligned",
    ),
    // The payloads overlap by one cell: 1, 2 and 2, 3.
    (
        "overlap_payload",
        Answers(&["a"], 4, Some(1.0 + 2.0 + 2.0 + 3.0)),
        "chunks may share bytes, as the index defines their offsets",
    ),
    (
        "shared_payload",
        Answers(&["a"], 4, Some(1.0 + 2.0 + 1.0 + 2.0)),
        "the same, whole",
    ),
    // The chunk is the start of the superblock. The bytes "TETR" are the f32 227924049920 exactly;
    // the layout version 1 is the smallest denormal, which does not change the sum.
    (
        "payload_in_superblock",
        Answers(&["a"], 2, Some(227_924_049_920.0)),
        "within the file, so readable, as in the reference",
    ),
    (
        "full_size_edge_chunk",
        RefusedWhenRead(6, "raw_byte_len is 16, expected 8"),
        "border chunks are clipped, not padded",
    ),
    ("zstd_ok", TWO, "one frame"),
    (
        "zstd_two_frames",
        Answers(&["a"], 4, Some(1.0 + 2.0 + 1.0 + 2.0)),
        "frames follow each other",
    ),
    (
        "zstd_trailing_garbage",
        RefusedWhenRead(2, "zstd"),
        "the bytes after the frame are not a frame",
    ),
    (
        "zstd_bomb_256MiB",
        RefusedWhenRead(2, "zstd"),
        "decodes to more than the 8 bytes of its cells; stopped there",
    ),
    (
        "zstd_empty",
        RefusedWhenRead(2, "zstd"),
        "decodes to nothing",
    ),
    // Footer.
    (
        "history_v3",
        RefusedAtOpen("history_version is 3"),
        "versions 1 and 2 are known",
    ),
    (
        "history_triples",
        TWO,
        "older files have history rows of three strings",
    ),
    (
        "footer_bad_json",
        RefusedAtOpen("footer JSON is unreadable"),
        "as in the reference; ignore_footer gets at the data",
    ),
    (
        "footer_json_array",
        RefusedAtOpen("footer JSON is \"[]\""),
        "not an object; the reference takes the empty array for an empty footer",
    ),
    (
        "meta_attr_number",
        RefusedAtOpen("footer JSON is unreadable"),
        "values are strings; as in the reference",
    ),
    (
        "meta_labels_65_numeric",
        RefusedAtOpen("footer JSON is unreadable"),
        "labels are strings; as in the reference",
    ),
    (
        "meta_labels_65",
        Answers(&["a"], 65, Some(2080.0)),
        "a limit for writers only; the labels fit the axis",
    ),
    (
        "meta_unknown_dataset",
        TWO,
        "metadata of an unknown dataset is ignored",
    ),
    (
        "meta_unknown_keys",
        TWO,
        "unknown keys are for later versions",
    ),
    (
        "meta_wrong_dim_count",
        TWO,
        "it cannot name the columns, so they are dim_0, ..., with a warning",
    ),
    (
        "meta_dup_dim_names",
        TWO,
        "two columns cannot have the same name, so they are dim_0, ..., with a warning",
    ),
    (
        "meta_wrong_label_count",
        TWO,
        "the labels cannot be assigned to indices, so the axis has indices as coordinates, with a warning",
    ),
];
