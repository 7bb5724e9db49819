//! The web console: its files are in the binary, nothing comes from elsewhere.

use super::App;
use super::guard::no_such_path;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use muster_console::{FILES, File};

const INDEX: &str = "/index.html";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn media(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Names that carry a hash of the contents, `/ui/app-4fX2a9bC.js`, never mean anything else.
fn is_hashed(path: &str) -> bool {
    let Some((stem, _)) = path.strip_prefix("/ui/").and_then(|name| name.rsplit_once('.')) else {
        return false;
    };
    stem.rsplit_once('-').is_some_and(|(_, hash)| hash.len() >= 8)
}

/// Does the caller name this among what it takes?
pub(crate) fn wants(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    let all = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
    all.flat_map(|v| v.split(',')).any(|part| {
        let mut words = part.split(';').map(str::trim);
        let named = words.next().is_some_and(|w| w.eq_ignore_ascii_case(word));
        // `q=0` means: not that.
        named && !words.any(|w| w.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0f32)))
    })
}

/// The form of a file that the caller takes, with the headers that say so.
pub(crate) fn packed(file: &'static File, asked: &HeaderMap) -> Response {
    let (body, encoding) = match file.gzip {
        Some(bytes) if wants(asked, header::ACCEPT_ENCODING, "gzip") => (bytes, Some("gzip")),
        _ => (file.plain(), None),
    };
    let value = HeaderValue::from_static;
    let fixed =
        [(header::CONTENT_TYPE, value(media(file.path))), (header::VARY, value("accept-encoding"))];
    let mut response = (fixed, body).into_response();
    if let Some(encoding) = encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, value(encoding));
    }
    response
}

fn send(file: &'static File, asked: &HeaderMap) -> Response {
    let cache =
        if is_hashed(file.path) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let value = HeaderValue::from_static;
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, value(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, value("nosniff")),
        (header::X_FRAME_OPTIONS, value("DENY")),
        (header::REFERRER_POLICY, value("no-referrer")),
        (header::CACHE_CONTROL, value(cache)),
    ];
    (fixed, packed(file, asked)).into_response()
}

pub(crate) fn routes() -> Router<App> {
    FILES.iter().fold(Router::new(), |router, file| {
        let path = if file.path == INDEX { "/" } else { file.path };
        router.route(path, get(move |headers: HeaderMap| async move { send(file, &headers) }))
    })
}

/// Addresses that nothing answers to are pages of the console when a browser asks for one: a link
/// to a node or a job can be opened anywhere.
pub(crate) async fn page_or_nothing(request: Request) -> Response {
    let path = request.uri().path();
    let reserved = ["/v1", "/ui/", "/openapi", "/metrics"].iter().any(|p| path.starts_with(p));
    let page = *request.method() == Method::GET
        && !reserved
        && wants(request.headers(), header::ACCEPT, "text/html");
    match FILES.iter().find(|f| f.path == INDEX) {
        Some(index) if page => send(index, request.headers()),
        _ => no_such_path(request).await.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_long_carries_a_hash() {
        assert!(is_hashed("/ui/index-BxY12_zQ.js"));
        assert!(!is_hashed("/ui/app.js") && !is_hashed("/index.html"));
        assert!(!is_hashed("/ui/fleet-map.js"), "a dash alone is no hash");
    }

    #[test]
    fn encodings_are_taken_at_their_word() {
        let asked = |v: &'static str| {
            let mut h = HeaderMap::new();
            h.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(v));
            wants(&h, header::ACCEPT_ENCODING, "gzip")
        };
        assert!(asked("br, deflate, gzip") && asked("GZIP;q=0.5"));
        assert!(!asked("br") && !asked("br, gzip;q=0") && !asked("gzipped"));
    }
}
