//! What the console wears, over HTTP.

use super::{patient, site, site_with};
use crate::HttpConfig;
use muster_brand::{Brand, BrandFile, ColoursFile};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_file_the_console_wears_its_own_name() {
    let s = site().await;
    let got = s.get("", "/v1/brand").await;
    assert_eq!(got.status, 200);
    let b = got.json();
    assert_eq!(
        (&b["name"], &b["logo"], &b["dark"]),
        (&json!("Muster"), &Value::Null, &Value::Null)
    );
    let got = s.get("", "/v1/brand/logo").await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (404, "not_found"));
    assert_eq!(s.post("", "/v1/brand", &json!({})).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brand_is_served_to_everybody_and_its_logo_cannot_do_anything() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("nimbus.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>")
        .unwrap();
    let file = BrandFile {
        name: Some("Nimbus".into()),
        logo: Some("nimbus.svg".into()),
        link: Some("https://nimbus.example/help".into()),
        light: Some(ColoursFile { accent: "#0b6b45".into() }),
        ..BrandFile::default()
    };
    let brand = Arc::new(Brand::load(&file, dir.path()).unwrap());
    let s = site_with(HttpConfig { brand, ..patient() }).await;
    let b = s.get("", "/v1/brand").await.json();
    assert_eq!((&b["name"], &b["link"]["text"]), (&json!("Nimbus"), &json!("Help")));
    assert_eq!(b["light"], json!({"accent": "#0b6b45", "on_accent": "#ffffff"}));
    assert_eq!(b["logo"].as_str().unwrap().len(), 16);
    let got = s.get("", "/v1/brand/logo").await;
    assert_eq!((got.status.as_u16(), got.header("content-type")), (200, "image/svg+xml"));
    assert!(got.header("content-security-policy").contains("default-src 'none'"));
    assert!(got.header("content-security-policy").contains("sandbox"));
    assert_eq!(got.header("x-content-type-options"), "nosniff");
}
