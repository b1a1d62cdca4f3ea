//! [`Connector`]: connections to servers that do not list directories.

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::{ClientOptions, Result};

/// The method that lists a directory.
const PROPFIND: &str = "PROPFIND";
/// `501 Not Implemented`, with which simple servers answer unknown methods.
const NOT_IMPLEMENTED: u16 = 501;
/// `405 Method Not Allowed`, with which other servers answer them.
const NOT_ALLOWED: u16 = 405;

/// Turns the answer `501 Not Implemented` to PROPFIND into `405 Method Not Allowed`. The store retries every status of 500 or
/// more for up to ten seconds, and a server that cannot list directories would answer 501 each time.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service(client)))
    }
}

#[derive(Debug)]
struct Service(HttpClient);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let lists = request.method().as_str() == PROPFIND;
        let mut response = self.0.execute(request).await?;
        if lists
            && response.status().as_u16() == NOT_IMPLEMENTED
            && let Ok(status) = NOT_ALLOWED.try_into()
        {
            *response.status_mut() = status;
        }
        Ok(response)
    }
}
