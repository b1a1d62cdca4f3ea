//! Sorts records by their keys, with temporary files if they exceed a budget.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Number of runs that are merged into one.
const MERGED_RUNS: usize = 16;
/// Size of the buffer of each file in bytes.
const BUFFER_BYTES: usize = 1 << 17;
/// The lengths of the key and of the value, in front of each record.
const HEADER_BYTES: usize = 8;

/// Sorts records, each a key and a value. Records with equal keys keep their order.
///
/// Records are kept in memory up to a budget, then sorted and written to a temporary file, a *run*. Runs
/// are merged as soon as there are [`MERGED_RUNS`] of about the same length, so that each record is
/// written a few times at most, and few files are open.
#[derive(Debug)]
pub(crate) struct Sorter {
    directory: PathBuf,
    budget: usize,
    records: Vec<u8>,
    /// The first bytes of the key and the position of each record in `records`.
    index: Vec<(u64, usize)>,
    /// Runs by level. Runs of a level were merged from runs of the level before.
    levels: Vec<Vec<File>>,
}

impl Sorter {
    /// Returns a sorter that keeps about `budget` bytes in memory. Temporary files are created in the
    /// directory, without a name where the system allows it.
    pub fn new(directory: &Path, budget: usize) -> Self {
        Self {
            directory: directory.to_path_buf(),
            budget,
            records: Vec::new(),
            index: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Adds a record. Lengths must be less than 2^32.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let needed = HEADER_BYTES + key.len() + value.len() + size_of::<(u64, usize)>();
        let used = self.records.len() + self.index.len() * size_of::<(u64, usize)>();
        if !self.index.is_empty() && used + needed > self.budget {
            let spilled = self.spill();
            spilled.map_err(Error::io(&self.directory, "write a temporary file"))?;
        }
        let mut prefix = [0; 8];
        let length = key.len().min(8);
        prefix[..length].copy_from_slice(&key[..length]);
        self.index
            .push((u64::from_be_bytes(prefix), self.records.len()));
        self.records.extend((key.len() as u32).to_le_bytes());
        self.records.extend((value.len() as u32).to_le_bytes());
        self.records.extend(key);
        self.records.extend(value);
        Ok(())
    }

    /// Sorts the records in memory.
    fn sort(&mut self) {
        let Self { index, records, .. } = self;
        index.sort_by(|a, b| {
            let key = |position| read_record(&records[position..]).0;
            a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1)))
        });
    }

    /// Writes the records in memory to a new run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut run = BufWriter::with_capacity(BUFFER_BYTES, self.temporary()?);
        for (_, position) in &self.index {
            let record = &self.records[*position..];
            let (key, value) = read_record(record);
            run.write_all(&record[..HEADER_BYTES + key.len() + value.len()])?;
        }
        self.records.clear();
        self.index.clear();
        self.add_run(0, run)
    }

    /// Adds a run to a level, and merges the level if it is full.
    fn add_run(&mut self, level: usize, run: BufWriter<File>) -> io::Result<()> {
        let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
        run.seek(SeekFrom::Start(0))?;
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < MERGED_RUNS {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.levels[level]);
        let mut merged = BufWriter::with_capacity(BUFFER_BYTES, self.temporary()?);
        merge(runs.into_iter().map(Source::file).collect(), |record| {
            record.write(&mut merged)
        })?;
        self.add_run(level + 1, merged)
    }

    fn temporary(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.directory)
    }

    /// Calls a function with the key and the value of each record, in the order of keys.
    pub fn finish(mut self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.sort();
        // Runs of higher levels are older.
        let levels = std::mem::take(&mut self.levels).into_iter().rev();
        let mut sources: Vec<Source> = levels.flatten().map(Source::file).collect();
        sources.push(Source::Memory {
            records: self.records,
            index: self.index.into_iter(),
        });
        let mut result = Ok(());
        let merged = merge(sources, |record| {
            result = visit(&record.key, &record.value);
            match result {
                Ok(()) => Ok(()),
                // The error itself is in `result`.
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        });
        result?;
        merged.map_err(Error::io(&self.directory, "read a temporary file"))
    }
}

/// Returns the key and the value of the record at the start of bytes.
fn read_record(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = |start: usize| {
        let mut length = [0; 4];
        length.copy_from_slice(&bytes[start..start + 4]);
        u32::from_le_bytes(length) as usize
    };
    bytes[HEADER_BYTES..][..length(0) + length(4)].split_at(length(0))
}

/// A record, whose buffers are reused.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    key: Vec<u8>,
    /// The ordinal of the record's source.
    source: usize,
    value: Vec<u8>,
}

impl Record {
    fn write(&self, file: &mut impl Write) -> io::Result<()> {
        file.write_all(&(self.key.len() as u32).to_le_bytes())?;
        file.write_all(&(self.value.len() as u32).to_le_bytes())?;
        file.write_all(&self.key)?;
        file.write_all(&self.value)
    }
}

/// Sorted records.
enum Source {
    Memory {
        records: Vec<u8>,
        index: std::vec::IntoIter<(u64, usize)>,
    },
    File(BufReader<File>),
}

impl Source {
    fn file(run: File) -> Self {
        Self::File(BufReader::with_capacity(BUFFER_BYTES, run))
    }

    /// Reads the next record. Returns `false` if there is none.
    fn next(&mut self, record: &mut Record) -> io::Result<bool> {
        record.key.clear();
        record.value.clear();
        match self {
            Self::Memory { records, index } => {
                let Some((_, position)) = index.next() else {
                    return Ok(false);
                };
                let (key, value) = read_record(&records[position..]);
                record.key.extend(key);
                record.value.extend(value);
            }
            Self::File(file) => {
                let mut header = [[0; 4]; 2];
                match file.read_exact(header.as_flattened_mut()) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(false);
                    }
                    result => result?,
                }
                let [key, value] = header.map(u32::from_le_bytes);
                let mut file = file.take(u64::from(key));
                file.read_to_end(&mut record.key)?;
                file.set_limit(u64::from(value));
                file.read_to_end(&mut record.value)?;
            }
        }
        Ok(true)
    }
}

/// Calls a function with the records of all sources in order.
fn merge(
    mut sources: Vec<Source>,
    mut visit: impl FnMut(&Record) -> io::Result<()>,
) -> io::Result<()> {
    let mut heap = BinaryHeap::new();
    for (index, source) in sources.iter_mut().enumerate() {
        let mut record = Record {
            source: index,
            ..Record::default()
        };
        if source.next(&mut record)? {
            heap.push(Reverse(record));
        }
    }
    while let Some(Reverse(mut record)) = heap.pop() {
        visit(&record)?;
        if sources[record.source].next(&mut record)? {
            heap.push(Reverse(record));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_budget_gives_the_same_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = 1u64;
        let records: Vec<(Vec<u8>, Vec<u8>)> = (0..3000u32)
            .map(|ordinal| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let key = (state >> 40).to_be_bytes()[5..].repeat(1 + (state >> 62) as usize);
                (key, ordinal.to_le_bytes().to_vec())
            })
            .chain((0..500u32).map(|ordinal| (vec![7], ordinal.to_be_bytes().to_vec())))
            .collect();
        let mut expected = records.clone();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        for budget in [1, 100, 1000, 20_000, 1 << 20] {
            let mut sorter = Sorter::new(folder.path(), budget);
            for (key, value) in &records {
                sorter.push(key, value).unwrap();
            }
            let mut found = Vec::new();
            sorter
                .finish(|key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    Ok(())
                })
                .unwrap();
            assert!(found == expected, "{budget}");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
