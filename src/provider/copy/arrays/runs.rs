//! The coordinate codes of rows, as runs of neighbouring cells.

use std::ops::Range;

/// The codes of rows. Consecutive rows form a run if their codes along the last dimension follow each other and
/// all other codes are the same, as in rows that come in the order of an array's cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    dimensions: usize,
    /// For each run, the codes of its first row and its number of rows.
    words: Vec<u32>,
}

impl Runs {
    /// Creates the runs of no rows.
    pub fn none(dimensions: usize) -> Self {
        let words = Vec::new();
        Self { dimensions, words }
    }

    /// Creates runs from the words that [`Self::words`] returned.
    pub fn from_words(dimensions: usize, words: Vec<u32>) -> Self {
        Self { dimensions, words }
    }

    /// Finds the runs of rows, given their codes along each dimension. There are fewer than 2^32 rows.
    pub fn of(codes: &[Vec<u32>]) -> Self {
        let mut runs = Self::none(codes.len());
        let Some((last, others)) = codes.split_last() else {
            return runs;
        };
        let mut starts = vec![true; last.len()];
        if let [_, starts @ ..] = starts.as_mut_slice() {
            for (start, (code, next)) in starts.iter_mut().zip(last.iter().zip(&last[1..])) {
                *start = code.wrapping_add(1) != *next;
            }
            for codes in others {
                for (start, (code, next)) in starts.iter_mut().zip(codes.iter().zip(&codes[1..])) {
                    *start |= code != next;
                }
            }
        }
        let mut starts = (0..last.len()).filter(|row| starts[*row]).peekable();
        while let Some(start) = starts.next() {
            let end = starts.peek().copied().unwrap_or(last.len());
            runs.words.extend(codes.iter().map(|codes| codes[start]));
            runs.words.push((end - start) as u32);
        }
        runs
    }

    /// Appends a run.
    pub fn push(&mut self, first: &[u32], rows: usize) {
        self.words.extend_from_slice(first);
        self.words.push(rows as u32);
    }

    /// Appends the runs of further rows.
    pub fn append(&mut self, other: &Self) {
        self.words.extend_from_slice(&other.words);
    }

    /// Returns the codes and lengths of all runs.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the codes of the first row of each run, and its range of rows.
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], Range<usize>)> {
        let mut row = 0;
        let runs = self.words.chunks_exact(self.dimensions + 1);
        runs.map(move |run| {
            let (first, length) = run.split_at(self.dimensions);
            let start = row;
            row += length[0] as usize;
            (first, start..row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_neighbouring_cells_are_one_run() {
        let codes = [
            vec![0, 0, 0, 0, 1, 1, 1, 1, 1],
            vec![0, 1, 2, 0, 1, 2, 4, 4, 3],
        ];
        let mut runs = Runs::of(&codes);
        let expected: [(&[u32], _); 6] = [
            (&[0, 0], 0..3),
            (&[0, 0], 3..4),
            (&[1, 1], 4..6),
            (&[1, 4], 6..7),
            (&[1, 4], 7..8),
            (&[1, 3], 8..9),
        ];
        assert!(runs.iter().eq(expected));
        runs.append(&Runs::of(&[vec![7, 7], vec![5, 6]]));
        runs.push(&[8, 1], 3);
        assert!(
            runs.iter()
                .skip(6)
                .eq([(&[7, 5][..], 9..11), (&[8, 1][..], 11..14)])
        );
        assert_eq!(Runs::from_words(2, runs.words().to_vec()), runs);
        assert_eq!(Runs::of(&[Vec::new()]).iter().count(), 0);
    }
}
