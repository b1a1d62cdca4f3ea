//! Runs the init file.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::messages;
use crate::run::{Control, Shell};
use crate::script::Script;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::path::PathBuf;

/// Runs the init file from the arguments, or else that of the user if it exists. An error in the
/// user's file is only a warning, so that it cannot make the command unusable.
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

/// Returns the path of the user's init file, `$XDG_CONFIG_HOME/tet-sql/init.sql`.
fn usual() -> Option<PathBuf> {
    let folder = Xdg::new().ok()?.config_dir();
    Some(folder.join("tet-sql").join("init.sql"))
}
