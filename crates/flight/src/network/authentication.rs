//! Admits requests that carry the token.

use crate::log::Log;
use crate::network::connections::Peer;
use crate::options::Token;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest, Sha256};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// The header with the token.
pub const HEADER: &str = "authorization";

/// The bearer value for clients that log in although the server has no token.
const NO_TOKEN: &str = "none";

/// Accepts Base64 without padding, which some clients (those in Go) leave out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Admits requests with the right token, or all requests if the server has no token.
#[derive(Debug, Clone)]
pub struct Authentication {
    /// The SHA-256 digest of the token. The time taken to compare digests reveals nothing about the
    /// token.
    expected: Option<[u8; 32]>,
    log: Log,
}

impl Authentication {
    /// Creates the check for a token. Without a token, all requests are admitted.
    pub fn new(token: Option<&Token>, log: Log) -> Self {
        Self {
            expected: token.map(|Token(text)| digest(text)),
            log,
        }
    }

    /// Returns the `Bearer` header that a client must send after it logged in with a password.
    pub fn bearer(&self, headers: &MetadataMap) -> Result<MetadataValue<Ascii>, Status> {
        let token = match self.expected {
            Some(_) => self.check(headers)?,
            None => NO_TOKEN.to_owned(),
        };
        format!("Bearer {token}")
            .parse()
            .map_err(|_| Status::unauthenticated("the token cannot be sent in a header"))
    }

    /// Returns the token of a request if it is right. Clients send it as a bearer token or as the
    /// password of any user.
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

/// Extracts the token from a header value. Scheme names are case-insensitive.
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
        let token = Token::new("s3cret:x").unwrap();
        let authentication = Authentication::new(Some(&token), Log::default());
        // The Basic values are the Base64 of "anna:s3cret:x", encoded with base64(1).
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
}
