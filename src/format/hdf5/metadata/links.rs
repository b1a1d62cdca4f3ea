//! The members of a group, in all forms in which groups store them.

use std::collections::HashSet;

use hdf5_reader::btree_v1::collect_btree_v1_leaves_storage;
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::fractal_heap::{FractalHeap, FractalHeapDirectBlockCache};
use hdf5_reader::io::Cursor;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::HdfMessage;
pub(in crate::format::hdf5) use hdf5_reader::messages::link::LinkTarget;
use hdf5_reader::messages::link::{self, LinkMessage};
use hdf5_reader::messages::link_info::LinkInfoMessage;
use hdf5_reader::messages::symbol_table_msg::SymbolTableMessage;
use hdf5_reader::symbol_table::SymbolTableNode;

use crate::format::hdf5::metadata::header::Message;
use crate::format::hdf5::metadata::heap_blocks::check_indirect_blocks;
use crate::format::hdf5::source::{Found, Source};

/// Maximum length of a member's name in bytes.
const MAX_NAME: usize = 1024;
/// Maximum length of the path that a soft link has, in bytes.
pub(in crate::format::hdf5) const MAX_TARGET: usize = 4096;
/// Maximum number of members of a group.
const MAX_MEMBERS: usize = 1 << 17;
/// Maximum number of bytes of the names and paths of all members of a group.
const MAX_TEXTS: usize = 32 << 20;
/// The type of symbolic links in a symbol table.
const SYMBOLIC: u32 = 2;

/// A member of a group.
#[derive(Debug, Clone)]
pub(in crate::format::hdf5) struct Member {
    /// The name within the group.
    pub name: String,
    pub target: LinkTarget,
    order: Option<u64>,
}

impl Member {
    fn of_link(link: LinkMessage) -> Self {
        Self {
            name: link.name,
            target: link.target,
            order: link.creation_order,
        }
    }

    /// Returns the number of bytes of the name, and of the paths that the member leads to.
    pub fn text_bytes(&self) -> usize {
        let target = match &self.target {
            LinkTarget::Hard { .. } => 0,
            LinkTarget::Soft { path } => path.len(),
            LinkTarget::External { filename, path } => filename.len() + path.len(),
        };
        self.name.len() + target
    }
}

/// The members of a group that were read so far.
#[derive(Default)]
struct Members {
    list: Vec<Member>,
    text_bytes: usize,
}

/// Returns the members of the group with these messages: in the order of their creation if the group
/// tracks it, else by name.
///
/// # Errors
/// Returns a message if the group is malformed.
pub(in crate::format::hdf5) fn members(
    source: &Source,
    messages: &[Message],
) -> Found<Vec<Member>> {
    let mut found = Members::default();
    for message in messages.iter().filter(|message| is_of_group(message.kind)) {
        match message.parse(source)? {
            HdfMessage::SymbolTable(table) => in_symbol_table(source, &table, &mut found)?,
            HdfMessage::Link(link) => found.push(Member::of_link(link))?,
            HdfMessage::LinkInfo(info) => in_heap(source, &info, &mut found)?,
            _ => {}
        }
    }
    let mut members = found.list;
    match members.iter().all(|member| member.order.is_some()) {
        true => members.sort_by_key(|member| member.order),
        false => members.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    Ok(members)
}

/// Returns `true` for messages that only groups have.
pub(in crate::format::hdf5) fn is_of_group(kind: u16) -> bool {
    use hdf5_reader::messages::{MSG_GROUP_INFO, MSG_LINK, MSG_LINK_INFO, MSG_SYMBOL_TABLE};
    [MSG_GROUP_INFO, MSG_LINK, MSG_LINK_INFO, MSG_SYMBOL_TABLE].contains(&kind)
}

impl Members {
    fn push(&mut self, member: Member) -> Found<()> {
        if member.name.len() > MAX_NAME {
            return Err(format!(
                "a name of {} bytes, more than {MAX_NAME}",
                member.name.len()
            ));
        }
        if self.list.len() == MAX_MEMBERS {
            return Err(format!("more than {MAX_MEMBERS} members"));
        }
        self.text_bytes += member.text_bytes();
        if self.text_bytes > MAX_TEXTS {
            return Err(format!(
                "members with more than {MAX_TEXTS} bytes of names and paths"
            ));
        }
        self.list.push(member);
        Ok(())
    }
}

/// Adds the members of a group that has a symbol table, as HDF5 1.6 writes them.
fn in_symbol_table(
    source: &Source,
    table: &SymbolTableMessage,
    members: &mut Members,
) -> Found<()> {
    let text = |error: hdf5_reader::error::Error| error.to_string();
    let (offset_size, length_size) = (source.offset_size, source.length_size);
    let heap =
        LocalHeap::parse_at_storage(source.bytes(), table.heap_address, offset_size, length_size);
    let heap = heap.map_err(text)?;
    let leaves = collect_btree_v1_leaves_storage(
        source.bytes(),
        table.btree_address,
        offset_size,
        length_size,
        None,
        &[],
        None,
    )
    .map_err(text)?;
    if leaves.is_empty() {
        return Ok(());
    }
    let length = usize::try_from(heap.data_segment_size).map_err(|error| error.to_string())?;
    let names = source.read(heap.data_segment_address, length)?;
    let mut seen = HashSet::new();
    for (_, address) in leaves {
        // Nodes that occur twice would multiply the members of a broken file.
        if !seen.insert(address) {
            continue;
        }
        let prefix = source.read(address, 8)?;
        let symbols = usize::from(u16::from_le_bytes([prefix[6], prefix[7]]));
        let length = 8 + symbols * (2 * usize::from(offset_size) + 24);
        let bytes = source.read(address, length)?;
        let node = SymbolTableNode::parse(&mut Cursor::new(&bytes), offset_size, length_size);
        let text_at = |start: u64, max: usize| {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let text = names.get(start..).ok_or("a name outside of its heap")?;
            let end = text.iter().take(max + 1).position(|byte| *byte == 0);
            let text = &text[..end.ok_or("a name without an end")?];
            Ok::<_, String>(String::from_utf8_lossy(text).into_owned())
        };
        for entry in node.map_err(text)?.entries {
            let target = match entry.cache_type {
                SYMBOLIC => {
                    let [a, b, c, d, ..] = entry.scratch;
                    let start = u32::from_le_bytes([a, b, c, d]);
                    let path = text_at(start.into(), MAX_TARGET)?;
                    LinkTarget::Soft { path }
                }
                _ => LinkTarget::Hard {
                    address: entry.object_header_address,
                },
            };
            let name = text_at(entry.link_name_offset, MAX_NAME)?;
            let order = None;
            members.push(Member {
                name,
                target,
                order,
            })?;
        }
    }
    Ok(())
}

/// Adds the members of a group that stores its links in a heap.
fn in_heap(source: &Source, info: &LinkInfoMessage, members: &mut Members) -> Found<()> {
    if source.is_undefined(info.fractal_heap_address) {
        return Ok(());
    }
    let records = records(source, info.btree_name_index_address)?;
    let mut failed = None;
    each_object(source, info.fractal_heap_address, &records, |bytes| {
        let link = link::parse(
            &mut Cursor::new(bytes),
            source.offset_size,
            source.length_size,
            bytes.len(),
        );
        let pushed = link
            .map_err(|error| error.to_string())
            .and_then(|link| members.push(Member::of_link(link)));
        failed = pushed.err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), Err)
}

/// Returns the records of a B-tree of version 2.
pub(in crate::format::hdf5) fn records(source: &Source, address: u64) -> Found<Vec<BTreeV2Record>> {
    let (offset_size, length_size) = (source.offset_size, source.length_size);
    let read = || {
        let header =
            BTreeV2Header::parse_at_storage(source.bytes(), address, offset_size, length_size)?;
        collect_btree_v2_records_storage(
            source.bytes(),
            &header,
            offset_size,
            length_size,
            None,
            &[],
            None,
        )
    };
    read().map_err(|error: hdf5_reader::error::Error| error.to_string())
}

/// Calls a function with each object of a fractal heap that the records name, until the function
/// returns `false`.
pub(in crate::format::hdf5) fn each_object(
    source: &Source,
    heap: u64,
    records: &[BTreeV2Record],
    mut call: impl FnMut(&[u8]) -> bool,
) -> Found<()> {
    if records.is_empty() {
        return Ok(());
    }
    let (offset_size, length_size) = (source.offset_size, source.length_size);
    let heap = FractalHeap::parse_at_storage(source.bytes(), heap, offset_size, length_size);
    let heap = heap.map_err(|error| error.to_string())?;
    check_indirect_blocks(source, &heap)?;
    let mut blocks = FractalHeapDirectBlockCache::default();
    for record in records {
        let (BTreeV2Record::LinkNameHash { heap_id, .. }
        | BTreeV2Record::CreationOrder { heap_id, .. }
        | BTreeV2Record::AttributeNameHash { heap_id, .. }
        | BTreeV2Record::AttributeCreationOrder { heap_id, .. }) = record
        else {
            continue;
        };
        let object = heap.get_object_storage_cached(
            heap_id,
            source.bytes(),
            offset_size,
            length_size,
            &mut blocks,
        );
        if !call(&object.map_err(|error| error.to_string())?) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_limited_in_bytes() {
        let mut members = Members::default();
        let path = "x".repeat(MAX_TARGET);
        let member = Member {
            name: String::new(),
            target: LinkTarget::Soft { path },
            order: None,
        };
        for _ in 0..MAX_TEXTS / MAX_TARGET {
            members.push(member.clone()).unwrap();
        }
        let found = members.push(member).unwrap_err();
        assert!(found.contains("bytes of names and paths"), "{found}");
    }
}
