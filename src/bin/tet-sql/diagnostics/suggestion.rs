//! Finds the name that was probably meant by a misspelt one.

/// Returns the candidate most similar to a word, ignoring case, or `None` if none is similar
/// enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    // Allow one edit per three characters, but at least one.
    let most = (length / 3).max(1);
    let distances = candidates.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        if lower.chars().count().abs_diff(length) > most {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&word, &lower);
        (distance <= most).then_some((distance, candidate))
    });
    let nearest = distances.min_by_key(|(distance, _)| *distance)?;
    Some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_forgiven() {
        let names = ["KSEA", "KPDX", "EGLL"];
        assert_eq!(nearest("KSEE", names), Some("KSEA"));
        assert_eq!(nearest("ksae", names), Some("KSEA"));
        assert_eq!(nearest("LFPG", names), None);
        assert_eq!(
            nearest("temprature", ["humidity", "temperature"]),
            Some("temperature")
        );
        assert_eq!(nearest("", ["a"]), Some("a"));
    }
}
