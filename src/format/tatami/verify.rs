//! Checks a whole file, with [`verify`].

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::fault::Fault;
use crate::format::tatami::blobs::DecodedRun;
use crate::format::tatami::byte_map::RegionKind;
use crate::format::tatami::file::TatamiFile;
use crate::format::tatami::layout::bounds::Scalar;
use crate::format::tatami::layout::header::{
    FLAG_BLOBS, FLAG_DICTIONARIES, FLAG_INDEXES, FLAG_SORTED,
};
use crate::format::tatami::layout::record::KIND_DATA;
use crate::format::tatami::layout::row_group::Bounds;
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::pages::page::Page;
use crate::format::tatami::pages::payload::Decompressor;
use crate::format::tatami::pages::reader::{PageReader, payload};
use crate::format::tatami::pages::values::ColumnValues;
use crate::format::tatami::ranges::RangeBuffer;
use crate::format::tatami::search::Segment;

/// The maximum number of problems that are listed.
pub(super) const MAX_PROBLEMS: usize = 100;

/// Checks a file, and returns the problems found, at most 100. Reads all records, and checks their
/// checksums, lengths and counts. With `is_deep`, also decodes all values and compares them with zones,
/// Bloom filters, sort bounds and page indexes, and reads all terms and postings of an inverted index.
pub fn verify(file: &Arc<TatamiFile>, is_deep: bool) -> Vec<Error> {
    let mut verifier = Verifier {
        file,
        problems: Vec::new(),
        reader: PageReader::new(file),
        range: RangeBuffer::default(),
        decompressor: Decompressor::default(),
    };
    verifier.verify(is_deep);
    verifier.problems
}

struct Verifier<'a> {
    file: &'a Arc<TatamiFile>,
    problems: Vec<Error>,
    reader: PageReader,
    range: RangeBuffer,
    decompressor: Decompressor,
}

impl Verifier<'_> {
    fn verify(&mut self, is_deep: bool) {
        let file = Arc::clone(self.file);
        self.flags();
        for group in 0..file.row_groups().len() {
            for column in 0..file.schema().fields.len() {
                if self.problems.len() >= MAX_PROBLEMS {
                    return;
                }
                match is_deep {
                    true => self.values(group, column),
                    false => self.page_records(group, column),
                }
                let bloom = file.bloom(group, column).map(|_| ());
                self.keep(bloom);
            }
            let index = file.page_index(group).map(|_| ());
            self.keep(index);
        }
        for index in 0..file.footer().dictionaries.len() {
            let dictionary = file.dictionary(index).map(|_| ());
            self.keep(dictionary);
        }
        self.blob_runs();
        for (kind, extent) in file.inverted_parts() {
            let name = match kind {
                RegionKind::TermDictionary => "term dictionary",
                RegionKind::Postings => "postings",
                RegionKind::Skips => "skips",
                _ => "live documents",
            };
            let record = file.index_record(name, extent);
            let checked =
                record.and_then(|record| record.read_checked(&mut self.range).map(|_| ()));
            self.keep(checked);
        }
        if is_deep {
            let segment = Segment::open(&file);
            self.keep(segment.and_then(|segment| segment.map_or(Ok(()), |it| it.verify())));
        }
        self.regions();
        self.problems.truncate(MAX_PROBLEMS);
    }

    fn keep(&mut self, result: Result<()>) {
        self.problems.extend(result.err());
    }

    fn report(&mut self, part: String, fault: Fault) {
        self.problems.push(self.file.error(part, fault));
    }

    /// Checks the flags of the header against the footer.
    fn flags(&mut self) {
        let (header, footer) = (self.file.header(), self.file.footer());
        let has_index = !footer.blooms.is_empty() || footer.inverted.is_some();
        let wrong: Vec<_> = [
            (
                FLAG_SORTED,
                footer.schema.sort_key().is_some(),
                "a sort key",
            ),
            (FLAG_BLOBS, !footer.blobs.is_empty(), "blob columns"),
            (
                FLAG_DICTIONARIES,
                !footer.dictionaries.is_empty(),
                "dictionaries",
            ),
            (
                FLAG_INDEXES,
                has_index,
                "Bloom filters or an inverted index",
            ),
        ]
        .into_iter()
        .filter(|(flag, is_present, _)| header.has_flag(*flag) != *is_present)
        .collect();
        for (flag, is_present, name) in wrong {
            let found = format!("{flag:#x} {}", if is_present { "not set" } else { "set" });
            let expected = format!("set exactly in files with {name}");
            self.report("header".to_string(), Fault::new("flag", found, expected));
        }
    }

    /// Checks the header and the payload of each page, without decoding values.
    fn page_records(&mut self, group: usize, column: usize) {
        let file = Arc::clone(self.file);
        let pages = match file.pages(group, column) {
            Ok(pages) => pages,
            Err(error) => return self.problems.push(error),
        };
        for (index, page) in pages.iter().enumerate() {
            self.page_header(group, column, index, page);
            let payload = payload(&mut self.range, &mut self.decompressor, &file, page);
            let checked = payload.and_then(|payload| match payload {
                Ok(_) => Ok(()),
                Err(fault) => Err(file.page_error(group, column, index, fault)),
            });
            self.keep(checked);
        }
    }

    /// Checks the fields of a page header that readers ignore.
    fn page_header(&mut self, group: usize, column: usize, index: usize, page: &Page) {
        let file = self.file;
        let header = &page.header;
        if header.kind != KIND_DATA {
            let fault = Fault::new(
                "page kind",
                header.kind,
                format!("{KIND_DATA}, a data page"),
            );
            self.problems
                .push(file.page_error(group, column, index, fault));
        }
        if u64::from(header.first_row) != page.first_row {
            let expected = format!("{}, the rows before", page.first_row);
            let fault = Fault::new("first row", header.first_row, expected);
            self.problems
                .push(file.page_error(group, column, index, fault));
        }
    }

    /// Decodes all pages of a chunk, and compares the values with the zone, the Bloom filter, the page index
    /// and the sort bounds.
    fn values(&mut self, group: usize, column: usize) {
        let file = Arc::clone(self.file);
        let mut check = || {
            let column_type = file.column_type(column)?;
            let pages = file.pages(group, column)?;
            let mut values = ColumnValues::new(column_type);
            let mut chunk = Extremes::default();
            let bloom = file.bloom(group, column)?;
            let index = match file.schema().sort_key() {
                Some(key) if key == column => file.page_index(group)?,
                _ => None,
            };
            for (page, stored) in pages.iter().enumerate() {
                self.page_header(group, column, page, stored);
                values.clear();
                if let Err(error) = self.reader.read(group, column, page, None, &mut values) {
                    self.problems.push(error);
                    continue;
                }
                if column_type == ColumnType::BlobRef {
                    continue;
                }
                let mut extremes = Extremes::default();
                for row in 0..values.rows() {
                    let Some(scalar) = values.scalar(row) else {
                        continue;
                    };
                    if let Some(bloom) = bloom
                        && !bloom.may_contain(&scalar)?
                    {
                        let fault =
                            Fault::new("Bloom filter", format!("without row {row}"), "all values");
                        self.problems
                            .push(file.page_error(group, column, page, fault));
                    }
                    extremes.add(column_type, &scalar);
                }
                if let Some(entry) = index.and_then(|index| index.get(page)) {
                    let fault = extremes.check(column_type, "page index", entry.bounds.as_ref());
                    let fault = fault.map(|fault| file.page_error(group, column, page, fault));
                    self.problems.extend(fault);
                }
                chunk.merge(column_type, extremes);
            }
            let row_group = &file.row_groups()[group];
            let part = || file.part(Some(group), column, "");
            if column_type != ColumnType::BlobRef {
                let zone = file.chunk(group, column)?.zone.as_ref();
                if let Some(fault) = chunk.check(column_type, "zone", zone) {
                    self.problems.push(file.error(part(), fault));
                }
            }
            if file.schema().sort_key() == Some(column)
                && let Some(bounds) = &row_group.sort_bounds
                && let Some(fault) = chunk.check(column_type, "sort bounds", Some(bounds))
            {
                self.problems.push(file.error(part(), fault));
            }
            Ok(())
        };
        let result = check();
        self.keep(result);
    }

    /// Decodes all blob runs.
    fn blob_runs(&mut self) {
        let file = Arc::clone(self.file);
        let mut decoded = DecodedRun::default();
        for blobs in &file.footer().blobs {
            for run in 0..blobs.runs.len() {
                let result = decoded.open(&file, blobs, run, true);
                self.keep(result);
            }
        }
    }

    /// Checks that regions neither overlap nor leave bytes unused.
    fn regions(&mut self) {
        let regions = match self.file.regions() {
            Ok(regions) => regions,
            // The headers of pages were reported already.
            Err(_) => return,
        };
        let mut end = 0;
        let mut seen = BTreeSet::new();
        for region in regions {
            let is_new = seen.insert(region.offset);
            if region.kind == RegionKind::Unused || region.offset < end || !is_new {
                let found = format!("{} bytes at {}", region.length, region.offset);
                let expected = "regions that neither overlap nor leave bytes unused";
                let fault = Fault::new("region", found, expected);
                self.report(region.kind.to_string(), fault);
            }
            end = end.max(region.offset + region.length);
        }
    }
}

/// The min and the max, as stored, of the values that were added, without NaN.
#[derive(Default)]
struct Extremes {
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    has_values: bool,
}

impl Extremes {
    fn add(&mut self, column_type: ColumnType, scalar: &[u8]) {
        self.has_values = true;
        if Scalar::parse(column_type, scalar).is_none_or(|scalar| scalar.is_nan()) {
            return;
        }
        match &mut self.bounds {
            None => self.bounds = Some((scalar.to_vec(), scalar.to_vec())),
            Some((min, max)) => {
                if compare(column_type, scalar, min) == Some(Ordering::Less) {
                    *min = scalar.to_vec();
                }
                if compare(column_type, scalar, max) == Some(Ordering::Greater) {
                    *max = scalar.to_vec();
                }
            }
        }
    }

    fn merge(&mut self, column_type: ColumnType, other: Self) {
        self.has_values |= other.has_values;
        if let Some((min, max)) = other.bounds {
            self.add(column_type, &min);
            self.add(column_type, &max);
        }
    }

    /// Compares stored bounds with the min and the max. A bound that is NaN is not compared.
    fn check(
        &self,
        column_type: ColumnType,
        field: &'static str,
        bounds: Option<&Bounds>,
    ) -> Option<Fault> {
        let Some(bounds) = bounds else {
            return self
                .has_values
                .then(|| Fault::new(field, "absent", "the min and max of the values"));
        };
        if !self.has_values {
            return Some(Fault::new(field, "present", "none without values"));
        }
        let stored = [&bounds.min, &bounds.max];
        let is_nan =
            |bound: &[u8]| Scalar::parse(column_type, bound).is_some_and(|bound| bound.is_nan());
        if stored.iter().any(|bound| is_nan(bound)) {
            return None;
        }
        let (min, max) = self.bounds.as_ref()?;
        for (stored, actual) in stored.into_iter().zip([min, max]) {
            if compare(column_type, stored, actual) != Some(Ordering::Equal) {
                let found = Scalar::parse(column_type, stored);
                let expected = Scalar::parse(column_type, actual);
                return Some(Fault::new(
                    field,
                    format!("{found:?}"),
                    format!("{expected:?}"),
                ));
            }
        }
        None
    }
}

fn compare(column_type: ColumnType, a: &[u8], b: &[u8]) -> Option<Ordering> {
    Scalar::parse(column_type, a)?.compare(&Scalar::parse(column_type, b)?)
}
