//! Reads, verifies and searches all of a file that may be malformed. Shared with the fuzz targets.

use std::path::Path;
use std::sync::Arc;

use tet_sql::Error;
use tet_sql::format::io::storage::Access;
use tet_sql::format::tatami::search::{Mode, Segment};
use tet_sql::format::tatami::{PageReader, Region, RegionKind, TatamiFile, verify};

/// The maximum number of terms that are searched for.
const MAX_TERMS: usize = 20;

/// Reads and verifies all of a file. Returns `false` if it cannot be opened. Panics if something cannot be read,
/// but verification finds no problem.
pub fn exercise(path: &Path, access: Access) -> bool {
    let Ok(file) = TatamiFile::open(path, access) else {
        return false;
    };
    let file = Arc::new(file);
    let _ = file.regions();
    let problems = verify(&file, true);
    let columns: Vec<usize> = (0..file.schema().fields.len()).collect();
    for group in 0..file.row_groups().len() {
        let _ = file.aligned_pages(group, &columns);
        let _ = file.page_index(group);
        for column in &columns {
            let _ = file.bounds(group, *column);
        }
    }
    let is_readable = read(&file).is_ok() && search(&file).is_ok();
    assert!(is_readable || !problems.is_empty(), "{}", path.display());
    true
}

/// Decodes all values.
fn read(file: &Arc<TatamiFile>) -> Result<(), Error> {
    let mut reader = PageReader::new(file);
    for group in 0..file.row_groups().len() {
        for column in 0..file.schema().fields.len() {
            let mut values = reader.buffers(column)?;
            for page in 0..file.pages(group, column)?.len() {
                reader.read(group, column, page, None, &mut values)?;
            }
        }
    }
    Ok(())
}

/// Searches for the first terms of a search segment.
fn search(file: &Arc<TatamiFile>) -> Result<(), Error> {
    let Some(segment) = Segment::open(file)? else {
        return Ok(());
    };
    let mut terms = segment.terms_from(b"", b"");
    let mut words = String::new();
    for _ in 0..MAX_TERMS {
        let Some((term, _)) = terms.next()? else {
            break;
        };
        words.push_str(&String::from_utf8_lossy(term));
        words.push(' ');
        segment.search(&words, Mode::Any, 3)?;
    }
    segment.search(&words, Mode::All, 3).map(|_| ())
}

/// Updates the checksums of the header, the footer and the given records to match changed bytes. `footer` is the
/// offset of the footer.
pub fn seal(bytes: &mut [u8], footer: usize, regions: &[Region]) {
    let put = |bytes: &mut [u8], at: usize, crc: u32| {
        if let Some(stored) = bytes.get_mut(at..at + 4) {
            stored.copy_from_slice(&crc.to_le_bytes());
        }
    };
    for region in regions {
        let (start, end) = (
            region.offset as usize,
            (region.offset + region.length) as usize,
        );
        let is_record = !matches!(
            region.kind,
            RegionKind::Header | RegionKind::Footer | RegionKind::Trailer
        );
        if end > bytes.len() || !is_record || end < start + 32 {
            continue;
        }
        let crc = crc32c::crc32c(&bytes[start + 32..end]);
        put(bytes, start + 24, crc);
    }
    let length = bytes.len();
    if footer + 12 <= length {
        let crc = crc32c::crc32c(&bytes[footer..length - 12]);
        put(bytes, length - 8, crc);
    }
    if length >= 64 {
        let crc = crc32c::crc32c(&bytes[..60]);
        put(bytes, 60, crc);
    }
}
