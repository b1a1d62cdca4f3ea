//! Buffers encoded rows in memory and spills to a temporary file.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SpillFile, SpillWriter, TaskContext};

use crate::error::Error;
use crate::provider::copy::arrays::runs::Runs;

/// Rows per block. A block has more rows if they arrive in larger batches, and only the last block
/// has fewer.
pub const BLOCK_ROWS: usize = 4096;
const BUFFER_BYTES: usize = 256 << 10;

/// Encoded rows, stored by column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    pub rows: usize,
    /// The codes of the rows along each dimension.
    pub runs: Runs,
    /// For each measure, one encoded value per row.
    pub values: Vec<Vec<u8>>,
    /// For each measure, one byte per row, zero where the value is null. Empty if no value is null.
    pub valid: Vec<Vec<u8>>,
}

impl Block {
    /// Creates a block without rows.
    pub fn empty(dimensions: usize, measures: usize) -> Self {
        Self {
            rows: 0,
            runs: Runs::none(dimensions),
            values: vec![Vec::new(); measures],
            valid: vec![Vec::new(); measures],
        }
    }

    /// Appends the rows of another block.
    pub fn append(&mut self, other: Self) {
        if self.rows == 0 {
            *self = other;
            return;
        }
        let all = self.rows + other.rows;
        self.runs.append(&other.runs);
        for (one, other) in self.values.iter_mut().zip(&other.values) {
            one.extend_from_slice(other);
        }
        for (one, other) in self.valid.iter_mut().zip(&other.valid) {
            if !(one.is_empty() && other.is_empty()) {
                one.resize(self.rows, 1);
                one.extend_from_slice(other);
                one.resize(all, 1);
            }
        }
        self.rows = all;
    }

    fn bytes(&self) -> usize {
        let columns = self.values.iter().chain(&self.valid);
        self.runs.words().len() * 4 + columns.map(Vec::len).sum::<usize>()
    }
}

/// The location of a block in the temporary file, and the sizes of its columns in bytes.
#[derive(Debug)]
struct BlockLocation {
    offset: u64,
    rows: usize,
    lengths: Vec<usize>,
}

/// A sequence of blocks in order of arrival. Once memory is exhausted, all further blocks go to a
/// temporary file.
#[derive(Debug)]
pub struct Spool {
    dimensions: usize,
    memory: MemoryReservation,
    /// The max memory for blocks in bytes. The pool may grant less.
    most_memory: usize,
    /// The leading blocks, which are kept in memory.
    blocks: Vec<Block>,
    bytes: usize,
    file: Option<SpoolFile>,
}

struct SpoolFile {
    /// The temporary file, which is deleted when dropped.
    file: Arc<dyn SpillFile>,
    input: File,
    output: Option<Box<dyn SpillWriter>>,
    buffer: Vec<u8>,
    end: u64,
    stored: Vec<BlockLocation>,
}

impl fmt::Debug for SpoolFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolFile")
            .field("path", &self.file.path())
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// Creates a spool that keeps at most `most_memory` bytes in memory.
    pub fn new(context: &TaskContext, dimensions: usize, most_memory: usize) -> Self {
        Self {
            dimensions,
            most_memory,
            memory: MemoryConsumer::new("rows of COPY").register(context.memory_pool()),
            blocks: Vec::new(),
            bytes: 0,
            file: None,
        }
    }

    /// Returns the number of blocks so far.
    pub fn len(&self) -> usize {
        self.blocks.len() + self.file.as_ref().map_or(0, |file| file.stored.len())
    }

    /// Appends a block, in memory if it fits, otherwise in the temporary file.
    pub fn push(&mut self, block: Block, context: &TaskContext) -> Result<()> {
        let bytes = block.bytes();
        if self.file.is_none()
            && self.bytes + bytes <= self.most_memory
            && self.memory.try_grow(bytes).is_ok()
        {
            self.bytes += bytes;
            self.blocks.push(block);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let disk = &context.runtime_env().disk_manager;
                let file = disk.create_tmp_file("COPY ... STORED AS TET")?;
                self.file.insert(SpoolFile::open(file)?)
            }
        };
        file.push(&block)
    }

    /// Flushes the temporary file. Call this after the last block.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file
            && let Some(mut output) = file.output.take()
        {
            let written = output.write_all(&file.buffer);
            written.map_err(|error| file.unwritable(error))?;
            file.buffer = Vec::new();
            output.finish()?;
        }
        Ok(())
    }

    /// Returns a reader of the blocks. Call [`Self::finish`] first, and use one reader at a time:
    /// all readers share the offset of the temporary file.
    pub fn reader(&self) -> Result<SpoolReader<'_>> {
        let input = match &self.file {
            None => None,
            Some(file) => {
                // The cloned handle shares its offset with the previous reader.
                let mut input = file.input.try_clone()?;
                input.seek(SeekFrom::Start(0))?;
                Some(BufReader::with_capacity(BUFFER_BYTES, input))
            }
        };
        Ok(SpoolReader {
            spool: self,
            input,
            at: 0,
        })
    }
}

impl SpoolFile {
    fn open(file: Arc<dyn SpillFile>) -> Result<Self> {
        let output = file.open_writer()?;
        let Some(path) = file.path() else {
            return plan_err!("COPY ... STORED AS TET needs temporary files that are local");
        };
        let input = File::open(path).map_err(Error::io(path, "open the temporary file"))?;
        // Unlink the file now, so that it is freed when the process ends, even by a crash.
        #[cfg(unix)]
        let _ = std::fs::remove_file(path);
        Ok(Self {
            file,
            input,
            output: Some(output),
            buffer: Vec::new(),
            end: 0,
            stored: Vec::new(),
        })
    }

    fn unwritable(&self, error: io::Error) -> Error {
        let path = self.file.path().unwrap_or(Path::new("temporary file"));
        Error::io(path, "write the temporary file")(error)
    }

    fn push(&mut self, block: &Block) -> Result<()> {
        let Some(output) = &mut self.output else {
            return internal_err!("a block came after the last one");
        };
        let words = block.runs.words();
        self.buffer
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let mut lengths = vec![words.len() * 4];
        for column in block.values.iter().chain(&block.valid) {
            self.buffer.extend_from_slice(column);
            lengths.push(column.len());
        }
        if self.buffer.len() >= BUFFER_BYTES {
            let written = output.write_all(&self.buffer);
            written.map_err(|error| self.unwritable(error))?;
            self.buffer.clear();
        }
        let offset = self.end;
        self.end += lengths.iter().sum::<usize>() as u64;
        self.stored.push(BlockLocation {
            offset,
            rows: block.rows,
            lengths,
        });
        Ok(())
    }
}

/// Reads blocks in any order. Sequential reads are fastest.
#[derive(Debug)]
pub struct SpoolReader<'a> {
    spool: &'a Spool,
    input: Option<BufReader<File>>,
    at: u64,
}

impl SpoolReader<'_> {
    /// Reads the block with this ordinal.
    pub fn read(&mut self, number: usize, visit: impl FnOnce(&Block) -> Result<()>) -> Result<()> {
        let spool = self.spool;
        if let Some(block) = spool.blocks.get(number) {
            return visit(block);
        }
        let stored = spool.file.as_ref();
        let stored = stored.and_then(|file| file.stored.get(number - spool.blocks.len()));
        let (Some(stored), Some(input)) = (stored, &mut self.input) else {
            return internal_err!("block {number} of {}", spool.len());
        };
        if stored.offset != self.at {
            input.seek(SeekFrom::Start(stored.offset))?;
        }
        self.at = stored.offset;
        let mut columns = Vec::with_capacity(stored.lengths.len());
        for length in &stored.lengths {
            let mut column = vec![0; *length];
            input.read_exact(&mut column)?;
            self.at += *length as u64;
            columns.push(column);
        }
        let valid = columns.split_off(columns.len().div_ceil(2));
        let values = columns.split_off(1);
        let words = columns.iter().flat_map(|words| words.as_chunks::<4>().0);
        let words = words.map(|word| u32::from_le_bytes(*word)).collect();
        visit(&Block {
            rows: stored.rows,
            runs: Runs::from_words(spool.dimensions, words),
            values,
            valid,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn blocks_come_back_from_memory_and_from_disk() {
        let block = |number: u32| Block {
            rows: 3,
            runs: Runs::of(&[vec![number; 3], vec![1, 2, number]]),
            values: vec![vec![number as u8; 12]],
            valid: vec![if number.is_multiple_of(2) {
                Vec::new()
            } else {
                vec![1, 0, 1]
            }],
        };
        for limit in [10, 100, 1 << 20] {
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(limit, 1.0);
            let runtime = runtime.build_arc().unwrap();
            let ctx = SessionContext::new_with_config_rt(Default::default(), Arc::clone(&runtime));
            let context = ctx.task_ctx();
            let mut spool = Spool::new(&context, 2, 1 << 20);
            for number in 0..7 {
                spool.push(block(number), &context).unwrap();
            }
            spool.finish().unwrap();
            assert_eq!(spool.file.is_none(), limit == 1 << 20);
            assert_eq!(spool.len(), 7);
            let mut reader = spool.reader().unwrap();
            for number in [3, 4, 5, 0, 6] {
                reader
                    .read(number, |found| {
                        assert_eq!(*found, block(number as u32));
                        Ok(())
                    })
                    .unwrap();
            }
        }
    }
}
