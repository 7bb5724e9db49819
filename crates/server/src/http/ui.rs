//! The web page: three files in the binary, nothing from elsewhere.

use super::App;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::routing::get;

type Headers = [(HeaderName, HeaderValue); 6];

fn headers(media: &'static str) -> Headers {
    let value = HeaderValue::from_static;
    [
        (header::CONTENT_TYPE, value(media)),
        (
            header::CONTENT_SECURITY_POLICY,
            value(
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            ),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, value("nosniff")),
        (header::X_FRAME_OPTIONS, value("DENY")),
        (header::REFERRER_POLICY, value("no-referrer")),
        (header::CACHE_CONTROL, value("no-cache")),
    ]
}

pub(crate) fn routes() -> Router<App> {
    let file = |media: &'static str, text: &'static str| {
        get(move || async move { (headers(media), text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("../../assets/index.html")))
        .route(
            "/ui/app.js",
            file("text/javascript; charset=utf-8", include_str!("../../assets/app.js")),
        )
        .route(
            "/ui/style.css",
            file("text/css; charset=utf-8", include_str!("../../assets/style.css")),
        )
}
