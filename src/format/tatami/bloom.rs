//! Bloom filters of column chunks.

use crate::error::Result;
use crate::format::fault::Fault;
use crate::format::tatami::layout::bounds::Scalar;
use crate::format::tatami::layout::footer::BLOOM_KIND;
use crate::format::tatami::layout::types::ColumnType;
use crate::format::tatami::ranges::{IndexRecord, RangeBuffer};

/// The bytes before the bits of a filter: the number of probes and the number of bits.
pub const BLOOM_HEADER_BYTES: u64 = 8;
/// The maximum number of probes per value.
pub const MAX_BLOOM_PROBES: u32 = 64;

/// Returns the hash of a value: FNV-1a of the scalar's bytes.
pub fn bloom_hash(scalar: &[u8]) -> u32 {
    scalar.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the indices of the bits to test for a value with this hash. The filter has `bits` bits, a power
/// of two. Each probe adds the rotated hash once more to the hash.
pub fn bloom_bits(hash: u32, probes: u32, bits: u32) -> impl Iterator<Item = u32> {
    let step = hash.rotate_right(17);
    (0..probes).map(move |probe| hash.wrapping_add(probe.wrapping_mul(step)) & bits.wrapping_sub(1))
}

/// A Bloom filter. Its bits are read from the file when they are needed.
#[derive(Debug)]
pub struct BloomFilter {
    record: IndexRecord,
    probes: u32,
    bits: u32,
}

impl BloomFilter {
    /// Reads and checks a filter.
    pub(crate) fn open(record: IndexRecord, kind: u8) -> Result<Self> {
        let mut buffer = RangeBuffer::default();
        let payload = record.read_checked(&mut buffer)?;
        let word = |at: usize| {
            let bytes = payload.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let (probes, bits) = (word(0), word(4));
        let bytes = u64::from(bits.div_ceil(8));
        let fault = if kind != BLOOM_KIND {
            Fault::new(
                "kind of the filter",
                kind,
                format!("{BLOOM_KIND}, a Bloom filter"),
            )
        } else if probes == 0 || probes > MAX_BLOOM_PROBES {
            Fault::new(
                "number of probes",
                probes,
                format!("1 to {MAX_BLOOM_PROBES}"),
            )
        } else if !bits.is_power_of_two() || record.length() != BLOOM_HEADER_BYTES + bytes {
            let expected = format!("a power of two that {} bytes hold", record.length());
            Fault::new("number of bits", bits, expected)
        } else {
            return Ok(Self {
                record,
                probes,
                bits,
            });
        };
        Err(record.error(fault))
    }

    /// The number of bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of probes per value.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Returns `false` if no value has exactly these scalar bytes.
    ///
    /// # Errors
    /// Fails if the filter cannot be read.
    pub fn may_contain(&self, scalar: &[u8]) -> Result<bool> {
        let mut buffer = RangeBuffer::default();
        for bit in bloom_bits(bloom_hash(scalar), self.probes, self.bits) {
            let at = BLOOM_HEADER_BYTES + u64::from(bit >> 3);
            let byte = self.record.read(at..at + 1, &mut buffer)?;
            if byte.first().is_none_or(|byte| byte >> (bit & 7) & 1 == 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `false` if no value of a column of this type is equal to `value`. Filters distinguish the
    /// two zeros and the bit patterns of NaN; this function does not.
    ///
    /// # Errors
    /// As [`Self::may_contain`].
    pub fn may_equal(&self, column_type: ColumnType, value: &Scalar<'_>) -> Result<bool> {
        let other_zero = match value {
            value if value.is_nan() => return Ok(true),
            Scalar::Float32(zero @ 0.0) => Scalar::Float32(-zero).encode(column_type),
            Scalar::Float64(zero @ 0.0) => Scalar::Float64(-zero).encode(column_type),
            _ => None,
        };
        // A scalar of another type might be equal after a cast, so the filter cannot rule it out.
        let Some(scalar) = value.encode(column_type) else {
            return Ok(true);
        };
        if self.may_contain(&scalar)? {
            return Ok(true);
        }
        other_zero.map_or(Ok(false), |zero| self.may_contain(&zero))
    }
}
