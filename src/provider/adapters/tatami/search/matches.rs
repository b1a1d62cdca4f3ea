//! The predicate `matches(column, 'words')`.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{
    PhysicalExpr, ScalarFunctionExpr, conjunction_opt, split_conjunction,
};

use crate::format::tatami::SEARCH_COLUMNS_KEY;
use crate::format::tatami::search::{Mode, WordFilter, words};
use crate::grid::{IndexSet, IndexSetBuilder};
use crate::provider::adapters::tatami::blocks::DocumentBlocks;
use crate::provider::adapters::tatami::table::DocumentTable;
use crate::provider::source::{BlockList, BlockSource};

/// The indexed columns of segments that do not name them, as the reference implementation writes. The
/// column `snippet` of such segments is not among them: it may be cut off within a word.
const STOCK: [&str; 3] = ["body", "title", "url"];

/// `matches(text, words [, mode])`: `true` if the text contains all of the words, or with the mode
/// `'any'`, at least one. Texts are split into words as for a search segment: runs of letters and
/// digits, in lower case.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::provider) struct Matches {
    signature: Signature,
}

impl Matches {
    const NAME: &'static str = "matches";

    pub fn new() -> Self {
        let types = [
            DataType::Utf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::BinaryView,
        ]
        .into_iter();
        let signatures = types.flat_map(|text| {
            let two = vec![text, DataType::Utf8];
            let three = [two.as_slice(), &[DataType::Utf8]].concat();
            [TypeSignature::Exact(two), TypeSignature::Exact(three)]
        });
        let mut signature = Signature::one_of(signatures.collect(), Volatility::Immutable);
        signature.parameter_names = Some(["text", "words", "mode"].map(String::from).to_vec());
        Self { signature }
    }
}

/// Returns a text argument; `None` if it is null.
fn constant(value: &ScalarValue, argument: &str) -> Result<Option<String>> {
    match value.try_as_str() {
        Some(text) => Ok(text.map(str::to_string)),
        None => plan_err!("{}: {argument} is {value}, expected text", Matches::NAME),
    }
}

impl ScalarUDFImpl for Matches {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let (text, query, mode) = match args.args.as_slice() {
            [text, ColumnarValue::Scalar(query)] => (text, query, Some("all".to_string())),
            [
                text,
                ColumnarValue::Scalar(query),
                ColumnarValue::Scalar(mode),
            ] => (text, query, constant(mode, "the mode")?),
            _ => return exec_err!("{}: the words and the mode must be constant", Self::NAME),
        };
        let (Some(query), Some(mode)) = (constant(query, "the second argument")?, mode) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        };
        let mode: Mode = match mode.parse() {
            Ok(mode) => mode,
            Err(message) => return plan_err!("{}: {message}", Self::NAME),
        };
        let mut filter = WordFilter::new(&query, mode);
        let texts = text.to_array(rows)?;
        let mut matches = |text: Option<&[u8]>| text.map(|text| filter.matches(text));
        let matches: BooleanArray = match texts.data_type() {
            DataType::Utf8 => {
                let texts = texts.as_string::<i32>().iter();
                texts.map(|text| matches(text.map(str::as_bytes))).collect()
            }
            DataType::Utf8View => {
                let texts = texts.as_string_view().iter();
                texts.map(|text| matches(text.map(str::as_bytes))).collect()
            }
            DataType::Binary => texts.as_binary::<i32>().iter().map(matches).collect(),
            DataType::BinaryView => texts.as_binary_view().iter().map(matches).collect(),
            other => return exec_err!("{}: cannot search values of type {other}", Self::NAME),
        };
        Ok(ColumnarValue::Array(Arc::new(matches)))
    }
}

/// The maximum number of documents of a file whose matches are kept.
const MAX_DOCUMENTS: u64 = 1 << 24;

/// A call of `matches` on a column with constant words.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    /// The index of the column.
    column: usize,
    query: String,
    mode: Mode,
}

impl Call {
    /// Returns the call that a filter consists of; `None` if it is anything else.
    fn of(filter: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let function = filter.downcast_ref::<ScalarFunctionExpr>()?;
        let inner: &dyn Any = function.fun().inner().as_ref();
        inner.downcast_ref::<Matches>()?;
        let text = |argument: &Arc<dyn PhysicalExpr>| {
            let literal = argument.downcast_ref::<Literal>()?;
            literal.value().try_as_str().flatten().map(str::to_string)
        };
        let (column, query, mode) = match function.args() {
            [column, query] => (column, text(query)?, Mode::All),
            [column, query, mode] => (column, text(query)?, text(mode)?.parse().ok()?),
            _ => return None,
        };
        let column = column.downcast_ref::<Column>()?.index();
        Some(Self {
            column,
            query,
            mode,
        })
    }
}

/// The documents that a call of `matches` finds, according to the postings.
#[derive(Debug)]
pub(in crate::provider::adapters::tatami) struct Searched {
    /// The call, over the columns of the file.
    call: Call,
    /// The rows of the file.
    rows: IndexSet,
    /// `true` if all of these rows match. Otherwise they may, and no other row does.
    is_exact: bool,
}

/// Returns the blocks that may hold a document satisfying the filters, according to the postings of the
/// search segment, and the documents that each call of `matches` finds. The blocks are `None` if no
/// filter searches an indexed column.
pub(in crate::provider::adapters::tatami) fn matching_blocks(
    table: &DocumentTable,
    filters: &[Arc<dyn PhysicalExpr>],
    blocks: &DocumentBlocks,
) -> Result<(Option<IndexSet>, Vec<Searched>)> {
    let mut kept: Option<IndexSet> = None;
    let mut all_searched = Vec::new();
    for filter in filters.iter().flat_map(split_conjunction) {
        let Some((call, is_alone)) = searched(table, filter) else {
            continue;
        };
        let Some(segment) = table.segment()? else {
            continue;
        };
        let mut matches = segment.matches_with_deleted(&call.query, call.mode)?;
        let mut documents = Vec::new();
        let mut found = IndexSetBuilder::new(blocks.total().unwrap_or(0));
        let is_kept = segment.documents() <= MAX_DOCUMENTS;
        let mut rows = is_kept.then(|| IndexSetBuilder::new(segment.documents()));
        // The first row that no block in `found` holds.
        let mut next = 0;
        while matches.next_batch(&mut documents)? {
            #[cfg(feature = "remote")]
            blocks.read_ahead(documents.iter().map(|hit| u64::from(hit.document)))?;
            for hit in documents.drain(..) {
                let row = u64::from(hit.document);
                if let Some(rows) = &mut rows {
                    rows.push(row..row + 1);
                }
                if row >= next {
                    let (block, end) = blocks.block_of(row)?;
                    found.push(block..block + 1);
                    next = end;
                }
            }
        }
        let found = found.finish();
        kept = Some(match kept {
            Some(kept) => kept.intersect(&found),
            None => found,
        });
        all_searched.extend(rows.map(|rows| Searched {
            call,
            rows: rows.finish(),
            is_exact: is_alone,
        }));
    }
    Ok((kept, all_searched))
}

/// Returns the call of `matches` that a filter over a table consists of, over the columns of the file.
/// The other value is `true` if the segment indexes this column alone. `None` if the segment does not
/// index it, or if the filter is anything else.
fn searched(table: &DocumentTable, filter: &Arc<dyn PhysicalExpr>) -> Option<(Call, bool)> {
    let mut call = Call::of(filter)?;
    let name = table.schema().fields().get(call.column)?.name().as_str();
    let mut pairs = table.file().footer().key_values.iter();
    let (is_indexed, is_alone) = match pairs.find(|(key, _)| key == SEARCH_COLUMNS_KEY) {
        Some((_, columns)) => {
            let is_indexed = columns.split(',').any(|column| column == name);
            let is_lossy = table.is_lossy(call.column).unwrap_or(true);
            (is_indexed, columns == name && !is_lossy)
        }
        None => (STOCK.contains(&name), false),
    };
    call.column = table.stored_column(call.column).ok()?;
    // Without words, the index cannot tell which documents match.
    (is_indexed && !words(&call.query).is_empty()).then_some((call, is_alone))
}

/// Evaluates the calls of `matches` in a predicate by documents that were found before. `stored` returns
/// the column of the file that a column of the predicate is. `rows` are rows of the file. Returns a mask of the
/// rows, and the rest of the predicate; `None` if no call was searched for.
pub(in crate::provider::adapters::tatami) fn evaluate(
    predicate: &Arc<dyn PhysicalExpr>,
    all_searched: &[Searched],
    stored: impl Fn(usize) -> Option<usize>,
    rows: Range<u64>,
) -> Option<(BooleanArray, Option<Arc<dyn PhysicalExpr>>)> {
    let mut kept: Option<IndexSet> = None;
    let mut rest = Vec::new();
    for conjunct in split_conjunction(predicate) {
        let call = Call::of(conjunct).and_then(|call| {
            let column = stored(call.column)?;
            Some(Call { column, ..call })
        });
        let known = call.and_then(|call| all_searched.iter().find(|known| known.call == call));
        if known.is_none_or(|known| !known.is_exact) {
            rest.push(Arc::clone(conjunct));
        }
        if let Some(known) = known {
            let found = known.rows.within(rows.clone());
            kept = Some(match kept {
                Some(kept) => kept.intersect(&found),
                None => found,
            });
        }
    }
    let kept = kept?;
    let count = (rows.end - rows.start) as usize;
    let mut mask = BooleanBufferBuilder::new(count);
    mask.append_n(count, false);
    for row in kept.ranges().flatten() {
        mask.set_bit(row as usize, true);
    }
    let mask = BooleanArray::new(mask.finish(), None);
    Some((mask, conjunction_opt(rest)))
}
