//! The summary of a session for `\conninfo`.

use crate::run::Shell;
use crate::size::human_size;
use crate::terminal::escape_controls;
use datafusion::execution::memory_pool::MemoryLimit;
use std::fmt::Write;

/// Returns the version, threads, memory and directory of a session as text.
pub fn session(shell: &Shell) -> String {
    let context = &shell.context;
    let config = context.copied_config();
    let memory = match context.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => format!("at most {}", human_size(bytes as u64)),
        _ => "not limited".to_owned(),
    };
    let directory = match std::env::current_dir() {
        Ok(path) => path.display().to_string(),
        Err(error) => error.to_string(),
    };
    let lines = [
        (
            "version",
            concat!("tet-sql ", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("server", "none: queries run in this process".to_owned()),
        ("schema", config.options().catalog.default_schema.clone()),
        ("threads", config.target_partitions().to_string()),
        ("memory", memory),
        ("directory", directory),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<10} {}", escape_controls(&value));
    }
    text
}
