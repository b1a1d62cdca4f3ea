//! [`Strings`]: byte strings that share the buffers they were decoded into.

use bytes::Bytes;

/// The maximum length of a string that is stored in its view.
const MAX_INLINE_BYTES: usize = 12;

/// The length of a copied buffer after which the next one is started.
const MAX_COPIED_BYTES: usize = 1 << 30;

/// Byte strings in the layout of Arrow's variable-size binary views: a view holds the length of a string,
/// and then all of it, or its first four bytes, the index of a buffer and the offset in it.
#[derive(Debug, Clone, Default)]
pub struct Strings {
    views: Vec<u128>,
    buffers: Vec<Bytes>,
    /// The buffer that copied strings are appended to. It follows `buffers`.
    copied: Vec<u8>,
    /// `true` if some strings were not found to be valid UTF-8 when they were appended.
    is_unchecked: bool,
}

impl Strings {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Returns `true` if there are no strings.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Returns `true` if all strings are known to be valid UTF-8.
    pub fn is_utf8(&self) -> bool {
        !self.is_unchecked
    }

    /// Returns a copy of a string.
    pub fn get(&self, index: usize) -> Option<Vec<u8>> {
        let view = self.views.get(index)?;
        let length = *view as u32 as usize;
        if length <= MAX_INLINE_BYTES {
            return Some(view.to_le_bytes()[4..4 + length].to_vec());
        }
        let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        let buffer = self
            .buffers
            .get(buffer)
            .map_or(&*self.copied, |buffer| buffer);
        buffer.get(start..start + length).map(<[u8]>::to_vec)
    }

    /// Takes the views and the buffers, and leaves no strings.
    pub fn take(&mut self) -> (Vec<u128>, Vec<Bytes>) {
        self.end_copied();
        self.is_unchecked = false;
        (
            std::mem::take(&mut self.views),
            std::mem::take(&mut self.buffers),
        )
    }

    /// Removes all strings.
    pub(crate) fn clear(&mut self) {
        self.views.clear();
        self.buffers.clear();
        self.copied.clear();
        self.is_unchecked = false;
    }

    pub(crate) fn reserve(&mut self, count: usize) {
        self.views.reserve(count);
    }

    /// Appends an empty string.
    pub(crate) fn push_empty(&mut self) {
        self.views.push(0);
    }

    /// Appends a copy of a string, which may be anything but UTF-8.
    pub(crate) fn push_copy(&mut self, string: &[u8]) {
        if self.copied.len() > MAX_COPIED_BYTES {
            self.end_copied();
        }
        self.is_unchecked = true;
        let start = self.copied.len();
        if string.len() > MAX_INLINE_BYTES {
            self.copied.extend_from_slice(string);
            self.views
                .push(view(&self.copied, start, string.len(), self.buffers.len()));
        } else {
            self.views.push(view(string, 0, string.len(), 0));
        }
    }

    /// Appends strings that are parts of `buffer`, which the views keep in memory.
    pub(crate) fn share<'a>(&'a mut self, buffer: &'a Bytes) -> SharedStrings<'a> {
        let is_last = |last: &Bytes| (last.as_ptr(), last.len()) == (buffer.as_ptr(), buffer.len());
        let is_new = !(self.copied.is_empty() && self.buffers.last().is_some_and(is_last));
        if is_new {
            self.end_copied();
        }
        SharedStrings {
            index: self.buffers.len() - usize::from(!is_new),
            is_new,
            strings: self,
            buffer,
        }
    }

    fn end_copied(&mut self) {
        if !self.copied.is_empty() {
            self.buffers.push(std::mem::take(&mut self.copied).into());
        }
    }
}

/// Appends strings that are parts of one buffer.
pub(crate) struct SharedStrings<'a> {
    strings: &'a mut Strings,
    buffer: &'a Bytes,
    /// The index of the buffer.
    index: usize,
    /// `true` until a view refers to the buffer.
    is_new: bool,
}

impl SharedStrings<'_> {
    /// Appends the `length` bytes from `start` on. They must lie in the buffer.
    #[inline(always)]
    pub fn push(&mut self, start: usize, length: usize) {
        if self.is_new && length > MAX_INLINE_BYTES {
            self.strings.buffers.push(self.buffer.clone());
            self.is_new = false;
        }
        self.strings
            .views
            .push(view(self.buffer, start, length, self.index));
    }

    /// Appends an empty string.
    pub fn push_empty(&mut self) {
        self.strings.push_empty();
    }

    /// Records that some of the strings may not be valid UTF-8.
    pub fn set_unchecked(&mut self) {
        self.strings.is_unchecked = true;
    }
}

/// Returns the view of `length` bytes from `start` on, in the buffer with this index.
#[inline]
fn view(buffer: &[u8], start: usize, length: usize, index: usize) -> u128 {
    let after = buffer.get(start..).unwrap_or_default();
    if length > MAX_INLINE_BYTES {
        let prefix = after
            .first_chunk()
            .map_or(0, |prefix| u32::from_le_bytes(*prefix));
        return length as u128
            | (prefix as u128) << 32
            | (index as u128) << 64
            | (start as u128) << 96;
    }
    // Reading a fixed number of bytes and masking is several times as fast as copying a few.
    let bytes = match after.first_chunk() {
        Some(bytes) => u128::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        None => {
            let mut bytes = [0; 16];
            let string = after.get(..length).unwrap_or_default();
            bytes[..string.len()].copy_from_slice(string);
            u128::from_le_bytes(bytes)
        }
    };
    length as u128 | bytes << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_inline_copied_and_shared() {
        let buffer = Bytes::from_static(b"short and then a longer string, and the end");
        let mut strings = Strings::default();
        strings.push_copy(b"a copy of thirteen or more");
        let mut shared = strings.share(&buffer);
        shared.push(0, 5);
        shared.push(15, 15);
        shared.push_empty();
        let mut shared = strings.share(&buffer);
        shared.push(31, 12);
        shared.push(30, 13);
        strings.push_copy(b"twelve bytes");
        strings.push_copy(b"another copied string");
        let all: Vec<Vec<u8>> = (0..strings.len())
            .map_while(|index| strings.get(index))
            .collect();
        let expected: [&[u8]; 8] = [
            b"a copy of thirteen or more",
            b"short",
            b"a longer string",
            b"",
            b" and the end",
            b", and the end",
            b"twelve bytes",
            b"another copied string",
        ];
        assert_eq!(all, expected);
        assert_eq!(strings.get(8), None);
        let (views, buffers) = strings.take();
        assert_eq!((views.len(), buffers.len(), strings.len()), (8, 3, 0));
    }

    #[test]
    fn a_buffer_of_short_strings_is_not_kept() {
        let buffer = Bytes::from_static(b"abc");
        let mut strings = Strings::default();
        let mut shared = strings.share(&buffer);
        (0..3).for_each(|start| shared.push(start, 1));
        assert_eq!(strings.get(2), Some(b"c".to_vec()));
        assert_eq!(strings.take().1.len(), 0);
    }
}
