//! URLs as users write them, and without their secrets.

use std::sync::LazyLock;

use regex::Regex;
use url::Url;

/// Returns `true` if a text begins like the URL of an object: `s3://`, `https://`. Paths of the
/// file system, among them `file://` and Windows drives, are not such URLs.
pub fn is_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else {
        return false;
    };
    let mut characters = scheme.chars();
    let starts = characters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let is_scheme = characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    starts && is_scheme && scheme.len() > 1 && !scheme.eq_ignore_ascii_case("file")
}

/// Returns a URL without its user name, password, query and fragment, which may be secrets.
pub fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    if credentials(url).is_some() {
        // Fails only for URLs without a host, which have no user either.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
    }
    shown.set_query(None);
    shown.set_fragment(None);
    // The text keeps characters that the parser would encode out of the user's sight.
    shown.to_string()
}

/// Returns the user name and the password of a URL. In the URLs of Azure, the part before the `@`
/// is a container instead.
pub fn credentials(url: &Url) -> Option<(&str, Option<&str>)> {
    let is_container = matches!(url.scheme(), "az" | "abfs" | "abfss" | "adl" | "azure");
    let has_user = !url.username().is_empty() || url.password().is_some();
    (has_user && !is_container).then(|| (url.username(), url.password()))
}

/// Removes user names, passwords and queries from all URLs in a message.
pub fn without_secrets(message: &str) -> String {
    // The patterns are constants, which the tests compile.
    static USER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]*@").ok());
    static QUERY: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"([A-Za-z][A-Za-z0-9+.-]*://[^\s?"')]*)\?[^\s"')]*"#).ok());
    let mut message = message.to_string();
    for pattern in [&USER, &QUERY] {
        message = match pattern.as_ref() {
            Some(pattern) => pattern.replace_all(&message, "$1").into_owned(),
            None => String::from("(hidden)"),
        };
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths() {
        for yes in [
            "s3://b/x",
            "https://h/x.tet",
            "abfss://c@a/x",
            "memory:///x",
        ] {
            assert!(is_url(yes), "{yes}");
        }
        for no in [
            "a.tet",
            "/a/b",
            "file:///a",
            "FILE:///a",
            "C://x",
            "://x",
            "a b://c",
            "s3:/b",
        ] {
            assert!(!is_url(no), "{no}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (url, expected) in [
            ("https://u:p@h:8/a/b.tet?sig=x#f", "https://h:8/a/b.tet"),
            ("s3://bucket/a", "s3://bucket/a"),
            (
                "abfss://c@account.dfs.core.windows.net/a",
                "abfss://c@account.dfs.core.windows.net/a",
            ),
            ("https://token@h/a", "https://h/a"),
        ] {
            assert_eq!(redacted(&Url::parse(url).unwrap()), expected);
        }
        assert_eq!(
            without_secrets("GET https://u:p@h/a?X-Amz-Signature=1&b=2 in 1s (s3://b/x?y) - 503?"),
            "GET https://h/a in 1s (s3://b/x) - 503?"
        );
    }
}
