//! Detects what a terminal can draw.

use super::{Characters, Colours};

impl Colours {
    /// Detects colours from environment variables (`TERM`, `COLORTERM` and `WT_SESSION`), read with
    /// `variable`. The output is assumed to be a terminal.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).unwrap_or_default();
        let terminal = variable("TERM");
        if terminal == "dumb" {
            return Self::None;
        }
        let is_windows_terminal = !variable("WT_SESSION").is_empty();
        if matches!(variable("COLORTERM").as_str(), "truecolor" | "24bit")
            || terminal.ends_with("-direct")
            || is_windows_terminal
        {
            Self::TrueColour
        } else if terminal.contains("256color") {
            Self::Ansi256
        } else {
            Self::Ansi16
        }
    }
}

impl Characters {
    /// Detects characters from environment variables (`LC_ALL`, `LC_CTYPE`, `LANG` and `TERM`),
    /// read with `variable`.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
        // The first of these variables that is set decides.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(set)
            .unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let is_unicode = locale.contains("utf-8")
            || locale.contains("utf8")
            || cfg!(any(windows, target_vendor = "apple"));
        let terminal = variable("TERM").unwrap_or_default();
        if !is_unicode || terminal == "dumb" {
            return Self::Ascii;
        }
        // The Linux console has a font of 512 characters, without Braille.
        if terminal == "linux" {
            Self::Blocks
        } else {
            Self::Braille
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_tell_what_they_can() {
        let of = |variables: &[(&str, &str)]| {
            let variables: Vec<(String, String)> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let variable = move |name: &str| {
                variables
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.clone())
            };
            (Colours::of(&variable), Characters::of(&variable))
        };
        let utf8 = ("LANG", "en_GB.UTF-8");
        assert_eq!(
            of(&[("TERM", "xterm-256color"), utf8]),
            (Colours::Ansi256, Characters::Braille)
        );
        assert_eq!(
            of(&[("COLORTERM", "truecolor"), utf8]).0,
            Colours::TrueColour
        );
        assert_eq!(
            of(&[("TERM", "linux"), utf8]),
            (Colours::Ansi16, Characters::Blocks)
        );
        assert_eq!(
            of(&[("TERM", "dumb"), utf8]),
            (Colours::None, Characters::Ascii)
        );
        if cfg!(not(any(windows, target_vendor = "apple"))) {
            assert_eq!(of(&[("LC_ALL", "C"), utf8]).1, Characters::Ascii);
        }
    }
}
