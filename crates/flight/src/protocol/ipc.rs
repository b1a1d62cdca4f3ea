//! Checks Arrow IPC messages from clients before decoding. Decoding allocates as much memory as a
//! message claims to need, so its claims are checked first.

use crate::status::wrong;
use arrow_ipc::{RecordBatch, root_as_message};
use tonic::Status;

/// The marker before the length of a header, absent in old streams.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The sizes claimed by the header of a message.
struct ClaimedSizes {
    rows: u64,
    body_bytes: usize,
}

/// Checks the header of a message whose body has been received.
pub fn check_header(header: &[u8]) -> Result<(), Status> {
    claimed_sizes(header).map(|_| ())
}

/// Checks a stream of messages, and returns the number of rows that they claim to have.
pub fn check_stream(mut stream: &[u8]) -> Result<u64, Status> {
    let mut rows = 0u64;
    while let Some(length) = header_bytes(&mut stream)? {
        let header = take(&mut stream, length).ok_or_else(cut)?;
        let said = claimed_sizes(header)?;
        take(&mut stream, said.body_bytes).ok_or_else(cut)?;
        rows = rows.saturating_add(said.rows);
    }
    Ok(rows)
}

/// Returns the length of the next header, or `None` at the end of the stream.
fn header_bytes(stream: &mut &[u8]) -> Result<Option<usize>, Status> {
    let Some(mut length) = take_four(stream) else {
        return Ok(None);
    };
    if length == CONTINUATION {
        length = take_four(stream).ok_or_else(cut)?;
    }
    match i32::from_le_bytes(length) {
        0 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| cut()),
    }
}

fn claimed_sizes(header: &[u8]) -> Result<ClaimedSizes, Status> {
    let message = root_as_message(header)
        .map_err(|error| wrong(format!("the parameters are invalid: {error}")))?;
    let dictionary = message.header_as_dictionary_batch();
    let batch = message.header_as_record_batch();
    let data = dictionary
        .and_then(|dictionary| dictionary.data())
        .or(batch);
    // The decompressed size would be known too late.
    if data.is_some_and(|data| data.compression().is_some()) {
        return Err(wrong("compressed parameters are not supported"));
    }
    let rows = batch.as_ref().map_or(0, RecordBatch::length);
    Ok(ClaimedSizes {
        rows: u64::try_from(rows).map_err(|_| cut())?,
        body_bytes: usize::try_from(message.bodyLength()).map_err(|_| cut())?,
    })
}

fn take<'a>(stream: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, rest) = stream.split_at_checked(bytes)?;
    *stream = rest;
    Some(taken)
}

fn take_four(stream: &mut &[u8]) -> Option<[u8; 4]> {
    take(stream, 4)?.try_into().ok()
}

fn cut() -> Status {
    wrong("the parameters are invalid: a length is negative or exceeds the data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    use datafusion::arrow::array::{ArrayRef, Int64Array, NullArray, RecordBatch};
    use std::sync::Arc;

    fn stream(column: ArrayRef, options: IpcWriteOptions) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let writer = StreamWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options);
        let mut writer = writer.unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn numbers() -> ArrayRef {
        Arc::new(Int64Array::from(vec![7]))
    }

    #[test]
    fn rows_are_counted() {
        let options = IpcWriteOptions::default;
        assert_eq!(check_stream(&stream(numbers(), options())).unwrap(), 2);
        let nothing = Arc::new(NullArray::new(1 << 40));
        assert_eq!(check_stream(&stream(nothing, options())).unwrap(), 1 << 41);
        assert_eq!(check_stream(b"").unwrap(), 0);
    }

    #[test]
    fn false_lengths_are_rejected() {
        let bytes = stream(numbers(), IpcWriteOptions::default());
        for length in [1i64 << 60, -1] {
            let mut rest = &bytes[..];
            // The header of the first batch follows the schema message, which has no body.
            for _ in 0..2 {
                let header = header_bytes(&mut rest).unwrap().unwrap();
                take(&mut rest, header).unwrap();
            }
            let end = bytes.len() - rest.len();
            let forged = (0..end - 8).find_map(|offset| {
                let mut forged = bytes.clone();
                forged[offset..offset + 8].copy_from_slice(&length.to_le_bytes());
                let mut rest = &forged[..];
                let schema = header_bytes(&mut rest).ok()??;
                take(&mut rest, schema)?;
                let batch = header_bytes(&mut rest).ok()??;
                let message = root_as_message(take(&mut rest, batch)?).ok()?;
                (message.bodyLength() == length).then_some(forged)
            });
            assert!(check_stream(&forged.unwrap()).is_err(), "{length}");
        }
        for length in [i32::MAX, -2] {
            let mut forged = bytes.clone();
            forged[4..8].copy_from_slice(&length.to_le_bytes());
            assert!(check_stream(&forged).is_err(), "{length}");
        }
        assert!(check_stream(&bytes[..bytes.len() - 16]).is_err());
    }

    #[test]
    fn what_is_compressed_is_refused() {
        let options = IpcWriteOptions::default();
        let options = options.try_with_compression(Some(CompressionType::LZ4_FRAME));
        let error = check_stream(&stream(numbers(), options.unwrap())).unwrap_err();
        assert_eq!(error.message(), "compressed parameters are not supported");
    }
}
