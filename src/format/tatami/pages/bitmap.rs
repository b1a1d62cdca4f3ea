//! [`Bitmap`], one bit per row, and [`Validity`], the rows of a column that are not null.

/// A growing list of bits, lowest bit first. The bits after the last one are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    bytes: Vec<u8>,
    length: usize,
}

impl Bitmap {
    /// The number of bits.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns `true` if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a bit. Bits after the last one are not set.
    pub fn get(&self, index: usize) -> bool {
        bit(&self.bytes, index)
    }

    /// Removes all bits, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.length = 0;
    }

    /// Takes the bytes. The bitmap is empty afterwards.
    pub fn take(&mut self) -> Vec<u8> {
        self.length = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Appends a bit.
    pub fn push(&mut self, is_set: bool) {
        let shift = self.length % 8;
        match self.bytes.last_mut() {
            Some(last) if shift > 0 => *last |= u8::from(is_set) << shift,
            _ => self.bytes.push(u8::from(is_set)),
        }
        self.length += 1;
    }

    /// Appends `count` equal bits.
    pub fn push_equal(&mut self, is_set: bool, count: usize) {
        let fill = if is_set { 0xff } else { 0 };
        if let Some(last) = self.bytes.last_mut()
            && !self.length.is_multiple_of(8)
        {
            *last |= fill << (self.length % 8);
        }
        self.length += count;
        self.bytes.resize(self.length.div_ceil(8), fill);
        self.clear_after_last();
    }

    /// Appends the first `count` bits of `bytes`. Missing bytes are zero.
    pub fn push_bits(&mut self, bytes: &[u8], count: usize) {
        let shift = self.length % 8;
        let bytes = &bytes[..bytes.len().min(count.div_ceil(8))];
        if shift == 0 {
            self.bytes.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                if let Some(last) = self.bytes.last_mut() {
                    *last |= byte << shift;
                }
                self.bytes.push(byte >> (8 - shift));
            }
        }
        self.length += count;
        self.bytes.resize(self.length.div_ceil(8), 0);
        self.clear_after_last();
    }

    fn clear_after_last(&mut self) {
        let used = self.length % 8;
        if let Some(last) = self.bytes.last_mut()
            && used > 0
        {
            *last &= 0xff >> (8 - used);
        }
    }
}

/// Returns a bit of `bytes`. Bits after the last byte are not set.
pub(crate) fn bit(bytes: &[u8], index: usize) -> bool {
    bytes
        .get(index / 8)
        .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Counts the set bits in `bytes` from bit `start` up to bit `end`.
pub(crate) fn count_set(bytes: &[u8], start: usize, end: usize) -> usize {
    if start >= end {
        return 0;
    }
    let (first, last) = (start / 8, end / 8);
    let low = |bits: usize| (1u8 << bits) - 1;
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    if first == last {
        return (byte(first) & low(end % 8) & !low(start % 8)).count_ones() as usize;
    }
    let whole = bytes
        .get(first + 1..last.min(bytes.len()))
        .unwrap_or_default();
    let mut words = whole.chunks_exact(8);
    let mut count =
        (byte(first) & !low(start % 8)).count_ones() + (byte(last) & low(end % 8)).count_ones();
    for word in &mut words {
        count += word
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word).count_ones());
    }
    count += words
        .remainder()
        .iter()
        .map(|byte| byte.count_ones())
        .sum::<u32>();
    count as usize
}

/// A bitmap of the rows of a column that have a value. Takes no memory while there are no nulls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validity {
    bits: Bitmap,
    rows: usize,
    nulls: usize,
}

impl Validity {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of nulls.
    pub fn nulls(&self) -> usize {
        self.nulls
    }

    /// Returns `true` if the row has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls == 0 || self.bits.get(row)
    }

    /// Returns one bit per row, set if the row has a value, or `None` if there are no nulls.
    pub fn bits(&self) -> Option<&[u8]> {
        (self.nulls > 0).then(|| self.bits.as_bytes())
    }

    /// Takes the bits of [`Self::bits`]. The validity is empty afterwards.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let bits = (self.nulls > 0).then(|| self.bits.take());
        self.clear();
        bits
    }

    /// Removes all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.bits.clear();
        self.rows = 0;
        self.nulls = 0;
    }

    /// Appends rows with values.
    pub(crate) fn push_valid(&mut self, rows: usize) {
        if self.nulls > 0 {
            self.bits.push_equal(true, rows);
        }
        self.rows += rows;
    }

    /// Appends the rows of a page: all of them, or the selected ones. `None` instead of bits means that all
    /// rows have values.
    pub(crate) fn push_page(&mut self, bits: Option<&[u8]>, rows: usize, selected: Option<&[u32]>) {
        let Some(bits) = bits else {
            return self.push_valid(selected.map_or(rows, <[u32]>::len));
        };
        if self.nulls == 0 {
            self.bits.clear();
            self.bits.push_equal(true, self.rows);
        }
        let before = self.rows;
        match selected {
            None => {
                self.bits.push_bits(bits, rows);
                self.rows += rows;
            }
            Some(selected) => {
                for row in selected {
                    self.bits.push(bit(bits, *row as usize));
                }
                self.rows += selected.len();
            }
        }
        self.nulls += self.rows - before - count_set(self.bits.as_bytes(), before, self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_appended_and_counted_at_every_offset() {
        let source: Vec<u8> = (0..40u32).map(|byte| (byte * 37 + 11) as u8).collect();
        for start in 0..20 {
            for count in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
                let mut bits = Bitmap::default();
                bits.push_equal(true, start);
                bits.push_bits(&source, count);
                bits.push_equal(false, 3);
                bits.push(true);
                let mut expected = vec![true; start];
                expected.extend((0..count).map(|index| bit(&source, index)));
                expected.extend([false, false, false, true]);
                let found: Vec<bool> = (0..bits.len()).map(|index| bits.get(index)).collect();
                assert_eq!(found, expected);
                assert_eq!(bits.as_bytes().len(), bits.len().div_ceil(8));
                let set = expected.iter().skip(start / 2).filter(|bit| **bit).count();
                assert_eq!(count_set(bits.as_bytes(), start / 2, bits.len()), set);
            }
        }
    }

    #[test]
    fn validity_takes_memory_only_for_nulls() {
        let mut validity = Validity::default();
        validity.push_page(None, 10, None);
        assert_eq!(validity.bits(), None);
        validity.push_page(Some(&[0b101]), 3, Some(&[0, 1]));
        assert_eq!((validity.rows(), validity.nulls()), (12, 1));
        assert_eq!(validity.bits(), Some(&[0xff, 0b0111][..]));
        assert!(!validity.is_valid(11));
        assert_eq!(validity.take(), Some(vec![0xff, 0b0111]));
        assert_eq!(validity.rows(), 0);
    }
}
