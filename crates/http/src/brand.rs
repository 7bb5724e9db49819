//! What the console wears, also before anybody has logged in.

use super::App;
use super::error::{Failure, Reply};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};

/// Nothing in a picture runs or is fetched, whoever opens it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

/// Get the console's name, colours and link. Needs no token: the login page shows them.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/brand", tag = "site", security(()),
    responses((status = 200, description = "The console's name and colours.", body = muster_api::Brand))))]
pub(crate) async fn get(State(app): State<App>) -> Response {
    let no_cache = [(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    (no_cache, Json(app.config().brand.shown.clone())).into_response()
}

/// Get the console's logo.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/brand/logo", tag = "site", security(()),
    responses((status = 200, description = "A picture: SVG or PNG.", body = Vec<u8>, content_type = "image/*"),
        (status = 404, description = "It has none.", body = muster_api::ErrorBody))))]
pub(crate) async fn logo(State(app): State<App>) -> Reply {
    let logo = app.config().brand.logo.clone().ok_or_else(|| {
        Failure::not_found("this console has no logo of its own")
            .hint("`logo` in [brand] names one")
    })?;
    let value = HeaderValue::from_static;
    let fixed = [
        (header::CONTENT_TYPE, value(logo.media)),
        (header::CONTENT_SECURITY_POLICY, value(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, value("nosniff")),
        (header::CACHE_CONTROL, value("no-cache")),
    ];
    Ok((fixed, logo.bytes).into_response())
}
