//! Parses a Markdown page and its fenced code blocks.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A page and its text.
#[derive(Debug, Clone)]
pub struct Page {
    /// The path within the repository, such as `docs/tour.md`.
    pub name: String,
    path: PathBuf,
    lines: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The info string after the opening fence: `sql`, `text`, `sh,ignore`, ...
    pub info: String,
    /// The line numbers between the fences, counted from 0.
    pub lines: Range<usize>,
}

/// An example that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// SQL statements, with their output if the page shows it.
    Sql {
        /// The statements.
        sql: Range<usize>,
        /// The output of the statements.
        output: Option<Range<usize>>,
    },
    /// A console command, which may span several lines, with its output.
    Command {
        /// The lines of the command. The first begins with `$ `.
        command: Range<usize>,
        /// The output, up to the next command.
        output: Range<usize>,
    },
    /// A script that only has to succeed.
    Script(Range<usize>),
}

impl Page {
    /// Reads a page of the repository.
    pub fn read(repository: &Path, name: &str) -> Self {
        let path = repository.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self {
            name: name.to_string(),
            path,
            lines: text.lines().map(str::to_string).collect(),
        }
    }

    /// Returns the given lines, each with a line feed.
    pub fn text(&self, lines: &Range<usize>) -> String {
        let lines = self.lines[lines.clone()].iter();
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Returns all lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns all fenced blocks in order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, &str)> = None;
        for (number, line) in self.lines.iter().enumerate() {
            let Some(info) = line.strip_prefix("```") else {
                assert!(
                    open.is_some() || !line.trim_start().starts_with("```"),
                    "{}:{}: an indented block would not be found",
                    self.name,
                    number + 1
                );
                continue;
            };
            match open.take() {
                None => open = Some((number, info)),
                Some((start, info)) => blocks.push(Block {
                    info: info.trim().to_string(),
                    lines: start + 1..number,
                }),
            }
        }
        assert_eq!(open, None, "{}: a block is not closed", self.name);
        blocks
    }

    /// Returns all runnable examples in order.
    pub fn examples(&self) -> Vec<Example> {
        let blocks = self.blocks();
        let mut examples = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            match block.info.as_str() {
                "sql" => examples.push(Example::Sql {
                    sql: block.lines.clone(),
                    output: blocks
                        .get(index + 1)
                        .filter(|next| next.info == "text" && self.follows(block, next))
                        .map(|next| next.lines.clone()),
                }),
                "console" => self.commands(block, &mut examples),
                "sh" if self.name != "README.md" => {
                    examples.push(Example::Script(block.lines.clone()));
                }
                _ => {}
            }
        }
        examples
    }

    /// Returns the blocks that are neither an example nor the output of one.
    pub fn blocks_not_run(&self) -> Vec<Block> {
        let examples = self.examples();
        let mut blocks = self.blocks();
        blocks.retain(|block| {
            block.info != "console"
                && !examples.iter().any(|example| match example {
                    Example::Sql { sql, output } => {
                        *sql == block.lines || output.as_ref() == Some(&block.lines)
                    }
                    Example::Script(script) => *script == block.lines,
                    Example::Command { .. } => false,
                })
        });
        blocks
    }

    /// Writes the page with the given lines replaced. The ranges must be in ascending order.
    pub fn rewrite(&self, places: &[(Range<usize>, String)]) {
        let mut text = String::new();
        let mut next = 0;
        for (lines, replacement) in places {
            text.push_str(&self.text(&(next..lines.start)));
            text.push_str(replacement);
            next = lines.end;
        }
        text.push_str(&self.text(&(next..self.lines.len())));
        fs::write(&self.path, text).unwrap();
    }

    /// Returns `true` if only blank lines separate two blocks.
    fn follows(&self, block: &Block, next: &Block) -> bool {
        let between = &self.lines[block.lines.end + 1..next.lines.start - 1];
        between.iter().all(|line| line.trim().is_empty())
    }

    fn commands(&self, block: &Block, examples: &mut Vec<Example>) {
        let mut line = block.lines.start;
        while line < block.lines.end {
            assert!(
                self.lines[line].starts_with("$ "),
                "{}:{}: expected a command behind \"$ \"",
                self.name,
                line + 1
            );
            let start = line;
            line += 1;
            while line < block.lines.end && !is_whole(&self.text(&(start..line))) {
                line += 1;
            }
            let command = start..line;
            while line < block.lines.end && !self.lines[line].starts_with("$ ") {
                line += 1;
            }
            let output = command.end..line;
            examples.push(Example::Command { command, output });
        }
    }
}

/// Returns `true` if a shell would run these lines rather than wait for more: no quote is open, and
/// the last line does not end in a backslash.
fn is_whole(command: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for character in command.trim_end().chars() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    quote.is_none() && !escaped
}

#[test]
fn commands_end_where_a_shell_would_run_them() {
    assert!(is_whole("$ tet-sql --demo -c .tables\n"));
    assert!(!is_whole("$ tet-sql -c \"SELECT 'a'\n"));
    assert!(is_whole("$ tet-sql -c \"SELECT 'a'\nFROM t\"\n"));
    assert!(!is_whole("$ tet-sql weather.tet \\\n"));
    assert!(is_whole("$ tet-sql -c 'SELECT \"a\\'\n"));
}
