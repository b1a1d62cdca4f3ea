//! Who may ask: whoever knows the token.

use crate::failure::Failure;
use crate::serve::arguments::ServeArguments;
use crate::serve::connections::Peer;
use crate::serve::log::Log;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Where clients put what they know.
pub const HEADER: &str = "authorization";

/// What is sent by clients that must say something where nothing is asked for.
const NO_TOKEN: &str = "none";

/// Some clients (those in Go) leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Lets requests through that come with the token, or all, if there is none.
#[derive(Debug, Clone)]
pub struct Authentication {
    /// Compared in place of the token, so that the time this takes says nothing about it.
    expected: Option<[u8; 32]>,
    log: Log,
}

impl Authentication {
    /// Reads the token, if the arguments say where it is.
    pub fn of_arguments(arguments: &ServeArguments) -> Result<Self, Failure> {
        let (origin, text) = if let Some(path) = &arguments.token_file {
            let origin = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::message(format!("{origin}: {error}")))?;
            (origin, text)
        } else if let Some(name) = &arguments.token_env {
            let origin = format!("the environment variable {name}");
            let text = std::env::var(name)
                .map_err(|error| Failure::message(format!("{origin}: {error}")))?;
            (origin, text)
        } else {
            return Ok(Self {
                expected: None,
                log: Log::default(),
            });
        };
        Self::with_token(text.trim())
            .map_err(|problem| Failure::message(format!("{origin}: {problem}")))
    }

    fn with_token(token: &str) -> Result<Self, &'static str> {
        if token.is_empty() {
            return Err("there is no token in it");
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token is one word of ASCII letters, digits and punctuation");
        }
        Ok(Self {
            expected: Some(digest(token)),
            log: Log::default(),
        })
    }

    /// What a client that came with its password is to come with from now on: `Bearer` and the token.
    pub fn bearer(&self, headers: &MetadataMap) -> Result<MetadataValue<Ascii>, Status> {
        let token = match self.expected {
            Some(_) => self.check(headers)?,
            None => NO_TOKEN.to_owned(),
        };
        format!("Bearer {token}")
            .parse()
            .map_err(|_| Status::unauthenticated("the token is not a header's"))
    }

    /// The token that a client came with, as a bearer token or as the password of any user.
    fn check(&self, headers: &MetadataMap) -> Result<String, Status> {
        let Some(header) = headers.get(HEADER) else {
            return Err(Status::unauthenticated(
                "a token is needed: send the header authorization: Bearer TOKEN, or the token as password",
            ));
        };
        let token = header.to_str().ok().and_then(token_of);
        match token {
            Some(token) if self.expected == Some(digest(&token)) => Ok(token),
            _ => Err(Status::unauthenticated("wrong token")),
        }
    }
}

impl Interceptor for Authentication {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let peer = request.extensions().get::<Peer>();
        if self.expected.is_some()
            && let Err(status) = self.check(request.metadata())
        {
            if let Some(Peer { address, .. }) = peer {
                let had = request.metadata().contains_key(HEADER);
                let what = if had { "wrong token" } else { "no token" };
                self.log
                    .note(&format!("{address}: request refused: {what}"));
            }
            return Err(status);
        }
        if let Some(peer) = peer {
            peer.admit();
        }
        Ok(request)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The token of a header's value. The name of a scheme may be written in any case.
fn token_of(header: &str) -> Option<String> {
    let (scheme, rest) = header.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(BASE64.decode(rest).ok()?).ok()?;
        let (_, password) = pair.split_once(':')?;
        return Some(password.to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> MetadataMap {
        let mut headers = MetadataMap::new();
        headers.insert(HEADER, value.parse().unwrap());
        headers
    }

    #[test]
    fn the_token_is_taken_as_bearer_or_password() {
        let authentication = Authentication::with_token("s3cret:x").unwrap();
        // Of "anna:s3cret:x", by base64(1).
        for right in [
            "Bearer s3cret:x",
            "bearer  s3cret:x",
            "Basic YW5uYTpzM2NyZXQ6eA==",
            "basic YW5uYTpzM2NyZXQ6eA",
        ] {
            let bearer = authentication.bearer(&headers(right)).unwrap();
            assert_eq!(bearer, "Bearer s3cret:x");
        }
        for wrong in [
            "s3cret:x",
            "Bearer s3cret",
            "Bearer ",
            "Bearer",
            "Basic s3cret:x",
            "Basic czNjcmV0Ong=",
            "Digest s3cret:x",
        ] {
            assert!(authentication.bearer(&headers(wrong)).is_err(), "{wrong}");
        }
        assert!(authentication.bearer(&MetadataMap::new()).is_err());
    }

    #[test]
    fn tokens_are_one_word() {
        for wrong in ["", "two words", "a\nb", "ä"] {
            assert!(Authentication::with_token(wrong).is_err(), "{wrong}");
        }
    }
}
