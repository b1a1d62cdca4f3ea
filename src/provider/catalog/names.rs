//! Finds tables by names that SQL has folded to lower case.

/// Returns the index of the only name that matches case-insensitively; two of the names if several
/// match.
pub(crate) fn ignoring_case<'a>(
    names: impl Iterator<Item = &'a str>,
    wanted: &str,
) -> Result<Option<usize>, [&'a str; 2]> {
    let wanted = wanted.to_lowercase();
    let mut matching = names
        .enumerate()
        .filter(|(_, name)| name.to_lowercase() == wanted);
    match (matching.next(), matching.next()) {
        (Some((_, first)), Some((_, second))) => Err([first, second]),
        (first, _) => Ok(first.map(|(position, _)| position)),
    }
}
