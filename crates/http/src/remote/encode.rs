//! From figures to Prometheus's remote-write 1.0: one protobuf message, snappy around it. The message
//! has three levels and five fields, so it is written by hand.

use crate::Sample;
use std::collections::BTreeMap;

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push((n.to_le_bytes()[0] & 0x7f) | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

/// A field of bytes: its number, its length, and they.
fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// `WriteRequest`: all figures at one moment, with labels that all of them get.
pub(super) fn request(samples: &[Sample], at_ms: i64, extra: &BTreeMap<String, String>) -> Vec<u8> {
    let mut out = Vec::new();
    for s in samples {
        let mut series = Vec::new();
        let mut labels = extra.clone();
        labels.extend(s.labels.clone());
        // Receivers want labels in the order of their names.
        for (name, value) in &labels {
            let mut label = Vec::new();
            bytes(1, name.as_bytes(), &mut label);
            bytes(2, value.as_bytes(), &mut label);
            bytes(1, &label, &mut series);
        }
        let mut sample = vec![1 << 3 | 1];
        sample.extend_from_slice(&s.value.to_le_bytes());
        varint(2 << 3, &mut sample);
        varint(at_ms.cast_unsigned(), &mut sample);
        bytes(2, &sample, &mut series);
        bytes(1, &series, &mut out);
    }
    out
}

/// In snappy's block format.
pub(super) fn packed(message: &[u8]) -> Result<Vec<u8>, snap::Error> {
    snap::raw::Encoder::new().compress_vec(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_format_says() {
        let s = Sample { labels: BTreeMap::from([("__name__".into(), "a".into())]), value: 1.0 };
        let got = request(&[s], 300, &BTreeMap::from([("site".into(), "x".into())]));
        let label = |name: &str, value: &str| {
            let mut l = vec![0x0a, name.len() as u8];
            l.extend(name.bytes());
            l.extend([0x12, value.len() as u8]);
            l.extend(value.bytes());
            [vec![0x0a, l.len() as u8], l].concat()
        };
        let mut sample = vec![0x09];
        sample.extend(1.0f64.to_le_bytes());
        sample.extend([0x10, 0xac, 0x02]);
        let series = [
            label("__name__", "a"),
            label("site", "x"),
            [vec![0x12, sample.len() as u8], sample].concat(),
        ]
        .concat();
        assert_eq!(got, [vec![0x0a, series.len() as u8], series].concat());
        let back = snap::raw::Decoder::new().decompress_vec(&packed(&got).unwrap()).unwrap();
        assert_eq!(back, got);
    }
}
