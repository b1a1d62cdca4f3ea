//! The statements that run first.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::messages;
use crate::run::{Control, Shell};
use crate::script::Script;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::path::PathBuf;

/// Runs the file that the arguments name, or that of the user, if there is one. A failure in the latter is told, and the
/// command goes on: it must not lock its user out.
pub fn run(shell: &Shell, arguments: &Arguments) -> Result<Control, Failure> {
    if let Some(file) = &arguments.init {
        return shell.run_script(Script::File(file.clone()));
    }
    let usual = usual().filter(|file| file.is_file() && !arguments.no_init);
    let Some(file) = usual else {
        return Ok(Control::Continue);
    };
    let result = shell.run_script(Script::File(file));
    shell.forget_failures();
    match result {
        Err(Failure::Message(message)) => {
            messages::warning(&message);
            Ok(Control::Continue)
        }
        result => result,
    }
}

/// `$XDG_CONFIG_HOME/tet-sql/init.sql`
fn usual() -> Option<PathBuf> {
    let folder = Xdg::new().ok()?.config_dir();
    Some(folder.join("tet-sql").join("init.sql"))
}
