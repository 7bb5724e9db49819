//! Spans as OpenTelemetry's protobuf (`ExportTraceServiceRequest`). Six small messages, written by
//! hand: the generated ones and their runtime were a tenth of the build.

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
}

/// What a span is worth to a collector.
#[derive(Debug, Clone, Default)]
pub(super) struct Span {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    /// Zeros when it begins a trace.
    pub(super) parent: [u8; 8],
    /// `tracestate` of the caller, handed on as it came.
    pub(super) state: String,
    pub(super) name: String,
    /// 1 internal, 2 server.
    pub(super) kind: u64,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    /// Nanoseconds since 1970.
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) failed: bool,
}

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push((n.to_le_bytes()[0] & 0x7f) | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

fn fixed(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn attribute(field: u64, key: &str, value: &Value, out: &mut Vec<u8>) {
    let mut any = Vec::new();
    match value {
        Value::Text(text) => bytes(1, text.as_bytes(), &mut any),
        Value::Bool(yes) => number(2, u64::from(*yes), &mut any),
        Value::Int(n) => number(3, n.cast_unsigned(), &mut any),
        Value::Double(x) => fixed(4, x.to_bits(), &mut any),
    }
    let mut pair = Vec::new();
    bytes(1, key.as_bytes(), &mut pair);
    bytes(2, &any, &mut pair);
    bytes(field, &pair, out);
}

fn span(s: &Span) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(1, &s.trace, &mut out);
    bytes(2, &s.id, &mut out);
    if !s.state.is_empty() {
        bytes(3, s.state.as_bytes(), &mut out);
    }
    if s.parent != [0; 8] {
        bytes(4, &s.parent, &mut out);
    }
    bytes(5, s.name.as_bytes(), &mut out);
    number(6, s.kind, &mut out);
    fixed(7, s.start, &mut out);
    fixed(8, s.end, &mut out);
    for (key, value) in &s.attributes {
        attribute(9, key, value, &mut out);
    }
    if s.failed {
        let mut status = Vec::new();
        number(3, 2, &mut status);
        bytes(15, &status, &mut out);
    }
    out
}

/// The message that a collector takes: the spans of one resource.
pub(super) fn request(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut about = Vec::new();
    for (key, value) in resource {
        attribute(1, key, &Value::Text(value.clone()), &mut about);
    }
    let mut name = Vec::new();
    bytes(1, b"muster", &mut name);
    let mut scope = Vec::new();
    bytes(1, &name, &mut scope);
    for s in spans {
        bytes(2, &span(s), &mut scope);
    }
    let mut of_resource = Vec::new();
    bytes(1, &about, &mut of_resource);
    bytes(2, &scope, &mut of_resource);
    let mut out = Vec::new();
    bytes(1, &of_resource, &mut out);
    out
}
