//! PostgreSQL over TLS: servers of the tests' own, with certificates made here.

use crate::common;

use common::{PATIENT, Server, filled, until};
use muster_store::{StoreError, open};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use std::path::PathBuf;

/// An authority, and the file that names it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("root.pem"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("root.pem")
    }

    /// A server on localhost with a certificate of this authority's for that name.
    fn server(&self) -> Option<(Server, u16)> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "database");
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Server::listening(Some((&cert.pem(), &key.serialize_pem())))
    }
}

fn address(port: u16) -> String {
    format!("postgres://postgres@localhost:{port}/postgres?{PATIENT}")
}

fn demanding(port: u16, root: &Authority) -> String {
    format!("{}&sslmode=verify-full&sslrootcert={}", address(port), root.file().display())
}

/// What is said to whoever opens it; nothing may be opened.
fn refusal(url: &str) -> String {
    let Err(e) = open(&url.parse().unwrap()) else { panic!("{url} was opened") };
    // A certificate can be renewed and a server repaired: worth another try, and no write is in
    // doubt.
    assert!(matches!(e, StoreError::Unavailable { outcome_unknown: false, .. }), "{e:?}");
    let said = e.to_string();
    assert!(!said.contains("connection was lost"), "{said}");
    said
}

fn ciphered(port: u16) -> i64 {
    let mut look = postgres::Client::connect(&address(port), postgres::NoTls).unwrap();
    let row = look.query_one(
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE ssl AND application_name = 'muster'",
        &[],
    );
    row.unwrap().get(0)
}

#[test]
fn a_certificate_of_the_right_authority_is_trusted_and_the_session_is_ciphered() {
    let authority = Authority::new("muster test");
    let Some((_server, port)) = authority.server() else { return };
    let mut s = open(&demanding(port, &authority).parse().unwrap()).unwrap();
    filled(&mut *s);
    assert!(s.check().unwrap().is_ok());
    assert_eq!(ciphered(port), 1);
    drop(s);
    // Whoever demands nothing gets nothing.
    let mut s = open(&address(port).parse().unwrap()).unwrap();
    assert_eq!(s.head().unwrap().last_seq.0, 100);
    // The server takes a moment to see that the first session is over.
    until("no session is ciphered", || ciphered(port) == 0);
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let authority = Authority::new("muster test");
    let Some((_server, port)) = authority.server() else { return };
    // One of another name, and one that only calls itself the same.
    for other in [Authority::new("stranger"), Authority::new("muster test")] {
        let said = refusal(&demanding(port, &other));
        assert!(said.contains("not from an authority that is trusted"), "{said}");
        assert!(said.contains("sslrootcert=FILE"), "{said}");
    }
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new("muster test");
    let Some((_server, port)) = authority.server() else { return };
    let said = refusal(&demanding(port, &authority).replace("@localhost", "@127.0.0.1"));
    assert!(said.contains("its certificate is for another name"), "{said}");
}

#[test]
fn what_the_system_does_not_trust_is_refused_without_a_file_too() {
    let authority = Authority::new("muster test");
    let Some((_server, port)) = authority.server() else { return };
    let url = format!("{}&sslmode=require", address(port));
    let Err(e) = open(&url.parse().unwrap()) else { panic!("{url} was opened") };
    // A system that trusts nobody says that instead.
    assert!(matches!(e, StoreError::Unavailable { .. } | StoreError::Other { .. }), "{e:?}");
    assert!(e.to_string().contains("sslrootcert=FILE"), "{e}");
}

#[test]
fn a_server_without_tls_is_refused_when_tls_is_demanded() {
    let authority = Authority::new("muster test");
    let Some((_server, port)) = Server::listening(None) else { return };
    for mode in ["require", "verify-ca", "verify-full"] {
        let said = refusal(&demanding(port, &authority).replace("verify-full", mode));
        assert!(said.contains("the server does not support TLS"), "{said}");
    }
    // It was TLS alone that was in the way.
    filled(&mut *open(&address(port).parse().unwrap()).unwrap());
}

#[test]
fn a_file_of_authorities_that_holds_none_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("root.pem");
    for text in [None, Some("no certificate\n")] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let url = format!("{}&sslmode=verify-full&sslrootcert={}", address(1), file.display());
        let Err(e) = open(&url.parse().unwrap()) else { panic!("{url} was opened") };
        assert!(e.to_string().contains(&file.display().to_string()), "{e}");
    }
}
