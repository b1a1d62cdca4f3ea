//! The configuration of AWS: the profile in the user's files, and the regions of buckets.

use std::path::{Path, PathBuf};

use object_store::aws::resolve_bucket_region;
use object_store::{ClientOptions, Error, Result};

use crate::format::io::remote::runtime;

/// The credentials and the region of a profile in `~/.aws`. The profile is the one that
/// `AWS_PROFILE` names, or `default`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// The ID of the access key and the secret access key.
    pub keys: Option<(String, String)>,
    pub session_token: Option<String>,
    pub region: Option<String>,
}

impl Profile {
    /// Reads the profile. Files that cannot be read count as empty.
    pub fn read() -> Self {
        let name = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_string());
        let file = |variable: &str, file: &str| {
            let path = std::env::var_os(variable).map(PathBuf::from);
            let path = path.or_else(|| Some(std::env::home_dir()?.join(".aws").join(file)));
            path.map_or_else(String::new, |path| text(&path))
        };
        Self::of(
            &file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            &file("AWS_CONFIG_FILE", "config"),
            &name,
        )
    }

    fn of(credentials: &str, config: &str, name: &str) -> Self {
        let in_config = match name {
            "default" => name.to_string(),
            name => format!("profile {name}"),
        };
        let get =
            |key: &str| value(credentials, name, key).or_else(|| value(config, &in_config, key));
        Self {
            keys: get("aws_access_key_id").zip(get("aws_secret_access_key")),
            session_token: get("aws_session_token"),
            region: get("region"),
        }
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of a key in a section of an INI file.
fn value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut is_in_section = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            is_in_section = name.trim_end_matches(']').trim() == section;
        } else if is_in_section
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return Some(value.trim().to_string());
        }
    }
    None
}

/// Asks S3 for the region of a bucket.
pub(super) fn region(bucket: &str, client: ClientOptions) -> Result<String> {
    let asked = bucket.to_string();
    let region = runtime::wait(async move { resolve_bucket_region(&asked, &client).await });
    let region = region.map_err(|error| Error::Generic {
        store: "S3",
        source: error.into(),
    })?;
    region.map_err(|error| Error::Generic {
        store: "S3",
        source: format!(
            "the region of the bucket {bucket} is unknown ({error}); set aws.region or AWS_REGION"
        )
        .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n\
                           [other]\naws_access_key_id=C\naws_secret_access_key=D\naws_session_token=E\n";
        let config = "[default]\nregion = eu-north-1\n[profile other]\nregion=us-west-2\n";
        let default = Profile::of(credentials, config, "default");
        assert_eq!(default.keys, Some(("A".to_string(), "B".to_string())));
        assert_eq!(default.region.as_deref(), Some("eu-north-1"));
        let other = Profile::of(credentials, config, "other");
        assert_eq!(other.session_token.as_deref(), Some("E"));
        assert_eq!(other.region.as_deref(), Some("us-west-2"));
        assert_eq!(Profile::of(credentials, config, "none"), Profile::default());
    }
}
