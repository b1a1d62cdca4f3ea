//! Coordinates of cells as byte strings, and a hash table of them.

use std::hash::{BuildHasher, RandomState};

use crate::format::tiledb::buffers::TileBuffers;
use crate::format::tiledb::fragment::Field;
use crate::format::tiledb::schema::Representation;

/// The coordinates of the cells of a tile as byte strings, which are equal for equal coordinates.
#[derive(Debug)]
pub(crate) struct TileKeys {
    bytes: Vec<u8>,
    /// The end of each cell's bytes.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    /// The timestamps of cells, if they have their own.
    pub timestamps: Option<Vec<u64>>,
}

/// The seed of hashes: bytes in a file cannot be chosen so that their hashes collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(u64);

impl Seed {
    /// Returns a random seed.
    pub fn random() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    /// Returns the hash of a key, by multiplication of its words.
    fn hash(self, key: &[u8]) -> u64 {
        let mix = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
            (product as u64) ^ (product >> 64) as u64
        };
        let (words, rest) = key.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(self.0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(mix(hash, u64::from_le_bytes(last)), key.len() as u64)
    }
}

impl TileKeys {
    /// Returns the keys of cells, given their coordinates by dimension.
    pub fn new(
        dimensions: &mut [(Field, TileBuffers)],
        timestamps: Option<Vec<u64>>,
        seed: Seed,
    ) -> Self {
        for (field, buffers) in dimensions.iter_mut() {
            if field.datatype.representation() == Representation::Float {
                replace_negative_zeros(field.datatype.size(), &mut buffers.values);
            }
        }
        let cells = dimensions.first().map_or(0, |(_, buffers)| buffers.cells);
        let mut keys = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(cells),
            hashes: Vec::with_capacity(cells),
            timestamps,
        };
        for cell in 0..cells {
            let start = keys.bytes.len();
            for (field, buffers) in dimensions.iter() {
                let coordinate = buffers.cell(cell, field.cell_values, field.datatype.size());
                if field.cell_values.is_variable() {
                    let length = coordinate.len() as u64;
                    keys.bytes.extend_from_slice(&length.to_le_bytes());
                }
                keys.bytes.extend_from_slice(coordinate);
            }
            keys.ends.push(keys.bytes.len());
            keys.hashes.push(seed.hash(&keys.bytes[start..]));
        }
        keys
    }

    /// The size in memory in bytes, about.
    pub fn bytes(&self) -> usize {
        let of_cell = size_of::<usize>() + 2 * size_of::<u64>();
        size_of::<Self>() + self.bytes.len() + self.len() * of_cell
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn key(&self, cell: usize) -> &[u8] {
        let start = match cell {
            0 => 0,
            cell => self.ends[cell - 1],
        };
        &self.bytes[start..self.ends[cell]]
    }
}

/// Makes zeros of both signs equal as bytes, as they are as numbers.
fn replace_negative_zeros(size: usize, values: &mut [u8]) {
    for value in values.chunks_exact_mut(size) {
        if let Some((0x80, rest)) = value.split_last()
            && rest.iter().all(|byte| *byte == 0)
        {
            value.fill(0);
        }
    }
}

/// A hash table of the keys of a tile.
#[derive(Debug)]
pub(crate) struct KeyTable<'a> {
    keys: &'a TileKeys,
    /// The first cell with each key, at the place of its hash or the next free one.
    slots: Vec<u32>,
    /// For each cell, the first cell with the same key.
    pub first: Vec<u32>,
}

/// Marks a free slot. Tiles have fewer cells.
const FREE: u32 = u32::MAX;

impl<'a> KeyTable<'a> {
    /// Returns the table of all cells of a tile.
    pub fn new(keys: &'a TileKeys) -> Self {
        let mut table = Self {
            slots: vec![FREE; (2 * keys.len()).next_power_of_two()],
            first: Vec::with_capacity(keys.len()),
            keys,
        };
        for cell in 0..keys.len() {
            let slot = table.slot(keys, cell);
            if table.slots[slot] == FREE {
                table.slots[slot] = cell as u32;
            }
            table.first.push(table.slots[slot]);
        }
        table
    }

    /// Returns the slot with the key of a cell of some tile, or the free slot for it.
    fn slot(&self, others: &TileKeys, cell: usize) -> usize {
        let (hash, mask) = (others.hashes[cell], self.slots.len() - 1);
        let mut slot = hash as usize & mask;
        // At least half of the slots are free.
        loop {
            let found = self.slots[slot] as usize;
            let is_same = |found: usize| {
                self.keys.hashes[found] == hash && self.keys.key(found) == others.key(cell)
            };
            if self.slots[slot] == FREE || is_same(found) {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the first cell of the table's tile with the key of a cell of another tile.
    pub fn find(&self, others: &TileKeys, cell: usize) -> Option<usize> {
        let found = self.slots[self.slot(others, cell)];
        (found != FREE).then_some(found as usize)
    }
}
