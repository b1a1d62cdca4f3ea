//! `RESET` of settings of this crate.

use datafusion::common::{Result, plan_err};
use datafusion::config::{ConfigExtension, ExtensionOptions};
use datafusion::sql::parser::{ResetStatement, Statement};

use crate::provider::catalog::settings::config::ArraySettings;

/// Checks that a statement does not reset a setting of this crate: DataFusion 55.2 resets only its own.
///
/// # Errors
/// Fails if the statement does, with the statement to write instead.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let Statement::Reset(ResetStatement::Variable(name)) = statement else {
        return Ok(());
    };
    let name = name.to_string().to_lowercase();
    let prefix = ArraySettings::PREFIX;
    if name
        .split_once('.')
        .is_none_or(|(first, _)| first != prefix)
    {
        return Ok(());
    }
    let settings = ArraySettings::default().entries();
    let setting = settings.into_iter().find(|setting| setting.key == name);
    match setting.and_then(|setting| setting.value) {
        None => plan_err!("unknown setting {name}; SHOW ALL lists the settings"),
        Some(value) => {
            let value = Some(value.as_str()).filter(|value| !value.is_empty());
            plan_err!(
                "RESET works only for settings of DataFusion; write SET {name} = {}",
                value.unwrap_or("...")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use crate::provider::sql::using_keys::create_logical_plan;

    #[tokio::test]
    async fn set_is_suggested() {
        let ctx = SessionContext::new();
        for (name, expected) in [
            ("tet.zone_maps", "SET tet.zone_maps = true"),
            ("TET.cache_dir", "SET tet.cache_dir = ..."),
            ("tet.nothing", "unknown setting tet.nothing"),
        ] {
            let error = create_logical_plan(&ctx.state(), &format!("RESET {name}")).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let reset = "RESET datafusion.execution.batch_size";
        assert!(create_logical_plan(&ctx.state(), reset).await.is_ok());
    }
}
