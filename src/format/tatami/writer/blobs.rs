//! The values of a blob column, packed into runs that are compressed together.
//!
//! Runs follow all row groups in the file, so they are written to a temporary file first, the *spool*. The
//! first runs stay in memory until there are enough values to decide whether a dictionary saves bytes.

use crate::error::{Error, Result};
use crate::format::tatami::bytes::{Cursor, put_varint};
use crate::format::tatami::layout::footer::{BlobColumn, BlobRun, DictionaryRef};
use crate::format::tatami::layout::record::{KIND_BLOB_RUN, KIND_DICTIONARY, RecordHeader};
use crate::format::tatami::layout::types::{Codec, Encoding};
use crate::format::tatami::writer::column::size;
use crate::format::tatami::writer::compressor::Compressor;
use crate::format::tatami::writer::output::{Output, Spooled};

/// The bytes of values from which a dictionary is made, and on which it is tested.
const SAMPLED_BYTES: usize = 8 << 20;
/// The maximum size of a dictionary in bytes.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;
/// The minimum size of a dictionary in bytes.
const MIN_DICTIONARY_BYTES: usize = 256;

/// The maximum number of values of a run. It bounds runs of empty values.
const MAX_RUN_VALUES: u32 = 1 << 20;

/// The runs of one blob column.
pub(super) struct BlobRuns {
    column: usize,
    run_bytes: usize,
    codec: Codec,
    /// The lengths and the bytes of the values of the open run.
    lengths: Vec<u8>,
    data: Vec<u8>,
    values: u32,
    /// The payloads of runs that are not compressed yet, with their numbers of values.
    waiting: Vec<(Vec<u8>, u32)>,
    waiting_bytes: usize,
    /// `None` until it is decided whether there is a dictionary.
    dictionary: Option<Option<Vec<u8>>>,
    runs: Vec<(Spooled, BlobRun)>,
}

impl BlobRuns {
    pub fn new(column: usize, run_bytes: usize, codec: Codec, has_dictionary: bool) -> Self {
        Self {
            column,
            run_bytes,
            codec,
            lengths: Vec::new(),
            data: Vec::new(),
            values: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            dictionary: (!has_dictionary || codec == Codec::None).then_some(None),
            runs: Vec::new(),
        }
    }

    /// Appends a value. Closes the open run first if the value would exceed its maximum length.
    pub fn push(
        &mut self,
        value: &[u8],
        compressor: &mut Compressor,
        spool: &mut Output,
    ) -> Result<()> {
        let is_full = self.data.len() + value.len() > self.run_bytes;
        if self.values > 0 && (is_full || self.values == MAX_RUN_VALUES) {
            self.close_run(compressor, spool)?;
        }
        put_varint(&mut self.lengths, value.len() as u64);
        self.data.extend_from_slice(value);
        self.values += 1;
        Ok(())
    }

    fn close_run(&mut self, compressor: &mut Compressor, spool: &mut Output) -> Result<()> {
        let mut payload = Vec::with_capacity(self.lengths.len() + self.data.len() + 5);
        put_varint(&mut payload, u64::from(self.values));
        payload.append(&mut self.lengths);
        payload.append(&mut self.data);
        let values = std::mem::take(&mut self.values);
        if self.dictionary.is_some() {
            return self.write_run(&payload, values, compressor, spool);
        }
        self.waiting_bytes += payload.len();
        self.waiting.push((payload, values));
        match self.waiting_bytes >= SAMPLED_BYTES {
            true => self.decide(compressor, spool),
            false => Ok(()),
        }
    }

    /// Decides whether the column gets a dictionary, and writes the runs that are still in memory.
    fn decide(&mut self, compressor: &mut Compressor, spool: &mut Output) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let path = spool.target();
        let dictionary = pays(&waiting, compressor).map_err(|fault| Error::invalid(path, fault))?;
        self.dictionary = Some(dictionary);
        for (payload, values) in waiting {
            self.write_run(&payload, values, compressor, spool)?;
        }
        Ok(())
    }

    fn write_run(
        &mut self,
        payload: &[u8],
        values: u32,
        compressor: &mut Compressor,
        spool: &mut Output,
    ) -> Result<()> {
        let frame;
        let dictionary = self.dictionary.iter().flatten().next();
        let (codec, stored) = match dictionary {
            Some(dictionary) => {
                frame = compressor.compress_with(dictionary, payload);
                (Codec::ZstdDict, frame.as_deref().map_err(String::clone))
            }
            None => (self.codec, compressor.compress(payload)),
        };
        let written = stored.and_then(|stored| {
            let header = RecordHeader {
                kind: KIND_BLOB_RUN,
                encoding: Encoding::Plain.id(),
                codec: codec.id(),
                values,
                raw_size: size("bytes of a blob run", payload.len())?,
                stored_size: size("stored bytes of a blob run", stored.len())?,
                crc: crc32c::crc32c(stored),
                ..RecordHeader::default()
            };
            Ok((header, stored))
        });
        let (header, stored) = written.map_err(|fault| Error::invalid(spool.target(), fault))?;
        let run = BlobRun {
            offset: 0,
            stored_size: u64::from(header.stored_size),
            raw_size: u64::from(header.raw_size),
            values: u64::from(values),
        };
        self.runs.push((spool.write_record(&header, stored)?, run));
        Ok(())
    }

    /// Writes all runs that are not written yet.
    pub fn finish(&mut self, compressor: &mut Compressor, spool: &mut Output) -> Result<()> {
        if self.values > 0 {
            self.close_run(compressor, spool)?;
        }
        match self.waiting.is_empty() {
            true => Ok(()),
            false => self.decide(compressor, spool),
        }
    }

    /// Copies the runs from the spool to the file. Returns the entry of the column for the footer, without
    /// the index of its dictionary, and the dictionary.
    pub fn copy(
        self,
        spool: &mut Output,
        output: &mut Output,
    ) -> Result<(BlobColumn, Option<Vec<u8>>)> {
        let dictionary = self.dictionary.flatten();
        let mut runs = Vec::with_capacity(self.runs.len());
        for (record, run) in self.runs {
            let offset = output.copy(spool, record)?;
            runs.push(BlobRun { offset, ..run });
        }
        let column = BlobColumn {
            column: self.column,
            dictionary: None,
            codec: match dictionary {
                Some(_) => Codec::ZstdDict.id(),
                None => self.codec.id(),
            },
            runs,
        };
        Ok((column, dictionary))
    }
}

/// Writes the record of a dictionary. Returns its location, and its stored length.
pub(super) fn write_dictionary(
    dictionary: &[u8],
    compressor: &mut Compressor,
    output: &mut Output,
) -> Result<(DictionaryRef, u64)> {
    let fault = |fault| Error::invalid(output.target(), fault);
    let stored = compressor.compress(dictionary).map_err(fault)?;
    let header = RecordHeader {
        kind: KIND_DICTIONARY,
        codec: Codec::Zstd.id(),
        values: 1,
        raw_size: dictionary.len() as u32,
        stored_size: stored.len() as u32,
        crc: crc32c::crc32c(stored),
        ..RecordHeader::default()
    };
    let reference = DictionaryRef {
        offset: output.position(),
        raw_size: dictionary.len() as u64,
    };
    output.write_record(&header, stored)?;
    Ok((reference, stored.len() as u64))
}

/// Returns a dictionary of values of the runs, if the runs with it and the dictionary itself take fewer
/// bytes than the runs alone.
fn pays(runs: &[(Vec<u8>, u32)], compressor: &mut Compressor) -> Result<Option<Vec<u8>>, String> {
    let dictionary = sample(runs);
    if dictionary.len() < MIN_DICTIONARY_BYTES {
        return Ok(None);
    }
    let mut plain = 0;
    let mut with_dictionary = compressor.compress(&dictionary)?.len();
    for (payload, _) in runs {
        plain += compressor.compress(payload)?.len();
        with_dictionary += compressor.compress_with(&dictionary, payload)?.len();
    }
    Ok((with_dictionary < plain).then_some(dictionary))
}

/// Returns values at equal distances, as many as fit in a dictionary.
fn sample(runs: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let bytes: usize = runs.iter().map(|(payload, _)| payload.len()).sum();
    let stride = bytes.div_ceil(MAX_DICTIONARY_BYTES).max(1);
    let mut dictionary = Vec::new();
    for value in runs
        .iter()
        .flat_map(|(payload, _)| values(payload))
        .step_by(stride)
    {
        if dictionary.len() + value.len() <= MAX_DICTIONARY_BYTES {
            dictionary.extend_from_slice(value);
        }
    }
    dictionary
}

/// Returns the values of the payload of a run.
fn values(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lengths = Cursor::new(payload);
    let count = lengths.size("values").unwrap_or(0);
    let mut data = lengths.clone();
    for _ in 0..count {
        let _ = data.varint("length");
    }
    (0..count).map_while(move |_| data.take("value", lengths.size("length").ok()?).ok())
}
