//! Random numbers that are reproducible on every machine.

/// The splitmix64 generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a random subset of the items in order, at least one.
    pub(crate) fn some<T: Clone>(&mut self, items: &[T], percent: usize) -> Vec<T> {
        let mut chosen: Vec<T> = items
            .iter()
            .filter(|_| self.chance(percent))
            .cloned()
            .collect();
        if chosen.is_empty() {
            chosen.push(self.pick(items).clone());
        }
        chosen
    }
}
