//! Compares the output shown in a page with the output of the program.

/// A line that stands for any number of lines.
const ELISION: &str = "...";
/// The prefix of the program's temporary directories, followed by six letters.
const TEMPORARY: &str = "tet-sql-";
const TEMPORARY_LETTERS: usize = 6;
/// Units of the times in EXPLAIN ANALYZE, the longest first.
const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];

/// Returns `true` if the page shows what the program wrote, apart from temporary directories and
/// times. Times and omitted lines change column widths, so runs of padding are then compared as one
/// character.
pub fn is_shown(shown: &str, written: &str) -> bool {
    let is_loose = has_times(written) || shown.lines().any(|line| line == ELISION);
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| normalized(line, is_loose))
            .collect()
    };
    matches(&lines(shown), &lines(written))
}

fn matches(shown: &[String], written: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return written.is_empty();
    };
    if first == ELISION {
        return (0..=written.len()).any(|skipped| matches(rest, &written[skipped..]));
    }
    written.first() == Some(first) && matches(rest, &written[1..])
}

fn normalized(line: &str, is_loose: bool) -> String {
    let line = without_seconds(&without_temporary_directories(line.trim_end()));
    if !is_loose {
        return line;
    }
    let mut settled = String::new();
    for character in without_times(&line).chars() {
        // Collapse padding, since column widths depend on their content.
        if !matches!(character, ' ' | '-') || !settled.ends_with(character) {
            settled.push(character);
        }
    }
    settled
}

/// Replaces the paths of temporary directories in a line by `(temporary)`.
fn without_temporary_directories(line: &str) -> String {
    let mut settled = String::new();
    let mut rest = line;
    while let Some(place) = rest.find(TEMPORARY) {
        let name = rest[place + TEMPORARY.len()..]
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric())
            .count();
        let end = place + TEMPORARY.len() + name;
        if name == TEMPORARY_LETTERS && rest[end..].starts_with('/') {
            // Replace the parent directories too.
            let start = rest[..place].rfind([' ', '\'', '"']).map_or(0, |at| at + 1);
            settled.push_str(&rest[..start]);
            settled.push_str("(temporary)");
        } else {
            settled.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    settled + rest
}

/// Removes the seconds that a command took from a line such as `2736 cells in 0.1 s`.
fn without_seconds(line: &str) -> String {
    let seconds = line
        .strip_suffix(" s")
        .and_then(|head| head.rsplit_once(" in "));
    match seconds {
        Some((head, number)) if number.parse::<f64>().is_ok() => format!("{head} in ? s"),
        _ => line.to_string(),
    }
}

fn has_times(text: &str) -> bool {
    text.lines().any(|line| without_times(line) != line)
}

/// Removes the times of metrics, such as `elapsed_compute=1.74ms`, from a line.
fn without_times(line: &str) -> String {
    let mut settled = String::new();
    let mut rest = line;
    while let Some(place) = rest.find('=') {
        let (head, tail) = rest.split_at(place + 1);
        settled.push_str(head);
        let number = tail
            .trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
        let unit = UNITS.iter().find(|unit| {
            let behind = number.strip_prefix(*unit);
            behind.is_some_and(|behind| behind.starts_with([',', ']']))
        });
        rest = match unit {
            Some(unit) if number.len() < tail.len() => {
                settled.push('?');
                &number[unit.len()..]
            }
            _ => tail,
        };
    }
    settled + rest
}

#[test]
fn comparison_ignores_only_times_and_temporary_directories() {
    assert!(is_shown("a\nb\n", "a\nb \n"));
    assert!(!is_shown("a\nb\n", "a\nc\n"));
    assert!(!is_shown("a\n", "a\nb\n"));
    assert!(is_shown("a\n...\nd\n", "a\nb\nc\nd\n"));
    assert!(!is_shown("a\n...\nc\n", "a\nb\nc\nd\n"));
    assert!(is_shown(
        "  file  /tmp/tet-sql-6eXoas/demo.tet (tet)\n",
        "  file  /var/tmp/tet-sql-AbCdEf/demo.tet (tet)\n"
    ));
    assert!(!is_shown(
        "file /tmp/tet-sql-6eXoas/a.tet",
        "file /tmp/tet-sql-6eXoas/b.tet"
    ));
    assert!(is_shown(
        "| rows=3, time=1.74ms, read=2] |\n+---+\n",
        "| rows=3, time=12ns, read=2]   |\n+-----+\n"
    ));
    assert!(is_shown("5 arrays in 0.1 s", "5 arrays in 12.0 s"));
    assert!(!is_shown("5 arrays in 0.1 s", "6 arrays in 0.1 s"));
    assert!(!is_shown("| rows=3, time=1ms] |", "| rows=4, time=1ms] |"));
}
