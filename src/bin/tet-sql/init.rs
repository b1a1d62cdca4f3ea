//! The statements that run first.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::messages;
use crate::run::Shell;
use crate::script::Script;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::path::PathBuf;

/// Runs the file that the arguments name, or that of the user, if there is one. A failure in the latter is told, and the
/// command goes on: it must not lock its user out.
pub fn run(shell: &Shell, arguments: &Arguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.init {
        shell.run_script(Script::File(file.clone()))?;
        return Ok(());
    }
    if arguments.no_init {
        return Ok(());
    }
    let Some(file) = usual().filter(|file| file.is_file()) else {
        return Ok(());
    };
    match shell.run_script(Script::File(file)) {
        Err(Failure::Message(message)) => messages::warning(&message),
        result => {
            result?;
        }
    }
    Ok(())
}

/// `$XDG_CONFIG_HOME/tet-sql/init.sql`
fn usual() -> Option<PathBuf> {
    let folder = Xdg::new().ok()?.config_dir();
    Some(folder.join("tet-sql").join("init.sql"))
}
