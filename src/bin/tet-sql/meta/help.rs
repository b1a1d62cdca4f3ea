//! The help texts of meta-commands.

/// A meta-command and its help text.
struct Command {
    /// All names of the command.
    names: &'static [&'static str],
    arguments: &'static str,
    /// A description of the command in a few words.
    summary: &'static str,
    /// Further details, or an empty text.
    more: &'static str,
}

/// A group of commands with a title.
type Group = (&'static str, &'static [Command]);

const GROUPS: [Group; 5] = [
    (
        "Data",
        &[
            Command {
                names: &[".tables", "\\dt"],
                arguments: "[PATTERN]",
                summary: "list the tables",
                more: "With dimensions, types, units and sizes. PATTERN is temp*, %temp% or, with a schema, demo.t*. \\d without a \
                       table lists them, too.",
            },
            Command {
                names: &[".schema", "\\d", "\\d+"],
                arguments: "[TABLE]",
                summary: "describe a table, or all",
                more: "TABLE may be a pattern, as for .tables. \\d without a table lists them. Shows dimensions with their coordinates, chunks, codecs, sizes, fill values and attributes.",
            },
            Command {
                names: &[".databases", "\\l", "\\l+"],
                arguments: "",
                summary: "list the open files",
                more: "Each is a schema. \\l+ and the table function tet_files() have more.",
            },
            Command {
                names: &["\\dn"],
                arguments: "[PATTERN]",
                summary: "list the schemas",
                more: "",
            },
            Command {
                names: &[".functions", "\\df"],
                arguments: "[PATTERN]",
                summary: "list the functions",
                more: "As SHOW FUNCTIONS and the table function tet_functions().",
            },
            Command {
                names: &[".chunks"],
                arguments: "TABLE",
                summary: "list the chunks of a table",
                more: "As the table function tet_chunks('TABLE'), which can be filtered and joined.",
            },
            Command {
                names: &[".open"],
                arguments: "FILE [AS NAME]",
                summary: "open another file",
                more: "The file becomes the schema NAME, by default named after the file.",
            },
            Command {
                names: &[".close"],
                arguments: "SCHEMA",
                summary: "close a file",
                more: "Running queries on the file finish first.",
            },
        ],
    ),
    (
        "Results",
        &[
            Command {
                names: &[".mode"],
                arguments: "[FORMAT]",
                summary: "choose the format",
                more: "box, table, csv, tsv, json, ndjson, markdown, line, html or latex. Without FORMAT, show the \
                       current one.",
            },
            Command {
                names: &["\\x"],
                arguments: "[on|off|auto]",
                summary: "show rows as one value per line",
                more: "auto does so where a row does not fit the terminal.",
            },
            Command {
                names: &[".maxrows"],
                arguments: "[N]",
                summary: "show at most N rows of a table (0: all)",
                more: "40 on a terminal, all elsewhere. Formats for programs are never cut.",
            },
            Command {
                names: &[".nullvalue"],
                arguments: "[TEXT]",
                summary: "choose the text of NULL",
                more: "Without one, that of the format: NULL in tables, nothing in CSV.",
            },
            Command {
                names: &[".headers", ".header"],
                arguments: "[on|off]",
                summary: "write names above the columns",
                more: "",
            },
            Command {
                names: &["\\pset"],
                arguments: "[NAME [VALUE]]",
                summary: "choose any of these by psql's names",
                more: "format, null, expanded, tuples_only, pager and maxrows. Without arguments, list them.",
            },
            Command {
                names: &[".output", "\\o"],
                arguments: "[FILE]",
                summary: "write results to a file (none: the terminal)",
                more: "The ending chooses the format: .csv, .tsv, .json, .ndjson, .md, .html, .tex hold the results that follow; \
                       .parquet, .arrow, .feather, .tet and .zarr hold one, .png and .svg a picture of one.",
            },
            Command {
                names: &[".once"],
                arguments: "FILE",
                summary: "write the next result to a file",
                more: "As .output, for one result.",
            },
            Command {
                names: &[".plot"],
                arguments: "[KIND] [FILE]",
                summary: "draw the last result, or write a picture",
                more: "FILE is a .svg, .png or .html file, KIND lines, map, scatter, hist or bars. Without one: a line over one axis, a heat map over two, a histogram of one \
                       column. The last query runs again for it.",
            },
            Command {
                names: &[".timer", "\\timing"],
                arguments: "[on|off]",
                summary: "show rows, seconds and chunks read",
                more: "On at a prompt, off elsewhere.",
            },
            Command {
                names: &[".print", "\\echo"],
                arguments: "[TEXT]",
                summary: "write a text where results go",
                more: "",
            },
            Command {
                names: &[".show"],
                arguments: "",
                summary: "show the settings of the shell",
                more: "",
            },
        ],
    ),
    (
        "Statements",
        &[
            Command {
                names: &[".explain"],
                arguments: "[ANALYZE] [SQL]",
                summary: "show the plan of a statement",
                more: "Without SQL, explains the last query. With ANALYZE, runs the statement, and shows its metrics.",
            },
            Command {
                names: &["\\g", "\\gx"],
                arguments: "[FILE]",
                summary: "end a statement, or run the last query again",
                more: "\\gx shows rows as one value per line. With FILE, the result is written there, as by .once.",
            },
            Command {
                names: &[".read", "\\i"],
                arguments: "FILE",
                summary: "run the statements of a file",
                more: "A named pipe is read until its writer closes it.",
            },
            Command {
                names: &[".edit", "\\e"],
                arguments: "[FILE]",
                summary: "edit the last statement or a file, run it",
                more: "In $VISUAL, $EDITOR or vi. Nothing runs if the text is empty or the editor fails.",
            },
            Command {
                names: &[".watch", "\\watch"],
                arguments: "[SECONDS [TIMES]]",
                summary: "run the last query again and again",
                more: "Every 2 seconds by default, until Ctrl-C.",
            },
            Command {
                names: &[".bail"],
                arguments: "[on|off]",
                summary: "stop a script at its first failure",
                more: "On by default. If off, the exit status still reports that there was a failure.",
            },
        ],
    ),
    (
        "Shell",
        &[
            Command {
                names: &[".shell", ".system", "\\!"],
                arguments: "COMMAND",
                summary: "run a command of the system's shell",
                more: "",
            },
            Command {
                names: &[".cd", "\\cd"],
                arguments: "[DIRECTORY]",
                summary: "change the directory",
                more: "Without one, to your home directory.",
            },
            Command {
                names: &["\\conninfo"],
                arguments: "",
                summary: "show version, threads and memory",
                more: "",
            },
        ],
    ),
    (
        "Help",
        &[
            Command {
                names: &[".help", "\\?"],
                arguments: "[COMMAND]",
                summary: "list these commands, or explain one",
                more: "",
            },
            Command {
                names: &[".quit", ".exit", "\\q"],
                arguments: "",
                summary: "leave the shell",
                more: "So does Ctrl-D.",
            },
        ],
    ),
];

fn commands() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|(_, commands)| commands.iter())
}

/// Returns the names of all meta-commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    commands().flat_map(|command| command.names.iter().copied())
}

/// Returns the list of meta-commands.
pub fn all() -> String {
    let mut text = String::new();
    for (title, commands) in GROUPS {
        text += &format!("{title}\n");
        for command in commands {
            let names = command.names.join(", ");
            let usage = format!("{names} {}", command.arguments);
            text += &format!("  {usage:<33} {}\n", command.summary);
        }
    }
    text + "Anything else is SQL, ended by a semicolon. .help COMMAND tells more.\n"
}

/// Returns the synopsis of a command, such as `.once FILE`.
pub fn usage(name: &str) -> String {
    let mut found = commands().filter(|command| command.names.contains(&name));
    let arguments = found.next().map_or("", |command| command.arguments);
    format!("{name} {arguments}").trim_end().to_owned()
}

/// Returns the description of a command, or `None` if no command has this name.
pub fn one(name: &str) -> Option<String> {
    let is_it = |command: &&Command| {
        let mut names = command.names.iter();
        names.any(|known| *known == name || known.trim_start_matches(['.', '\\']) == name)
    };
    let mut text = String::new();
    for command in commands().filter(is_it) {
        for name in command.names {
            text += format!("{name} {}", command.arguments).trim_end();
            text.push('\n');
        }
        text += &format!("  {}.\n", capital(command.summary));
        if !command.more.is_empty() {
            text += &format!("  {}\n", command.more);
        }
    }
    (!text.is_empty()).then_some(text)
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_listed_and_explained() {
        let all = all();
        assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
        for name in names() {
            assert!(all.contains(name), "{name}");
            assert!(one(name).unwrap().contains(name), "{name}");
        }
        assert!(one("output").unwrap().contains(".parquet"));
        assert_eq!(one(".nope"), None);
    }
}
