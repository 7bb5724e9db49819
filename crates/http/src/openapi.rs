//! Makes `openapi.json`. Paths and schemas come from the handlers; what every handler has in
//! common (errors, headers, the token) is added here once, by what the endpoint is.

use serde_json::{Map, Value, json};
use utoipa::{OpenApi as _, PartialSchema};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Muster",
        description = "A GPU cloud's control plane: jobs, nodes, topology and the log of everything that happened.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(muster_api::ErrorBody, muster_api::EventOrder, muster_api::LogLine))
)]
struct Description;

/// The description as the handlers make it.
#[must_use]
pub fn description() -> Value {
    let router = crate::endpoints::described(Description::openapi());
    complete(serde_json::to_value(router.into_openapi()).unwrap_or_default())
}

/// Answers that are not a success: status, name of the component, what it means.
const ANSWERS: [(u16, &str, &str); 14] = [
    (400, "BadRequest", "The request cannot be understood: bad JSON, query, path or header."),
    (401, "Unauthenticated", "No token, or one that is not valid."),
    (403, "NotAllowed", "The token may not do this, or a rule says no."),
    (404, "NotFound", "There is no such thing, or the token may not know of it."),
    (405, "MethodNotAllowed", "The path is there, the method is not."),
    (406, "NotAcceptable", "Nothing that the Accept header asks for can be sent."),
    (409, "Conflict", "It contradicts the present state, or the version has moved."),
    (410, "Gone", "That part of the log is archived; `Muster-Oldest` says where it begins now."),
    (413, "TooLarge", "The body is too large."),
    (415, "UnsupportedMediaType", "The body is not JSON, or it is encoded."),
    (422, "Senseless", "The request is understood and makes no sense."),
    (429, "RateLimited", "Too many requests; `Retry-After` says how long to wait."),
    (500, "Internal", "The server failed; its log says why."),
    (503, "Unavailable", "The server cannot do this now; `Retry-After` says when to try again."),
];

/// Puts what is common into the document that the handlers made.
fn complete(mut doc: Value) -> Value {
    doc["openapi"] = json!("3.1.0");
    let mut responses = Map::new();
    for (status, name, what) in ANSWERS {
        let mut response = json!({
            "description": what,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
        });
        let seconds =
            json!({"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}});
        match status {
            401 => {
                response["headers"] = json!({"WWW-Authenticate": {"schema": {"type": "string"}}});
            }
            429 | 503 => response["headers"] = json!({"Retry-After": seconds}),
            410 => response["headers"] = json!({"Muster-Oldest": {"schema": {"type": "string"}}}),
            _ => {}
        }
        responses.insert(name.into(), response);
    }
    doc["components"]["responses"] = Value::Object(responses);
    doc["components"]["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer", "bearerFormat": "mst_ID_SECRET",
                  "description": "A token made by `muster token create`."},
    });
    doc["components"]["headers"] = json!({
        "MusterSeq": {
            "description": "Position in the log that this answer follows from; a later read may \
                            demand it with `Muster-Min-Seq`.",
            "schema": {"type": "string"},
        },
        "ETag": {"description": "The version, for `If-Match`.", "schema": {"type": "string"}},
    });
    // Two types are called `Kind`: what an object is, and the one word of a spec.
    doc["components"]["schemas"]["Kind"] = json!(<muster_api::Kind as PartialSchema>::schema());
    doc["components"]["schemas"]["JobSpec"]["properties"]["kind"] =
        json!({"type": "string", "enum": ["Job"], "description": "Always `Job`."});
    // And two are called `Level`: a level of the topology, and how thoroughly a node is tested.
    doc["components"]["schemas"]["TestLevel"] =
        json!(<muster_model::qualification::Level as PartialSchema>::schema());
    for name in ["Qualified", "Qualifying", "QualifyRequest"] {
        doc["components"]["schemas"][name]["properties"]["level"]["$ref"] =
            json!("#/components/schemas/TestLevel");
    }
    // What is written is wider than the simplest form that is asked for: `36d10h`.
    let schemas = &mut doc["components"]["schemas"];
    schemas["Span"]["pattern"] = json!("^([0-9]{1,15}(\\.[0-9]{1,3})?(ms|s|m|h|d|w))+$");
    schemas["Bytes"]["pattern"] = json!("^[0-9]{1,19} ?([KMGTP]i?)?B?$");
    let Some(paths) = doc["paths"].as_object_mut() else { return doc };
    for (path, item) in paths {
        let Some(item) = item.as_object_mut() else { continue };
        for (method, operation) in item {
            complete_operation(path, method, operation);
        }
    }
    doc
}

/// `get_nodes_name` for `GET /v1/nodes/{name}`: handlers' names repeat, addresses do not.
fn operation_id(method: &str, path: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let words: String = path.trim_start_matches("/v1").chars().map(word).collect();
    let words: Vec<&str> = words.split('_').filter(|w| !w.is_empty()).collect();
    format!("{method}_{}", words.join("_"))
}

fn complete_operation(path: &str, method: &str, op: &mut Value) {
    op["operationId"] = json!(operation_id(method, path));
    // The login page wears the brand before anybody has a token.
    let takes_token = path.starts_with("/v1/") && !path.starts_with("/v1/brand");
    let writes = method != "get";
    let mut statuses = vec![500, 503];
    // Figures take one unless the site opened them.
    if takes_token || path == "/metrics" {
        statuses.extend([400, 401, 403, 429]);
        op["security"] = json!([{"token": []}]);
    } else {
        op["security"] = json!([]);
    }
    // A read may name a project that is not there.
    let of_project = |p: &Value| p["name"] == "project";
    let of_project = op["parameters"].as_array().is_some_and(|all| all.iter().any(of_project));
    if path.contains('{') || of_project {
        statuses.push(404);
    }
    if writes {
        // A write may name something that is not there, also without a variable in its path.
        statuses.extend([404, 409, 422]);
        parameter(
            op,
            "Idempotency-Key",
            "Makes a repeat of this write harmless for 24 hours.",
            json!({
                "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]{1,128}$",
            }),
        );
        parameter(
            op,
            "If-Match",
            "The version (ETag) the caller saw; 409 when it has moved.",
            json!({
                "type": "string", "pattern": "^(\\*|[0-9]{1,18}|\"[0-9]{1,18}\")$",
            }),
        );
    } else if takes_token {
        parameter(
            op,
            "Muster-Min-Seq",
            "Wait (5 s at most) until this server has seen this `Muster-Seq`.",
            json!({
                "type": "string",
            }),
        );
    }
    // Also where a body is not needed: what comes is looked at.
    if matches!(method, "post" | "put" | "patch") {
        statuses.extend([413, 415]);
    }
    // It may name a node or a job, and a server may keep no history, or no index of output.
    if path == "/v1/metrics/history" || path == "/v1/search/output" {
        statuses.extend([404, 409]);
    }
    if path.ends_with("/logs") || path == "/v1/events" {
        statuses.push(406);
    }
    if path == "/v1/events" {
        statuses.push(410);
        parameter(
            op,
            "Last-Event-ID",
            "The last event seen; goes before `after`.",
            json!({"type": "string"}),
        );
    }
    let responses = &mut op["responses"];
    for (status, name, _) in ANSWERS {
        if statuses.contains(&status) {
            responses[status.to_string()] =
                json!({"$ref": format!("#/components/responses/{name}")});
        }
    }
    if !takes_token {
        return;
    }
    if let Some(responses) = responses.as_object_mut() {
        for (_, success) in responses.iter_mut().filter(|(status, _)| status.starts_with('2')) {
            success["headers"]["Muster-Seq"] = json!({"$ref": "#/components/headers/MusterSeq"});
            let schema = &success["content"]["application/json"]["schema"];
            if schema["$ref"]
                .as_str()
                .is_some_and(|r| !r.ends_with("List") && !r.ends_with("WhoAmI"))
            {
                success["headers"]["ETag"] = json!({"$ref": "#/components/headers/ETag"});
            }
            // Indexing made an empty entry where an answer has no content.
            if let Some(s) = success.as_object_mut() {
                s.retain(|_, v| !v.is_null());
            }
        }
    }
}

fn parameter(op: &mut Value, name: &str, what: &str, schema: Value) {
    let parameter = json!({"name": name, "in": "header", "required": false, "description": what, "schema": schema});
    match op.get_mut("parameters").and_then(Value::as_array_mut) {
        Some(all) => all.push(parameter),
        None => op["parameters"] = json!([parameter]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The file that is served. `cargo xtask web` writes it anew.
    #[test]
    fn the_checked_in_description_is_what_the_handlers_say() {
        let kept: Value = serde_json::from_slice(crate::OPENAPI.plain()).expect("JSON");
        let made = description();
        if let Some(path) = std::env::var_os("MUSTER_WRITE_OPENAPI") {
            let text = serde_json::to_string_pretty(&made).expect("JSON");
            std::fs::write(path, text + "\n").expect("written");
            return;
        }
        assert!(kept == made, "openapi.json is not what the handlers say: cargo xtask web");
    }

    #[test]
    fn every_endpoint_is_routed_where_its_description_says() {
        let made = description();
        let described: BTreeSet<(String, String)> = made["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().expect("operations").keys().map(|m| (m.clone(), path.clone()))
            })
            .collect();
        let routed: BTreeSet<(String, String)> = crate::endpoints::listed()
            .into_iter()
            .map(|(method, path)| (method.to_owned(), path.to_owned()))
            .collect();
        assert_eq!(routed, described);
    }
}
