//! The arguments of meta-commands.

use std::path::PathBuf;

/// A text, which may be in quotes.
pub fn text(word: &str) -> String {
    let word = word.trim();
    for quote in ['\'', '"'] {
        let inner = word.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(quote))
            // The quotes of a qualified name are parts of its names.
            && (quote == '\'' || !inner.contains('"'))
        {
            return match quote {
                '\'' => inner.replace("''", "'"),
                _ => inner.to_owned(),
            };
        }
    }
    word.to_owned()
}

/// A path, which may be in quotes, and may begin in the home folder.
pub fn path(word: &str) -> PathBuf {
    let text = text(word);
    let home = text.strip_prefix("~/").zip(etcetera::home_dir().ok());
    match home {
        Some((rest, home)) => home.join(rest),
        None => PathBuf::from(text),
    }
}

/// `on` or `off`, by any of their names.
pub fn on_or_off(word: &str) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{word}' is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_taken_off() {
        assert_eq!(text(" 'it''s' "), "it's");
        assert_eq!(text("\"a b\""), "a b");
        assert_eq!(text("\"a\".\"b\""), "\"a\".\"b\"");
        assert_eq!(text("'"), "'");
        assert_eq!(path("a'b"), PathBuf::from("a'b"));
        assert!(path("~/x").is_absolute());
    }
}
