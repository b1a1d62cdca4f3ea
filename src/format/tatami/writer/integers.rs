//! Encodings of integers, and the choice between them. All work on values of 64 bits, sign-extended for
//! signed types.

use crate::format::tatami::bytes::put_varint;
use crate::format::tatami::encoding::lists::{pfor_width, put_group_varint, put_pfor};
use crate::format::tatami::encoding::packing::{bit_width, packed_bytes, put_packed};
use crate::format::tatami::layout::types::Encoding;

/// The minimum length of a run of equal values in run-length encoding.
const MIN_RUN: usize = 8;
/// The maximum number of values in PFORDELTA encoding: the index of an exception is one byte.
const MAX_PFOR_VALUES: usize = 256;

/// The integers of a page, without nulls. There is at least one.
pub(super) struct Integers<'a> {
    words: &'a [u64],
    /// The bytes of a value as stored plainly.
    bytes: usize,
    /// The first of the smallest and the first of the largest values, in the order of the type.
    min: u64,
    max: u64,
    /// The largest value as an unsigned integer.
    unsigned_max: u64,
}

impl<'a> Integers<'a> {
    /// Returns the integers of a page, or `None` if there are none.
    pub fn new(words: &'a [u64], bytes: usize, is_signed: bool) -> Option<Self> {
        // With the sign bit flipped, signed integers have the order of unsigned ones.
        let sign = u64::from(is_signed) << 63;
        let (mut min, mut max) = (u64::MAX, 0);
        for word in words {
            min = min.min(word ^ sign);
            max = max.max(word ^ sign);
        }
        let (min, max) = (min ^ sign, max ^ sign);
        // Read as unsigned, a negative integer has its highest bit set and so needs all bits, like -1.
        let has_negative = is_signed && min >> 63 == 1;
        (!words.is_empty()).then_some(Self {
            words,
            bytes,
            min,
            max,
            unsigned_max: if has_negative { u64::MAX } else { max },
        })
    }

    /// The smallest and the largest value.
    pub fn min_max(&self) -> (u64, u64) {
        (self.min, self.max)
    }

    /// Returns the encoding with the fewest bytes. If several are equal, returns the first in this order.
    pub fn smallest(&self) -> Encoding {
        let mut best = (Encoding::Plain, self.words.len() * self.bytes);
        for encoding in [
            Encoding::BitpackFor,
            Encoding::Delta,
            Encoding::Rle,
            Encoding::GroupVarint,
            Encoding::PforDelta,
        ] {
            if let Some(size) = self.size(encoding).filter(|size| *size < best.1) {
                best = (encoding, size);
            }
        }
        best.0
    }

    /// Returns the bytes that an encoding takes, or `None` if it cannot hold the values.
    pub fn size(&self, encoding: Encoding) -> Option<usize> {
        let count = self.words.len();
        let is_narrow = self.unsigned_max <= u64::from(u32::MAX);
        match encoding {
            Encoding::Plain => Some(count * self.bytes),
            Encoding::BitpackFor => Some(self.frame().size(count)),
            Encoding::Delta => {
                Some(varint_bytes(self.words[0]) + self.delta_frame().size(count - 1))
            }
            Encoding::Rle => {
                let width = bit_width(self.unsigned_max);
                let mut size = 1;
                for_each_run(self.words, |literals, run| {
                    if !literals.is_empty() {
                        let control = varint_bytes((literals.len() as u64) << 1);
                        size += control + packed_bytes(literals.len(), width);
                    }
                    if !run.is_empty() {
                        size += varint_bytes((run.len() as u64) << 1) + packed_bytes(1, width);
                    }
                });
                Some(size)
            }
            Encoding::GroupVarint if is_narrow => {
                let bytes = |word: &u64| packed_bytes(1, bit_width(*word));
                Some(count.div_ceil(4) + self.words.iter().map(bytes).sum::<usize>())
            }
            Encoding::PforDelta if is_narrow && count <= MAX_PFOR_VALUES => {
                Some(2 + pfor_width(self.words).1)
            }
            _ => None,
        }
    }

    /// Appends the values in an encoding that can hold them.
    pub fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) {
        match encoding {
            Encoding::BitpackFor => self.frame().encode(self.words.iter().copied(), out),
            Encoding::Delta => {
                put_varint(out, self.words[0]);
                self.delta_frame().encode(differences(self.words), out);
            }
            Encoding::Rle => {
                let width = bit_width(self.unsigned_max);
                out.push(width as u8);
                for_each_run(self.words, |literals, run| {
                    if !literals.is_empty() {
                        put_varint(out, (literals.len() as u64) << 1);
                        put_packed(width, literals.iter().copied(), out);
                    }
                    if let Some(word) = run.first() {
                        put_varint(out, (run.len() as u64) << 1 | 1);
                        out.extend_from_slice(&word.to_le_bytes()[..packed_bytes(1, width)]);
                    }
                });
            }
            Encoding::GroupVarint => put_group_varint(out, self.words),
            Encoding::PforDelta => put_pfor(out, self.words),
            _ => {
                for word in self.words {
                    out.extend_from_slice(&word.to_le_bytes()[..self.bytes]);
                }
            }
        }
    }

    fn frame(&self) -> Frame {
        Frame {
            base: Some(self.min),
            width: bit_width(self.max.wrapping_sub(self.min)),
        }
    }

    fn delta_frame(&self) -> Frame {
        let (mut min, mut max) = (u64::MAX, 0);
        for difference in differences(self.words) {
            min = min.min(difference);
            max = max.max(difference);
        }
        Frame {
            base: (self.words.len() > 1).then_some(min),
            width: bit_width(max.saturating_sub(min)),
        }
    }
}

/// Bit-packed differences from a base, which a list without values does not have.
struct Frame {
    base: Option<u64>,
    width: u32,
}

impl Frame {
    fn size(&self, count: usize) -> usize {
        1 + self.base.map_or(0, varint_bytes) + packed_bytes(count, self.width)
    }

    fn encode(&self, words: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        out.push(self.width as u8);
        if let Some(base) = self.base {
            put_varint(out, base);
            put_packed(self.width, words.map(|word| word.wrapping_sub(base)), out);
        }
    }
}

fn varint_bytes(value: u64) -> usize {
    bit_width(value).div_ceil(7) as usize
}

/// Returns the differences between neighbours, with the sign in the lowest bit.
fn differences(words: &[u64]) -> impl Iterator<Item = u64> {
    words.windows(2).map(|pair| {
        let difference = pair[1].wrapping_sub(pair[0]) as i64;
        (difference << 1 ^ difference >> 63) as u64
    })
}

/// Calls `each` with literals and the run of equal values after them, either of which may be empty.
fn for_each_run(words: &[u64], mut each: impl FnMut(&[u64], &[u64])) {
    let (mut literals, mut start) = (0, 0);
    while start < words.len() {
        let first = words[start];
        let length = words[start..]
            .iter()
            .take_while(|word| **word == first)
            .count();
        if length >= MIN_RUN {
            each(&words[literals..start], &words[start..start + length]);
            literals = start + length;
        }
        start += length;
    }
    if literals < words.len() {
        each(&words[literals..], &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tatami::encoding::decode_integers;

    const ENCODINGS: [Encoding; 6] = [
        Encoding::Plain,
        Encoding::BitpackFor,
        Encoding::Delta,
        Encoding::Rle,
        Encoding::GroupVarint,
        Encoding::PforDelta,
    ];

    /// Checks every encoding that can hold the values: its size and what it decodes to.
    fn check(words: &[u64], bytes: usize, is_signed: bool) {
        let integers = Integers::new(words, bytes, is_signed).unwrap();
        let mut smallest = usize::MAX;
        for encoding in ENCODINGS {
            let Some(size) = integers.size(encoding) else {
                continue;
            };
            let mut encoded = Vec::new();
            integers.encode(encoding, &mut encoded);
            assert_eq!(encoded.len(), size, "{encoding} of {words:?}");
            smallest = smallest.min(size);
            let mut decoded: Vec<u64> = Vec::new();
            // Plain values are as wide as the column; others are widened to 64 bits.
            if encoding != Encoding::Plain || bytes == 8 {
                decode_integers(encoding, &encoded, words.len(), &mut decoded).unwrap();
                assert_eq!(decoded, words, "{encoding}");
            }
        }
        assert_eq!(integers.size(integers.smallest()), Some(smallest));
    }

    #[test]
    fn encodings_decode_to_the_same_values() {
        let mut state = 1u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 31
        };
        for width in 1..=64 {
            for count in [1, 2, 3, 5, 8, 9, 64, 255, 256, 257, 700] {
                let mask = u64::MAX >> (64 - width);
                let run = 1 + random() % 20;
                let mut word = 0;
                let words: Vec<u64> = (0..count)
                    .map(|row| {
                        if row % run == 0 {
                            word = random() & mask;
                        }
                        // A few values that need all bits of the width.
                        if random() % 50 == 0 {
                            mask
                        } else {
                            word >> (random() % 2 * 3)
                        }
                    })
                    .collect();
                check(&words, 8, false);
                check(&words, 8, true);
                let narrow: Vec<u64> = words.iter().map(|word| *word as i8 as u64).collect();
                check(&narrow, 1, true);
            }
        }
        check(&[u64::MAX, 0, 1 << 63, u64::MAX >> 1], 8, true);
        check(&[u64::MAX, 0, 1 << 63, u64::MAX >> 1], 8, false);
    }

    #[test]
    fn the_first_of_equally_small_encodings_is_taken() {
        let smallest =
            |words: &[u64], bytes| Integers::new(words, bytes, false).unwrap().smallest();
        assert_eq!(smallest(&[5], 1), Encoding::Plain);
        // Delta: one byte for the value, one for the empty list. Bit packing takes three.
        assert_eq!(smallest(&[5], 4), Encoding::Delta);
        let ascending: Vec<u64> = (0..100).collect();
        assert_eq!(smallest(&ascending, 8), Encoding::Delta);
        assert_eq!(smallest(&[7; 100], 8), Encoding::Rle);
        assert!(Integers::new(&[], 8, false).is_none());
    }

    #[test]
    fn runs_of_eight_are_runs_and_shorter_ones_literals() {
        for (length, expected) in [(7, 0), (8, 8)] {
            let words = [vec![1; length], vec![2]].concat();
            let mut in_runs = 0;
            for_each_run(&words, |_, run| in_runs += run.len());
            assert_eq!(in_runs, expected);
        }
    }
}
