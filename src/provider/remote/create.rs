//! Creates the object store of a URL from the environment and from options.

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::memory::InMemory;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, Error, HeaderMap, HeaderValue, ObjectStore,
    Result, RetryConfig,
};
use url::{Position, Url};

use crate::format::io::remote::credentials;
use crate::provider::remote::aws;
use crate::provider::remote::checked::CheckedStore;
use crate::provider::remote::connector::Connector;

/// The time after which a request fails. Chunks may be large, and connections slow.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The time after which a connection attempt fails.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of times that a failed request is sent again.
const MAX_RETRIES: usize = 8;
/// The maximum time between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The digits of base64.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// An option of a store: its name without the prefix of the provider, and its value.
pub(crate) type StoreOption = (String, String);

/// Returns `true` if [`create`] can create a store of the URL's scheme.
pub(super) fn is_known(url: &Url) -> bool {
    let schemes = [
        "s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "memory",
    ];
    schemes.contains(&url.scheme())
}

/// Creates the store of a URL; `None` if there is none for its scheme.
///
/// # Errors
/// Returns an error if an option is unknown or invalid, or a required one is missing.
pub(crate) fn create(url: &Url, options: &[StoreOption]) -> Result<Option<Arc<dyn ObjectStore>>> {
    let store = match url.scheme() {
        "s3" | "s3a" => s3(url, options)?,
        "gs" | "gcs" => gcs(url, options)?,
        "az" | "azure" | "adl" | "abfs" | "abfss" => azure(url, options)?,
        "http" | "https" => {
            if let Some((key, _)) = options.first() {
                return Err(unknown("HTTP", key));
            }
            let mut origin = url.clone();
            origin.set_query(None);
            origin.set_fragment(None);
            origin.set_path("/");
            http_store(&origin)?
        }
        "memory" => return Ok(Some(Arc::new(InMemory::new()))),
        _ => return Ok(None),
    };
    Ok(Some(Arc::new(CheckedStore(store))))
}

/// Creates the store of a single HTTP URL, whose user name, password and query are part of every
/// request. Keys are appended to its path.
pub(super) fn http_store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let mut url = url.clone();
    url.set_fragment(None);
    let mut client = client().with_allow_http(url.scheme() == "http");
    if let Some((user, password)) = credentials(&url) {
        let header = authorization(user, password.unwrap_or_default());
        let mut headers = HeaderMap::new();
        headers.insert("authorization", header);
        client = client.with_default_headers(headers);
        // Fails only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    let base = match url.path() {
        "/" => {
            let query = url
                .query()
                .map(|query| format!("?{query}"))
                .unwrap_or_default();
            format!("{}{query}", &url[..Position::BeforePath])
        }
        path if path.ends_with('/') => {
            let path = path.trim_end_matches('/').to_string();
            url.set_path(&path);
            url.to_string()
        }
        _ => url.to_string(),
    };
    let store = HttpBuilder::new()
        .with_url(base)
        .with_client_options(client)
        .with_http_connector(Connector)
        .with_retry(retries());
    Ok(Arc::new(store.build()?))
}

/// Creates the store of a single HTTP URL, whose answers have the announced length.
pub(super) fn checked_store(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    Ok(Arc::new(CheckedStore(http_store(url)?)))
}

/// Returns the header of HTTP's basic authentication. `user` and `password` are parts of a URL.
fn authorization(user: &str, password: &str) -> HeaderValue {
    let text = [decoded(user), b":".to_vec(), decoded(password)].concat();
    let mut digits = String::from("Basic ");
    for three in text.chunks(3) {
        let byte = |number: usize| u32::from(three.get(number).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            digits.push(match digit <= three.len() {
                true => char::from(BASE64[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
    // The digits of base64 are valid in a header.
    let mut header = HeaderValue::from_str(&digits).unwrap_or(HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

/// Decodes the percent signs of a part of a URL.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let digits = after
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.unwrap_or(b'%'));
        rest = match digits {
            Some(_) => &after[2..],
            None => after,
        };
    }
    bytes.extend(rest.bytes());
    bytes
}

fn client() -> ClientOptions {
    let agent = concat!("tet-sql/", env!("CARGO_PKG_VERSION"));
    ClientOptions::new()
        .with_user_agent(HeaderValue::from_static(agent))
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT)
}

/// Returns the settings of the client of a provider: those of environment variables that begin with
/// `prefix`, such as `AZURE_ALLOW_HTTP`, and [`client`]'s for all others.
fn client_of(prefix: &str, variables: impl Iterator<Item = (OsString, OsString)>) -> ClientOptions {
    let settings = variables.filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(prefix)?.to_ascii_lowercase();
        let key: ClientConfigKey = name.parse().ok()?;
        Some((key, value.into_string().ok()?))
    });
    settings.fold(client(), |client, (key, value)| {
        client.with_config(key, value)
    })
}

fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: MAX_RETRIES,
        backoff: BackoffConfig {
            max_backoff: MAX_BACKOFF,
            ..BackoffConfig::default()
        },
        ..RetryConfig::default()
    }
}

/// Parses the name of an option; `skip_signature` and `anonymous` are the same.
fn key<K: FromStr>(store: &'static str, name: &str) -> Result<K> {
    let name = match name {
        "anonymous" => "skip_signature",
        "application_credentials_path" => "application_credentials",
        name => name,
    };
    name.parse().map_err(|_| unknown(store, name))
}

fn unknown(store: &'static str, key: &str) -> Error {
    Error::UnknownConfigurationKey {
        store,
        key: key.to_string(),
    }
}

fn has_variable(names: &[&str]) -> bool {
    let mut names = names.iter();
    names.any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Returns `true` if this machine belongs to a cloud provider, so that its metadata service has
/// credentials. `file` is a description of the hardware.
fn is_machine_of(provider: &str, file: &str) -> bool {
    std::fs::read_to_string(Path::new("/sys/class/dmi/id").join(file))
        .is_ok_and(|text| text.contains(provider))
}

fn s3(url: &Url, options: &[StoreOption]) -> Result<Arc<dyn ObjectStore>> {
    let bucket = url.host_str().unwrap_or_default();
    let client = client_of("AWS_", std::env::vars_os());
    let mut builder = AmazonS3Builder::from_env()
        // Replaces the settings that `from_env` has read.
        .with_client_options(client.clone())
        .with_retry(retries())
        .with_bucket_name(bucket);
    for (name, value) in options {
        builder = builder.with_config(key::<AmazonS3ConfigKey>("S3", name)?, value);
    }
    let value = |builder: &AmazonS3Builder, key| builder.get_config_value(&key);
    let has_keys = value(&builder, AmazonS3ConfigKey::AccessKeyId).is_some();
    let profile = aws::Profile::read();
    if let (false, Some((id, secret))) = (has_keys, &profile.keys) {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
        if let Some(token) = &profile.session_token {
            builder = builder.with_token(token);
        }
    }
    let others = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    let has_credentials = has_keys
        || profile.keys.is_some()
        || has_variable(&others)
        || is_machine_of("Amazon EC2", "sys_vendor");
    let is_chosen = has_variable(&["AWS_SKIP_SIGNATURE"])
        || options
            .iter()
            .any(|(name, _)| matches!(name.as_str(), "skip_signature" | "anonymous"));
    if !has_credentials && !is_chosen {
        builder = builder.with_skip_signature(true);
    }
    let endpoint = value(&builder, AmazonS3ConfigKey::Endpoint);
    if endpoint
        .as_ref()
        .is_some_and(|endpoint| endpoint.starts_with("http://"))
    {
        builder = builder.with_allow_http(true);
    }
    let has_region = has_variable(&["AWS_REGION", "AWS_DEFAULT_REGION"])
        || options.iter().any(|(name, _)| name == "region");
    if !has_region {
        if let Some(region) = &profile.region {
            builder = builder.with_region(region);
        } else if endpoint.is_none() {
            builder = builder.with_region(aws::region(bucket, client)?);
        }
    }
    Ok(Arc::new(builder.build()?))
}

fn gcs(url: &Url, options: &[StoreOption]) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_client_options(client_of("GOOGLE_", std::env::vars_os()))
        .with_retry(retries())
        .with_bucket_name(url.host_str().unwrap_or_default());
    for (name, value) in options {
        builder = builder.with_config(key::<GoogleConfigKey>("GCS", name)?, value);
    }
    let variables = [
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_SKIP_SIGNATURE",
    ];
    let well_known = std::env::home_dir()
        .map(|home| home.join(".config/gcloud/application_default_credentials.json"));
    let has_credentials = has_variable(&variables)
        || !options.is_empty()
        || well_known.is_some_and(|path| path.is_file())
        || is_machine_of("Google", "sys_vendor");
    if !has_credentials {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn azure(url: &Url, options: &[StoreOption]) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_client_options(client_of("AZURE_", std::env::vars_os()))
        .with_retry(retries())
        .with_url(url.as_str());
    for (name, value) in options {
        builder = builder.with_config(key::<AzureConfigKey>("Azure", name)?, value);
    }
    let variables = [
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_USE_AZURE_CLI",
        "AZURE_SKIP_SIGNATURE",
        "MSI_ENDPOINT",
        "IDENTITY_ENDPOINT",
    ];
    let has_credentials =
        has_variable(&variables) || !options.is_empty() || is_machine_of("Microsoft", "sys_vendor");
    if !has_credentials {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(url: &str, options: &[(&str, &str)]) -> Result<Option<Arc<dyn ObjectStore>>> {
        let options = options.iter();
        let options: Vec<_> = options
            .map(|(k, v)| ((*k).to_string(), (*v).to_string()))
            .collect();
        create(&Url::parse(url).unwrap(), &options)
    }

    #[test]
    fn stores_are_created_by_scheme() {
        let s3 = [
            ("region", "eu-west-1"),
            ("endpoint", "http://127.0.0.1:1"),
            ("anonymous", "true"),
        ];
        assert!(created("s3://bucket/a", &s3).unwrap().is_some());
        assert!(
            created("gs://bucket/a", &[("skip_signature", "true")])
                .unwrap()
                .is_some()
        );
        let azure = [("account_name", "me"), ("anonymous", "true")];
        assert!(created("az://container/a", &azure).unwrap().is_some());
        for url in ["http://h:8/a", "https://u:p@h/a?b", "memory:///a"] {
            assert!(created(url, &[]).unwrap().is_some(), "{url}");
        }
        assert!(created("ftp://h/a", &[]).unwrap().is_none());
    }

    #[test]
    fn clients_are_set_up_by_the_environment() {
        let variables = || {
            let variables = [
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_TIMEOUT", "7 seconds"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "me"),
                ("AWS_PROXY_URL", "http://proxy"),
            ];
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
        };
        let value = |prefix, key| client_of(prefix, variables()).get_config_value(&key);
        let is =
            |value: Option<String>, expected: &str| assert_eq!(value.as_deref(), Some(expected));
        is(value("AZURE_", ClientConfigKey::AllowHttp), "true");
        is(value("AZURE_", ClientConfigKey::Timeout), "7 seconds");
        assert_eq!(value("AZURE_", ClientConfigKey::ProxyUrl), None);
        is(value("AWS_", ClientConfigKey::ProxyUrl), "http://proxy");
        is(value("AWS_", ClientConfigKey::AllowHttp), "false");
        let default = client().get_config_value(&ClientConfigKey::Timeout);
        assert_eq!(value("AWS_", ClientConfigKey::Timeout), default);
        // The client reaches the store.
        let with = |variables: &[(&str, &str)]| {
            let variables = variables.iter();
            let variables = variables.map(|(name, value)| (name.into(), value.into()));
            MicrosoftAzureBuilder::new()
                .with_client_options(client_of("AZURE_", variables))
                .get_config_value(&AzureConfigKey::Client(ClientConfigKey::AllowHttp))
        };
        is(with(&[("AZURE_ALLOW_HTTP", "yes")]), "yes");
        is(with(&[]), "false");
    }

    #[test]
    fn passwords_become_headers() {
        let header = authorization("Aladdin", "open%20sesame");
        assert_eq!(header, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(header.is_sensitive());
        assert_eq!(authorization("a", "%"), "Basic YTol");
    }

    #[test]
    fn unknown_options_are_refused() {
        let error = created("s3://bucket/a", &[("colour", "red")]).unwrap_err();
        assert!(error.to_string().contains("colour"), "{error}");
    }
}
