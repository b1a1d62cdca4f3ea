//! Object headers: the messages that describe a group or a dataset.

use std::collections::HashSet;

use hdf5_reader::io::Cursor;
use hdf5_reader::messages::shared::{self, SharedMessage};
use hdf5_reader::messages::{HdfMessage, parse_message};

use crate::format::hdf5::checked_blocks::read_checked;
use crate::format::hdf5::source::{Found, Source};

/// Maximum size of an object header in bytes, over all of its blocks.
const MAX_HEADER_BYTES: u64 = 8 << 20;
/// The flag of a message whose body is stored somewhere else.
pub(super) const SHARED: u8 = 0x02;
/// The end of messages about what a file may have, but this crate cannot read.
pub(super) const NOT_SUPPORTED: &str = "which is not supported";
/// The type of the message that continues the header in another block.
const CONTINUATION: u16 = 0x0010;

/// A message of an object header.
#[derive(Debug, Clone)]
pub(in crate::format::hdf5) struct Message {
    /// The type, by the numbers of the specification.
    pub kind: u16,
    /// The body. For a shared message, the body is stored in another header.
    pub body: Vec<u8>,
}

impl Message {
    /// Parses the message.
    ///
    /// # Errors
    /// Returns a message if the body is malformed, or uses an unsupported version or type.
    pub fn parse(&self, source: &Source) -> Found<HdfMessage> {
        let mut cursor = Cursor::new(&self.body);
        let parsed = parse_message(
            self.kind,
            self.body.len(),
            &mut cursor,
            source.offset_size,
            source.length_size,
        );
        parsed.map_err(|error| error.to_string())
    }
}

/// Reads the messages of an object header. Shared messages are replaced by those that they refer to.
///
/// # Errors
/// Returns a message if the header is malformed.
pub(in crate::format::hdf5) fn read(source: &Source, address: u64) -> Found<Vec<Message>> {
    let stored = stored_messages(source, address)?;
    let mut messages = Vec::with_capacity(stored.len());
    for (message, flags) in stored {
        messages.push(match flags & SHARED {
            0 => message,
            _ => referred(source, &message)?,
        });
    }
    Ok(messages)
}

/// Returns the message that a shared message refers to.
fn referred(source: &Source, message: &Message) -> Found<Message> {
    let parsed = shared::parse(
        &mut Cursor::new(&message.body),
        message.kind,
        source.offset_size,
        source.length_size,
        message.body.len(),
    );
    match parsed.map_err(|error| error.to_string())? {
        SharedMessage::SharedInOhdr { address, .. } => {
            let others = stored_messages(source, address)?;
            let mut others = others.into_iter();
            let found =
                others.find(|(other, flags)| other.kind == message.kind && flags & SHARED == 0);
            let (found, _) = found
                .ok_or_else(|| format!("no message of type {} at {address:#x}", message.kind))?;
            Ok(found)
        }
        SharedMessage::SharedInSohm { .. } => Err(format!(
            "a message in the shared message heap, {NOT_SUPPORTED}"
        )),
    }
}

/// Reads the messages of an object header as they are stored, each with its flags.
fn stored_messages(source: &Source, address: u64) -> Found<Vec<(Message, u8)>> {
    let start = source.read(address, 16)?;
    match start.starts_with(b"OHDR") {
        true => Blocks::of_version_2(source, address)?.read_all(source),
        false => Blocks::of_version_1(source, address)?.read_all(source),
    }
}

/// The blocks of an object header that are still to be read, and the messages read so far.
struct Blocks {
    is_version_2: bool,
    /// Version 2: each message has its creation order.
    has_order: bool,
    /// The address and length of each block, without signatures and checksums.
    pending: Vec<(u64, u64)>,
    seen: HashSet<u64>,
    bytes: u64,
    messages: Vec<(Message, u8)>,
}

impl Blocks {
    fn new(is_version_2: bool, has_order: bool, first: (u64, u64)) -> Self {
        Self {
            is_version_2,
            has_order,
            pending: vec![first],
            seen: HashSet::new(),
            bytes: 0,
            messages: Vec::new(),
        }
    }

    fn of_version_1(source: &Source, address: u64) -> Found<Self> {
        let prefix = source.read(address, 16)?;
        if prefix[0] != 1 {
            return Err(format!("no object header at {address:#x}"));
        }
        let length = u32::from_le_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]);
        let first = (plus(address, 16)?, u64::from(length));
        Ok(Self::new(false, false, first))
    }

    fn of_version_2(source: &Source, address: u64) -> Found<Self> {
        let prefix = source.read(address, 6)?;
        if prefix[4] != 2 {
            return Err(format!(
                "object header version {}, expected 1 or 2",
                prefix[4]
            ));
        }
        let flags = prefix[5];
        let times = if flags & 0x20 != 0 { 16 } else { 0 };
        let phases = if flags & 0x10 != 0 { 4 } else { 0 };
        let size_bytes = 1 << (flags & 3);
        let prefix_bytes = 6 + times + phases + size_bytes;
        let prefix = source.read(address, prefix_bytes)?;
        let mut size = [0; 8];
        size[..size_bytes].copy_from_slice(&prefix[prefix_bytes - size_bytes..]);
        let size = u64::from_le_bytes(size);
        check_size(size)?;
        let total = prefix_bytes as u64 + size;
        read_checked(source, address, total)?;
        let first = (plus(address, prefix_bytes as u64)?, size);
        Ok(Self::new(true, flags & 0x04 != 0, first))
    }

    fn read_all(mut self, source: &Source) -> Found<Vec<(Message, u8)>> {
        while let Some((address, length)) = self.pending.pop() {
            self.bytes = self.bytes.saturating_add(length);
            check_size(self.bytes)?;
            // A block that continues itself would never end.
            if !self.seen.insert(address) {
                return Err(format!("two continuations at {address:#x}"));
            }
            let bytes = source.read(address, length as usize)?;
            self.read_block(source, &bytes)?;
        }
        Ok(self.messages)
    }

    fn read_block(&mut self, source: &Source, bytes: &[u8]) -> Found<()> {
        let mut cursor = Cursor::new(bytes);
        let prefix = match (self.is_version_2, self.has_order) {
            (false, _) => 8,
            (true, false) => 4,
            (true, true) => 6,
        };
        let mut continuations = Vec::new();
        // Fewer bytes than a prefix are a gap.
        while cursor.remaining() >= prefix {
            let (message, flags) = self.message(&mut cursor)?;
            if message.kind == CONTINUATION {
                let parsed = message.parse(source)?;
                if let HdfMessage::Continuation(next) = parsed {
                    continuations.push((next.offset, next.length));
                }
            } else if message.kind != 0 {
                self.messages.push((message, flags));
            }
        }
        for (address, length) in continuations.into_iter().rev() {
            self.pending.push(match self.is_version_2 {
                false => (address, length),
                true => {
                    // A signature comes before the messages, a checksum after them.
                    let inner = length
                        .checked_sub(8)
                        .ok_or("a continuation without messages")?;
                    check_size(inner)?;
                    if !source.read(address, 4)?.starts_with(b"OCHK") {
                        return Err(format!("no continuation at {address:#x}"));
                    }
                    read_checked(source, address, inner + 4)?;
                    (plus(address, 4)?, inner)
                }
            });
        }
        Ok(())
    }

    /// Reads one message and its flags.
    fn message(&self, cursor: &mut Cursor<'_>) -> Found<(Message, u8)> {
        let read = |cursor: &mut Cursor<'_>| {
            let (kind, size, flags);
            if self.is_version_2 {
                kind = u16::from(cursor.read_u8()?);
                size = cursor.read_u16_le()?;
                flags = cursor.read_u8()?;
                if self.has_order {
                    cursor.skip(2)?;
                }
            } else {
                kind = cursor.read_u16_le()?;
                size = cursor.read_u16_le()?;
                flags = cursor.read_u8()?;
                cursor.skip(3)?;
            }
            let body = cursor.read_bytes(usize::from(size))?.to_vec();
            Ok((Message { kind, body }, flags))
        };
        read(cursor).map_err(|error: hdf5_reader::error::Error| error.to_string())
    }
}

fn plus(address: u64, more: u64) -> Found<u64> {
    let sum = address.checked_add(more);
    sum.ok_or_else(|| format!("an address of {address:#x}"))
}

fn check_size(bytes: u64) -> Found<()> {
    match bytes <= MAX_HEADER_BYTES {
        true => Ok(()),
        false => Err(format!(
            "an object header of {bytes} bytes, more than {MAX_HEADER_BYTES}"
        )),
    }
}
