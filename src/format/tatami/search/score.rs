//! BM25 without length normalisation, in the arithmetic of the reference implementation.

/// The saturation of term frequencies.
const K1: f32 = 1.2;

/// Frequencies up to this one have scores that ascend also after rounding: neighbouring exact scores
/// differ by a factor of about `1 + 1.2 / f²`, and three roundings change a score by less than `2⁻²²`.
const MAX_EXACT_FREQUENCY: u32 = 1000;

/// Returns the weight of a term that `document_frequency` of `documents` documents contain. Deleted
/// documents count in both.
pub fn inverse_document_frequency(documents: u64, document_frequency: u64) -> f32 {
    let (n, df) = (documents as f64, document_frequency as f64);
    (1.0 + (n - df + 0.5) / (df + 0.5)).ln() as f32
}

/// Returns the score of a term with weight `idf` in a document that contains it `frequency` times. A
/// document's score is the sum over the words of the query, in their order.
pub fn term_score(idf: f32, frequency: u32) -> f32 {
    let frequency = frequency as f32;
    idf * frequency * (K1 + 1.0) / (K1 + frequency)
}

/// Returns an upper bound of the scores of all frequencies up to `frequency`.
pub fn score_bound(idf: f32, frequency: u32) -> f32 {
    let score = term_score(idf, frequency);
    match frequency <= MAX_EXACT_FREQUENCY {
        true => score,
        // Well above the error of the roundings.
        false => score * (1.0 + 16.0 * f32::EPSILON),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_bounds() {
        for idf in [1e-7, 0.0015, 0.1, 0.69, 1.0, 3.3, 7.77, 20.0] {
            let mut most = 0f32;
            for frequency in (0..200_000).chain((200_000..u32::MAX - 99_991).step_by(99_991)) {
                most = most.max(term_score(idf, frequency));
                assert!(score_bound(idf, frequency) >= most, "{idf} {frequency}");
            }
        }
    }
}
