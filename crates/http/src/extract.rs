//! What requests bring: bodies, queries, path segments and headers, each with a clear refusal.

use super::App;
use super::error::{Failure, Reply};
use super::place;
use axum::body::{Body, BodyDataStream};
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The token that a request was let in with.
#[derive(Debug, Clone)]
pub(crate) struct TokenId(pub(crate) Arc<str>);

/// Where a request comes from.
pub(crate) fn address(extensions: &Extensions) -> IpAddr {
    extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |c| c.0.ip())
}

/// A body in JSON, with the bytes it came as. It may have `TIMES` the usual limit.
pub(crate) struct JsonBody<T, const TIMES: usize = 1> {
    pub(crate) value: T,
    pub(crate) raw: Bytes,
}

/// What reports a whole site at once: 100,000 nodes take about 16 MiB. Only after an extractor that
/// has looked at who sends it ([`super::auth::AdminWriter`]).
pub(crate) const WHOLE_SITE: usize = 32;

/// Larger bodies are parsed aside: a megabyte takes long enough to be felt by everybody else.
const PARSED_ASIDE: usize = 64 << 10;

async fn parse_body<T: DeserializeOwned + Send + 'static>(
    app: &App,
    token: Option<&TokenId>,
    raw: &Bytes,
) -> Reply<T> {
    if raw.len() <= PARSED_ASIDE {
        return parse(raw);
    }
    let raw = raw.clone();
    app.aside(token.map_or("", |t| &*t.0), move || parse(&raw)).await?
}

impl<T: DeserializeOwned + Send + 'static, const TIMES: usize> FromRequest<App>
    for JsonBody<T, TIMES>
{
    type Rejection = Failure;
    async fn from_request(request: Request, app: &App) -> Reply<Self> {
        check_json_type(request.headers())?;
        let token = request.extensions().get::<TokenId>().cloned();
        let raw = read_body(request, app, app.config().body_limit.saturating_mul(TIMES)).await?;
        Ok(JsonBody { value: parse_body(app, token.as_ref(), &raw).await?, raw })
    }
}

/// A body in JSON that may be left out.
pub(crate) struct OptionalBody<T> {
    pub(crate) value: T,
    pub(crate) raw: Bytes,
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<App> for OptionalBody<T> {
    type Rejection = Failure;
    async fn from_request(request: Request, app: &App) -> Reply<Self> {
        let typed = check_json_type(request.headers());
        let token = request.extensions().get::<TokenId>().cloned();
        let raw = read_body(request, app, app.config().body_limit).await?;
        if raw.is_empty() {
            return Ok(OptionalBody { value: T::default(), raw });
        }
        typed?;
        Ok(OptionalBody { value: parse_body(app, token.as_ref(), &raw).await?, raw })
    }
}

fn check_json_type(headers: &HeaderMap) -> Reply<()> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = given.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = if given.is_empty() {
        "the body has no Content-Type".to_owned()
    } else {
        format!("the body is `{}`", shown(given))
    };
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
        .hint("send JSON with `Content-Type: application/json`"))
}

/// Nothing unpacks bodies here: one that is encoded would be parsed as if it were not.
fn check_encoding(headers: &HeaderMap) -> Reply<()> {
    let given = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = given.flat_map(|v| v.to_str().unwrap_or("?").split(',')).map(str::trim);
    match codings.find(|c| !c.is_empty() && !c.eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(coding) => {
            let message = format!("the body is encoded as `{}`", shown(coding));
            Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
                .field("content-encoding")
                .hint("send it as it is, without `Content-Encoding`"))
        }
    }
}

/// A body that comes within this time takes no place of its own.
const PROMPT: Duration = Duration::from_millis(200);

/// Reads a body up to the limit. Whoever sends it was let in already; one that is not there soon
/// takes a place of its token's and its address's until it is.
async fn read_body(request: Request, app: &App, limit: usize) -> Reply<Bytes> {
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    let token = request.extensions().get::<TokenId>().cloned();
    let address = address(request.extensions());
    let encoding = check_encoding(request.headers());
    let stream = request.into_body().into_data_stream();
    if let Err(e) = encoding {
        discard(stream);
        return Err(e);
    }
    if declared.is_some_and(|n| n > limit as u64) {
        discard(stream);
        return Err(Failure::too_large(limit));
    }
    let read = collect(stream, limit, app.config().body_idle);
    tokio::pin!(read);
    if let Ok(whole) = tokio::time::timeout(PROMPT, read.as_mut()).await {
        return whole;
    }
    let _place = app.body_permit(token.as_ref().map(|t| &*t.0), address)?;
    read.await
}

/// The body's pieces as one. A larger one is answered at once; what the client still sends is
/// thrown away for a while, so that it gets to read the answer instead of a reset connection.
async fn collect(mut stream: BodyDataStream, limit: usize, idle: Duration) -> Reply<Bytes> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    loop {
        let Ok(next) = tokio::time::timeout(idle, stream.next()).await else {
            let message = format!("nothing of the body came for {} s", idle.as_secs());
            return Err(Failure::bad(message)
                .hint("send the whole body at once")
                .header(header::CONNECTION, HeaderValue::from_static("close")));
        };
        let Some(chunk) = next else { break };
        let chunk = chunk.map_err(|_| Failure::bad("the body ended early"))?;
        if first.as_ref().map_or(0, Bytes::len) + whole.len() + chunk.len() > limit {
            discard(stream);
            return Err(Failure::too_large(limit));
        }
        // Nearly every body comes in one piece, and then is not copied.
        match first.take() {
            None if whole.is_empty() => first = Some(chunk),
            Some(f) => {
                whole.extend_from_slice(&f);
                whole.extend_from_slice(&chunk);
            }
            None => whole.extend_from_slice(&chunk),
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

const DISCARDED_AT_MOST: usize = 16 << 20;

fn discard(mut stream: BodyDataStream) {
    tokio::spawn(tokio::time::timeout(Duration::from_secs(5), async move {
        let mut seen = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            seen += chunk.len();
            if seen > DISCARDED_AT_MOST {
                return;
            }
        }
    }));
}

/// Parses JSON, and says where it fails.
pub(crate) fn parse<T: DeserializeOwned>(raw: &[u8]) -> Reply<T> {
    let is_list = raw.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    match serde_json::from_slice(raw) {
        // Every body is an object; serde takes its fields from a list, in their order, too.
        Ok(_) if is_list => Err(Failure::senseless("expected an object, found a list at line 1")),
        Ok(value) => Ok(value),
        Err(e) => {
            let again = |text: &[u8]| serde_json::from_slice::<T>(text).err();
            Err(unreadable(raw, &e, &again))
        }
    }
}

/// A body that is no JSON, or not what is wanted here.
fn unreadable(
    raw: &[u8],
    e: &serde_json::Error,
    again: &dyn Fn(&[u8]) -> Option<serde_json::Error>,
) -> Failure {
    let (path, why) = match place::no_word(raw, e, again) {
        Some(found) => found,
        None if e.is_data() => (place::path(raw, e, again), e.to_string()),
        None => {
            return Failure::bad(format!("the body is not valid JSON: {e}"))
                .hint("check the text at that line and column");
        }
    };
    let failure = Failure::senseless(shown_message(&why));
    if path.is_empty() { failure } else { failure.field(shown(&path)) }
}

/// A query string. Parameters that do not exist are refused, so that a slip is seen.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Reply<Self> {
        if let Some(query) = parts.uri.query().filter(|q| !q.is_empty()) {
            check_names::<T>(query)?;
        }
        axum::extract::Query::try_from_uri(&parts.uri).map(|q| Query(q.0)).map_err(|e| {
            let text = e.body_text();
            let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            let failure = Failure::bad(format!("bad query string: {}", shown_message(why)));
            // `limit: invalid digit found in string` names the parameter first.
            match why.split_once(": ") {
                Some((name, _)) if !name.contains(' ') => failure.field(shown(name)),
                _ => failure,
            }
        })
    }
}

/// The fields of the query's type are the parameters that exist.
fn check_names<T: DeserializeOwned>(query: &str) -> Reply<()> {
    let mut known: &[&str] = &[];
    // Always an error: it only asks which fields there are.
    let _ = T::deserialize(Names(&mut known));
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let name = pair.split('=').next().unwrap_or("");
        if !known.contains(&name) {
            return Err(Failure::bad(format!("there is no parameter `{}` here", shown(name)))
                .field(shown(name))
                .hint(format!("known are: {}", known.join(", "))));
        }
    }
    Ok(())
}

/// Learns the names of a structure's fields from the structure itself.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> serde::Deserializer<'de> for Names<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("nothing is read here"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The one variable segment of a path.
pub(crate) struct Segment(pub(crate) String);

impl FromRequestParts<App> for Segment {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
        axum::extract::Path::<String>::from_request_parts(parts, app)
            .await
            .map(|p| Segment(p.0))
            .map_err(|_| Failure::bad("the path is not valid UTF-8"))
    }
}

/// A header that may come once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Reply<Option<&'a str>> {
    let mut all = headers.get_all(name).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let bad = |why: &str| Failure::bad(format!("header {name} {why}")).field(name.as_str());
    if all.next().is_some() {
        return Err(bad("comes more than once"));
    }
    value.to_str().map(Some).map_err(|_| bad("has characters that are not visible ASCII"))
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Durable sequence an answer follows from.
pub(crate) const MUSTER_SEQ: HeaderName = HeaderName::from_static("muster-seq");
/// Sequence that a read demands.
pub(crate) const MUSTER_MIN_SEQ: HeaderName = HeaderName::from_static("muster-min-seq");
/// Last event a reader has seen.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The caller's idempotency key.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Reply<Option<&str>> {
    let Some(key) = one(headers, &IDEMPOTENCY_KEY)? else { return Ok(None) };
    if (1..=128).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(Some(key));
    }
    Err(Failure::bad("Idempotency-Key must be 1 to 128 visible ASCII characters without spaces")
        .field("idempotency-key")
        .hint("a random UUID will do"))
}

/// The version the caller insists on: `"42"`, `42` or `*` (any).
pub(crate) fn if_match(headers: &HeaderMap) -> Reply<Option<u64>> {
    let Some(text) = one(headers, &header::IF_MATCH)? else { return Ok(None) };
    let text = text.trim();
    if text == "*" {
        return Ok(None);
    }
    let bare = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
    match number(bare) {
        Some(n) => Ok(Some(n)),
        None => Err(Failure::bad("If-Match must have one version, such as \"42\"")
            .field("if-match")
            .hint("send the ETag of the answer you saw")),
    }
}

/// A header's text as it came.
pub(crate) fn text_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Reply<Option<&'a str>> {
    Ok(one(headers, name)?.map(str::trim).filter(|t| !t.is_empty()))
}

/// Digits only: `+5`, which Rust's parser takes, is not a number here.
pub(crate) fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Does the caller ask for this media type by name?
pub(crate) fn asks_for(headers: &HeaderMap, media: &str) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|part| part.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case(media))
}

/// Would the caller take one of these media types?
pub(crate) fn accepts(headers: &HeaderMap, media: &[&str]) -> bool {
    let mut any = false;
    for part in headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
    {
        let mut bits = part.split(';').map(str::trim);
        let range = bits.next().unwrap_or("");
        if range.is_empty() {
            continue;
        }
        any = true;
        if bits.any(|b| matches!(b, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")) {
            continue;
        }
        let fits = |m: &&str| {
            range == "*/*"
                || range.eq_ignore_ascii_case(m)
                || range.strip_suffix("/*").is_some_and(|t| m.split('/').next() == Some(t))
        };
        if media.iter().any(fits) {
            return true;
        }
    }
    !any
}

/// Text of the caller's for use in an answer: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

fn shown_message(text: &str) -> String {
    let mut out: String =
        text.chars().take(400).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().count() > 400 {
        out.push('…');
    }
    out
}

/// A body that streams pieces as they come.
pub(crate) fn stream_body<S>(stream: S) -> Body
where
    S: futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
{
    Body::from_stream(stream)
}

/// Larger answers are given in pieces of so many bytes.
const PIECE: usize = 64 << 10;

/// A body that is packed and sent piece by piece. Packing a page of 4 MiB takes tens of milliseconds:
/// between two pieces others have their turn.
pub(crate) fn in_pieces(whole: Bytes) -> Body {
    if whole.len() <= PIECE {
        return Body::from(whole);
    }
    let pieces = futures::stream::unfold(whole, |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::task::yield_now().await;
        let piece = rest.split_to(rest.len().min(PIECE));
        Some((Ok::<_, std::io::Error>(piece), rest))
    });
    // What compresses it asks once more after the end.
    stream_body(pieces.fuse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::spec::JobSpec;

    #[tokio::test]
    async fn a_large_answer_lets_others_have_their_turn() {
        let text: Vec<u8> = b"0123456789".repeat(30_000);
        let mut body = in_pieces(text.clone().into()).into_data_stream();
        let (mut got, mut turns) = (Vec::new(), 0);
        loop {
            match futures::poll!(body.next()) {
                std::task::Poll::Pending => {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
                std::task::Poll::Ready(Some(piece)) => got.extend_from_slice(&piece.unwrap()),
                std::task::Poll::Ready(None) => break,
            }
        }
        assert_eq!((got == text, turns), (true, text.len().div_ceil(PIECE)));
        assert!(body.next().await.is_none(), "the end stays the end");
    }

    fn headers(pairs: &[(&'static str, &'static [u8])]) -> HeaderMap {
        let mut h = HeaderMap::new();
        for (k, v) in pairs {
            h.append(*k, HeaderValue::from_bytes(v).unwrap());
        }
        h
    }

    #[test]
    fn versions_are_read_in_both_spellings() {
        let read = |v: &'static [u8]| if_match(&headers(&[("if-match", v)]));
        assert_eq!(read(b"\"42\"").unwrap(), Some(42));
        assert_eq!(read(b"42").unwrap(), Some(42));
        assert_eq!(read(b"*").unwrap(), None);
        for bad in [&b"\"a\""[..], b"", b"-1", b"+1", b"1, 2", b"99999999999999999999", b"\xff"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(if_match(&headers(&[("if-match", b"1"), ("if-match", b"2")])).is_err());
    }

    #[test]
    fn idempotency_keys_are_visible_ascii() {
        let read = |v: &'static [u8]| {
            idempotency_key(&headers(&[("idempotency-key", v)])).map(|k| k.map(str::to_owned))
        };
        assert_eq!(read(b"a-1").unwrap().as_deref(), Some("a-1"));
        for bad in [&b""[..], b"a b", b"\xc3\xa9", &[b'x'; 129]] {
            assert!(read(bad).is_err());
        }
    }

    #[test]
    fn media_ranges_are_understood() {
        let h = headers(&[("accept", b"text/html, application/*;q=0.8")]);
        assert!(accepts(&h, &["application/json"]));
        assert!(!accepts(&h, &["text/event-stream"]));
        assert!(accepts(&HeaderMap::new(), &["application/json"]));
        assert!(!accepts(&headers(&[("accept", b"application/json;q=0")]), &["application/json"]));
        assert!(asks_for(&headers(&[("accept", b"text/event-stream")]), "text/event-stream"));
        assert!(!asks_for(&headers(&[("accept", b"*/*")]), "text/event-stream"));
    }

    #[test]
    fn a_bad_body_is_reported_with_its_place() {
        let e = parse::<JobSpec>(b"{\n \"gang\": {\"nodes\": -1}}").map(|_| ()).unwrap_err();
        assert_eq!(e.status(), 422);
        let text = format!("{e:?}");
        assert!(text.contains("gang.nodes") && text.contains("line 2"), "{text}");
        let e = parse::<JobSpec>(b"{\"gang\": ").map(|_| ()).unwrap_err();
        assert_eq!(e.status(), 400);
        let e = format!("{:?}", parse::<JobSpec>(b"{\"nmae\": \"a\"}").map(|_| ()).unwrap_err());
        assert!(e.contains("nmae"), "{e}");
        let list = parse::<muster_api::RunScenario>(b" [null, null]").map(|_| ()).unwrap_err();
        assert_eq!(list.status(), 422, "fields without names");
    }
}
