//! `tet-sql` at a terminal: keys typed and text shown.

use std::path::Path;
use std::process::Command;

use rexpect::reader::Options;
use rexpect::session::{PtySession, spawn_with_options};

const WEATHER: &str = "tests/data/weather_small.tet";
const PROMPT: &str = "tet> ";
/// In milliseconds, ample for a busy machine.
const TIMEOUT: u64 = 60_000;
const CONTROL_D: &str = "\u{4}";

struct Terminal {
    session: PtySession,
    _home: tempfile::TempDir,
}

impl Terminal {
    fn open(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::open_at(home, arguments, environment)
    }

    fn open_at(home: tempfile::TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
        command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("HOME", home.path())
            .env("TERM", "xterm-256color")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env("PAGER", "")
            .envs(environment.iter().copied());
        let options = Options::new()
            .timeout_ms(Some(TIMEOUT))
            .strip_ansi_escape_codes(true);
        let mut terminal = Self {
            session: spawn_with_options(command, options).unwrap(),
            _home: home,
        };
        terminal.sees(PROMPT);
        terminal
    }

    /// Waits for a text and returns the output before it.
    fn sees(&mut self, text: &str) -> String {
        match self.session.exp_string(text) {
            // `rexpect` reads each byte as one character.
            Ok(before) => {
                let bytes = before.chars().map(|byte| byte as u8).collect();
                String::from_utf8(bytes).unwrap()
            }
            Err(error) => panic!("the terminal did not show {text:?}: {error}"),
        }
    }

    fn types(&mut self, text: &str) {
        self.session.send(text).unwrap();
        self.session.flush().unwrap();
    }

    /// Enters a line and returns the output up to the next prompt.
    fn answers(&mut self, line: &str) -> String {
        self.types(&format!("{line}\r"));
        // Skip the echo of the line, which may be redrawn as it is typed.
        let last = line.chars().last().unwrap().to_string();
        self.sees(&last);
        self.sees("\r\n");
        self.sees(PROMPT)
    }

    fn leaves(mut self) {
        self.types(CONTROL_D);
        self.session.exp_eof().unwrap();
    }
}

#[test]
fn a_result_is_a_box_with_a_line_about_it() {
    let mut terminal = Terminal::open(&[WEATHER], &[]);
    let shown = terminal
        .answers("SELECT lat, count(*) AS n FROM temperature WHERE lat = -45 GROUP BY lat;");
    assert!(shown.contains("│ -45 │ 960 │"), "{shown}");
    assert!(shown.contains("1 row in "), "{shown}");
    assert!(shown.contains(" chunks read"), "{shown}");
    let shown = terminal.answers("SELECT * FROM temperature;");
    assert!(shown.contains("9,600 rows (40 shown) in "), "{shown}");
    terminal.answers(".timer off");
    let shown = terminal.answers("SELECT value FROM range(100) WHERE value % 2 = 0;");
    assert!(shown.contains("50 rows (40 shown)"), "{shown}");
    assert!(
        shown.contains("│ 38    │\r\n│ ⋮     │\r\n│ 60    │")
            || shown.contains("│    38 │\r\n│     ⋮ │\r\n│    60 │"),
        "{shown}"
    );
    terminal.leaves();
}

#[test]
fn statements_have_several_lines() {
    let mut terminal = Terminal::open(&[WEATHER], &[]);
    terminal.types("SELECT 'a\r");
    terminal.sees("'> ");
    terminal.types("b' AS x, (\r");
    terminal.sees("(> ");
    terminal.types("1) AS y\r");
    terminal.sees("-> ");
    let shown = terminal.answers(";");
    assert!(shown.contains("a\\nb"), "{shown}");
    // Ctrl-C discards the unfinished statement.
    terminal.types("SELECT (\r");
    terminal.sees("(> ");
    terminal.types("\u{3}");
    terminal.sees(PROMPT);
    let shown = terminal.answers("SELECT 42 AS answer;");
    assert!(shown.contains("42"), "{shown}");
    terminal.leaves();
}

#[test]
fn statements_that_arrive_together_all_run() {
    let mut terminal = Terminal::open(&[], &[]);
    terminal.types("SELECT 11 AS a;\rSELECT\r22 AS b;\r.timer off\rSELECT 33 AS c;\r");
    for result in ["1 row in", "1 row in", "timer is off"] {
        terminal.sees(result);
    }
    // The line below the table is missing without the timer.
    terminal.sees("SELECT 33 AS c;");
    terminal.sees(PROMPT);
    terminal.leaves();
}

#[test]
fn words_are_completed() {
    let mut terminal = Terminal::open(&[WEATHER], &[]);
    for (typed, completed) in [
        ("SELECT count(*) FROM temp\t", "temperature"),
        (";\r", "9600"),
        ("SELECT count(*) FROM pressure WHERE stat\t", "station"),
        (" = 'KS\t", "'KSEA'"),
        (";\r", "48"),
        ("SET tet.nan\t", "tet.nan_as_null"),
        (" = true;\r", "done"),
        (
            "SELECT * FROM 'tests/data/weather_small_v\t",
            "weather_small_v1footer.tet'",
        ),
        ("\u{3}", PROMPT),
        ("SELECT date_tr\t", "date_trunc("),
        ("\u{3}", PROMPT),
        (".tab\t", ".tables"),
        ("\r", "pressure"),
    ] {
        terminal.types(typed);
        terminal.sees(completed);
    }
    terminal.sees(PROMPT);
    terminal.leaves();
}

#[test]
fn a_query_is_interrupted_and_the_session_goes_on() {
    let mut terminal = Terminal::open(&[], &[]);
    terminal.types("CREATE VIEW kept AS SELECT 7 AS x;\r");
    terminal.sees("done");
    terminal.sees(PROMPT);
    terminal.types(
        "SELECT count(*) FROM range(1000000) a JOIN range(1000000) b ON a.value < b.value;\r",
    );
    // The progress bar appears because the query takes long.
    terminal.sees("2 s");
    terminal.types("\u{3}");
    terminal.sees("cancelled");
    terminal.sees(PROMPT);
    let shown = terminal.answers("SELECT x FROM kept;");
    assert!(shown.contains('7'), "{shown}");
    terminal.leaves();
}

#[test]
fn tall_results_use_the_pager() {
    // A stand-in for a pager, which marks the first three lines.
    let pager = [("PAGER", "sed -u -e 's/^/paged: /' -e 3q")];
    let mut terminal = Terminal::open(&[], &pager);
    let shown = terminal.answers("SELECT 1 AS x;");
    assert!(!shown.contains("paged"), "{shown}");
    terminal.types(".maxrows 0\r");
    terminal.sees(PROMPT);
    let shown = terminal.answers("SELECT value FROM range(100000);");
    assert!(shown.contains("paged: ┌"), "{shown}");
    terminal.types("\\pset pager off\r");
    terminal.sees(PROMPT);
    let shown = terminal.answers("SELECT value FROM range(100);");
    assert!(!shown.contains("paged"), "{shown}");
    terminal.leaves();
}

#[test]
fn read_only_sessions_set_lesssecure() {
    let pager = [
        ("PAGER", "sed -u -e \"s/^/secure=$LESSSECURE: /\" -e 3q"),
        ("LESSSECURE", ""),
    ];
    for (arguments, expected) in [
        (&[][..], "secure=: ┌"),
        (&["--read-only"][..], "secure=1: ┌"),
    ] {
        let mut terminal = Terminal::open(arguments, &pager);
        terminal.answers(".maxrows 0");
        let shown = terminal.answers("SELECT value FROM range(100000);");
        assert!(shown.contains(expected), "{shown}");
        terminal.leaves();
    }
}

#[test]
fn history_is_saved_and_suggested() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let state = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let mut terminal = Terminal::open(&[], &state);
    terminal.answers("SELECT 12345 AS remembered;");
    terminal.leaves();
    let mut terminal = Terminal::open_at(home, &[], &state);
    terminal.types("SELECT 123");
    // The rest of the line is suggested, and the right arrow key accepts it.
    terminal.sees("45 AS remembered;");
    terminal.types("\u{1b}[C\r");
    let shown = terminal.sees("1 row in");
    assert!(shown.contains("12345 │"), "{shown}");
    terminal.sees(PROMPT);
    terminal.leaves();
}

#[test]
fn edit_opens_the_last_statement() {
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/1 AS x/2 AS y/' \"$1\"\n").unwrap();
    make_executable(&editor);
    let mut terminal = Terminal::open(&[], &[("EDITOR", editor.to_str().unwrap()), ("VISUAL", "")]);
    terminal.answers("SELECT 1 AS x;");
    let shown = terminal.answers("\\e");
    assert!(
        shown.contains("SELECT 2 AS y") && shown.contains("│ 2 │"),
        "{shown}"
    );
    terminal.leaves();
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a command at a terminal and returns its output, control characters included.
fn written(arguments: &[&str], program: &str) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("HOME", "/nowhere")
        .env("TERM", "xterm-256color")
        .env("PAGER", "");
    let options = Options::new().timeout_ms(Some(TIMEOUT));
    let mut session = spawn_with_options(command, options).unwrap();
    // `rexpect` reads each byte as one character.
    let text = session.exp_eof().unwrap();
    let bytes = text.chars().map(|byte| byte as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

#[test]
fn control_characters_from_files_are_escaped() {
    use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.tet");
    // An escape sequence that would set the window's title.
    let hostile = |text: &str| format!("{text}\u{1b}]0;owned\u{7}\u{202e}");
    let spec = DatasetSpec::new(hostile("name"), Dtype::U8, &[2], &[2])
        .with_dim_names([hostile("dim")])
        .with_labels(&hostile("dim"), [hostile("label"), "plain".to_owned()])
        .with_attribute(&hostile("key"), &hostile("value"));
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &[1, 2]).unwrap();
    writer.finish().unwrap();
    let file = path.to_str().unwrap();
    let query = format!("SELECT * FROM '{file}'");
    let summarize = format!("SUMMARIZE '{file}'");
    let (shell, tool) = (env!("CARGO_BIN_EXE_tet-sql"), env!("CARGO_BIN_EXE_tet"));
    let mut commands = vec![
        (shell, vec![file, "-c", ".schema"]),
        (shell, vec![file, "-c", ".tables"]),
        (shell, vec![file, "-c", "\\l"]),
        (shell, vec![file, "-c", &summarize]),
        (tool, vec!["info", "--all", file]),
        (tool, vec!["info", "--all", "--json", file]),
        (tool, vec!["verify", file]),
    ];
    let explain = format!("EXPLAIN {query}");
    let formats = [
        "box", "table", "csv", "tsv", "json", "ndjson", "markdown", "line", "html", "latex",
    ];
    for format in formats {
        commands.push((shell, vec!["--format", format, "-c", &query]));
        commands.push((shell, vec!["--format", format, "-c", &explain]));
    }
    for (program, arguments) in commands {
        let text = written(&arguments, program);
        let is_told = text.contains("\u{1b}]") || text.contains(['\u{7}', '\u{202e}']);
        assert!(!is_told, "{arguments:?}: {text:?}");
        let has_text = !arguments.contains(&"\\l") && arguments[0] != "verify";
        let is_shown = text.contains("\\u{1b}") || text.contains("\\u001b") || !has_text;
        assert!(is_shown, "{arguments:?}: {text:?}");
    }
}

#[test]
fn plans_are_wrapped() {
    let mut terminal = Terminal::open(&[WEATHER], &[]);
    let shown = terminal
        .answers("EXPLAIN SELECT lat, avg(value) FROM temperature WHERE lon > 100 GROUP BY lat;");
    assert!(
        shown.contains("reads ") && shown.contains("physical plan"),
        "{shown}"
    );
    for line in shown.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
    assert!(!shown.contains("\\n") && !shown.contains('│'), "{shown}");
    terminal.leaves();
}

#[test]
fn descriptions_and_excerpts_fit_the_terminal() {
    use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.tet");
    let history = "cut, averaged and written again. ".repeat(20);
    let spec = DatasetSpec::new("a", Dtype::U8, &[2], &[2])
        .with_dim_names(["x"])
        .with_attribute("history", history.trim());
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.write_dataset(0, &[1, 2]).unwrap();
    writer.finish().unwrap();
    let file = path.to_str().unwrap();
    let columns = vec!["value"; 60].join(", ");
    let wrong = format!("SELECT {columns}, nope, {columns} FROM a");
    let (shell, tool) = (env!("CARGO_BIN_EXE_tet-sql"), env!("CARGO_BIN_EXE_tet"));
    for width in [80, 100, 200] {
        for (program, arguments, expected) in [
            (shell, vec![file, "-c", ".schema"], "averaged"),
            (tool, vec!["info", "--metadata", file], "averaged"),
            (shell, vec![file, "-c", &wrong], "nope, "),
        ] {
            let resized = format!("stty cols {width} rows 24 && exec \"$0\" \"$@\"");
            let mut all = vec!["-c", &resized, program];
            all.extend(arguments);
            let text = written(&all, "sh");
            assert!(text.contains(expected), "{text}");
            // The line of the message itself, and the path, have no spaces to break at.
            let lines = text.lines();
            let lines = lines.filter(|line| !line.contains("error:") && !line.contains(file));
            let longest = lines.map(|line| line.trim_end().chars().count()).max();
            let expected = width - 20..=width;
            assert!(
                longest.is_some_and(|longest| expected.contains(&longest)),
                "{width}: {text}"
            );
        }
    }
    // Pipes get whole lines.
    let output = Command::new(shell).args([file, "-c", ".schema"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains(history.trim()), "{text}");
}

#[test]
fn plot_draws_the_requested_kind() {
    let mut terminal = Terminal::open(&[WEATHER], &[]);
    terminal.answers("SELECT lat, avg(value) AS mean FROM temperature GROUP BY lat;");
    for kind in ["lines", "scatter", "hist", "bars"] {
        let shown = terminal.answers(&format!(".plot {kind}"));
        assert!(!shown.contains("error"), "{kind}: {shown}");
        assert!(shown.lines().count() > 8, "{kind}: {shown}");
    }
    let shown = terminal.answers(".plot map");
    assert!(shown.contains("a map needs two"), "{shown}");
    terminal.leaves();
}
