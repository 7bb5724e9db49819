//! JSON that is posted to others.

use ring::hmac;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

/// How long one try may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Who posts.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    muster_link::tls::install();
    reqwest::Client::builder()
        .timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Posts once; or says why it was not taken, without the address, which may hold a secret.
pub(crate) async fn post(
    client: &reqwest::Client,
    url: reqwest::Url,
    headers: &[(&'static str, String)],
    body: &[u8],
) -> Result<(), String> {
    let mut request =
        client.post(url).header("content-type", "application/json").body(body.to_vec());
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await.map_err(|e| cause(&e.without_url()))?;
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
}

/// The innermost reason: the outer ones only say that something failed.
fn cause(e: &dyn Error) -> String {
    let mut here = e;
    while let Some(next) = here.source() {
        here = next;
    }
    here.to_string()
}

/// `sha256=` and the HMAC-SHA256 of the body in hex.
#[must_use]
pub fn signature(secret: &[u8], body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut out = String::from("sha256=");
    for b in hmac::sign(&key, body).as_ref() {
        let _ = write!(out, "{b:02x}");
    }
    out
}
