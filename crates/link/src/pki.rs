//! The site's own certificate authority, and the identities it gives.

use crate::error::LinkError;
use crate::token::hex;
use muster_model::ids::SiteId;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PKCS_ED25519, PublicKeyData, SanType, SerialNumber, string::Ia5String,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The one name every server answers to on the link, so that its addresses may be anything.
pub const SERVER_NAME: &str = "muster-server";
/// How far certificates reach back, for nodes whose clock is behind.
const BACK: Duration = Duration::from_secs(24 * 3600);
/// Before the enrolment that a certificate belongs to, where its key is not the enrolment's own.
pub(crate) const ENROLMENT_URI: &str = "urn:muster:enrolment:";
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const CA_CERT: &str = "ca.pem";
const CA_KEY: &str = "ca.key";

/// A certificate with its key, PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("cert_pem", &self.cert_pem).finish_non_exhaustive()
    }
}

/// The site's own certificate authority.
pub struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

fn certificate(what: &str, e: impl fmt::Display) -> LinkError {
    LinkError::Certificate(format!("{what}: {e}"))
}

fn read(path: &Path) -> Result<Option<String>, LinkError> {
    match fs::read_to_string(path) {
        Ok(s) => Ok(Some(s)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LinkError::File { what: "read", path: path.into(), source }),
    }
}

/// Written beside its place and moved there, so that a crash leaves all of it or nothing.
fn write(dir: &Path, name: &str, text: &str, mode: u32) -> Result<(), LinkError> {
    let path = dir.join(name);
    let part = dir.join(format!("{name}.part"));
    let place = || -> io::Result<()> {
        let mut f =
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&part)?;
        f.write_all(text.as_bytes())?;
        f.sync_all()?;
        fs::rename(&part, &path)?;
        File::open(dir)?.sync_all()
    };
    place().map_err(|source| LinkError::File { what: "write", path: path.clone(), source })
}

impl Authority {
    /// The authority kept in `dir` as `ca.pem` and `ca.key`; a new one when there is none.
    ///
    /// # Errors
    /// When the files cannot be read or written, or do not belong together.
    pub fn create_or_load(dir: &Path) -> Result<Authority, LinkError> {
        let (cert_path, key_path) = (dir.join(CA_CERT), dir.join(CA_KEY));
        let key = match (read(&key_path)?, read(&cert_path)?) {
            (Some(key), Some(pem)) => {
                let key = KeyPair::from_pem(&key)
                    .map_err(|e| certificate(&format!("{} is no key", key_path.display()), e))?;
                return Authority::from_parts(pem, key);
            }
            (None, Some(_)) => {
                return Err(LinkError::Certificate(format!(
                    "{} is there but its key {} is not: restore the key from a backup, or remove both and let every agent join again",
                    cert_path.display(),
                    key_path.display()
                )));
            }
            // A crash between the two writes. The same key keeps every agent's trust.
            (Some(key), None) => KeyPair::from_pem(&key)
                .map_err(|e| certificate(&format!("{} is no key", key_path.display()), e))?,
            (None, None) => {
                fs::create_dir_all(dir).map_err(|source| LinkError::File {
                    what: "create",
                    path: dir.into(),
                    source,
                })?;
                let key = new_key()?;
                write(dir, CA_KEY, &key.serialize_pem(), 0o600)?;
                key
            }
        };
        let now = SystemTime::now();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "muster authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(serial()?);
        params.not_before = (now - BACK).into();
        params.not_after = (now + 30 * YEAR).into();
        let cert = params.self_signed(&key).map_err(|e| certificate("the new authority", e))?;
        write(dir, CA_CERT, &cert.pem(), 0o644)?;
        Authority::from_parts(cert.pem(), key)
    }

    fn from_parts(pem: String, key: KeyPair) -> Result<Authority, LinkError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| certificate("the authority's certificate cannot be read", e))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|e| certificate("the authority's certificate cannot be read", e))?;
        if *parsed.public_key().subject_public_key.data != *key.public_key_raw() {
            return Err(LinkError::Certificate(
                "ca.pem and ca.key do not belong together: restore both from the same backup"
                    .into(),
            ));
        }
        let issuer = Issuer::from_ca_cert_der(&der, key)
            .map_err(|e| certificate("the authority's certificate is no authority's", e))?;
        Ok(Authority { pem, der, issuer })
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate, DER.
    #[must_use]
    pub fn ca_der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Hex SHA-256 of its certificate: what a join token pins.
    #[must_use]
    pub fn pin(&self) -> String {
        hex(&Sha256::digest(&self.der))
    }

    /// Signs a node's certificate. Only the public key is taken from the request, after it has
    /// proved that the asker holds the private one; who the node is, is what the caller says.
    /// `enrolment` is the hash of the key that the node was enrolled with; none: that key is
    /// the request's own.
    ///
    /// # Errors
    /// When the request is not valid.
    pub fn sign_node(
        &self,
        csr_pem: &str,
        node: &NodeName,
        enrolment: Option<&str>,
        site: &SiteId,
        ttl: Span,
        now: Time,
    ) -> Result<String, LinkError> {
        let request = read_request(csr_pem)?;
        let algorithm = request.public_key.algorithm();
        if *algorithm != PKCS_ECDSA_P256_SHA256 && *algorithm != PKCS_ED25519 {
            return Err(LinkError::Certificate(
                "the certificate request has a kind of key that is not used here: make a P-256 or Ed25519 key".into(),
            ));
        }
        let now = system_time(now);
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, node.as_str());
        params.subject_alt_names = vec![SanType::URI(ia5(&node_uri(site, node)?)?)];
        if let Some(id) = enrolment {
            params.subject_alt_names.push(SanType::URI(ia5(&format!("{ENROLMENT_URI}{id}"))?));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(serial()?);
        params.not_before = (now - BACK).into();
        params.not_after = (now + ttl.to_std()).into();
        let cert = params
            .signed_by(&request.public_key, &self.issuer)
            .map_err(|e| certificate("the node's certificate", e))?;
        Ok(cert.pem())
    }

    /// An identity for a server, made anew at each start. It answers to [`SERVER_NAME`] and to
    /// `names` (host names or IP addresses).
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn server_identity(&self, names: &[String]) -> Result<Identity, LinkError> {
        let mut all = vec![SERVER_NAME.to_owned()];
        all.extend(names.iter().filter(|n| *n != SERVER_NAME).cloned());
        let key = new_key()?;
        let now = SystemTime::now();
        let mut params = CertificateParams::new(all)
            .map_err(|e| certificate(&format!("the server's names {names:?}"), e))?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, SERVER_NAME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.serial_number = Some(serial()?);
        params.not_before = (now - BACK).into();
        params.not_after = (now + 10 * YEAR).into();
        let cert = params
            .signed_by(&key, &self.issuer)
            .map_err(|e| certificate("the server's certificate", e))?;
        Ok(Identity { cert_pem: cert.pem(), key_pem: key.serialize_pem() })
    }
}

fn read_request(csr_pem: &str) -> Result<CertificateSigningRequestParams, LinkError> {
    CertificateSigningRequestParams::from_pem(csr_pem)
        .map_err(|e| certificate("the certificate request is not valid", e))
}

/// Hex SHA-256 of a public key: what a node's enrolment is known by.
pub(crate) fn key_hash(public_key: &[u8]) -> String {
    hex(&Sha256::digest(public_key))
}

/// The hash of the key that a certificate request (PEM) is for, after the request has proved
/// that the asker holds the private one.
///
/// # Errors
/// When the request is not valid.
pub fn requested_key(csr_pem: &str) -> Result<String, LinkError> {
    Ok(key_hash(read_request(csr_pem)?.public_key.der_bytes()))
}

/// A new key and a request for a certificate, both PEM.
///
/// # Errors
/// When the system gives no random numbers.
pub fn new_request(node: &NodeName) -> Result<(String, String), LinkError> {
    let key = new_node_key()?;
    let csr = request_with(node, &key)?;
    Ok((key, csr))
}

/// A request for a certificate (PEM) for a key that is there already (PEM).
///
/// # Errors
/// When it is no key.
pub fn request_with(node: &NodeName, key_pem: &str) -> Result<String, LinkError> {
    let key = KeyPair::from_pem(key_pem).map_err(|e| certificate("the node's key", e))?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, node.as_str());
    params
        .serialize_request(&key)
        .and_then(|r| r.pem())
        .map_err(|e| certificate("the certificate request", e))
}

/// How a node is named inside its certificate.
pub(crate) fn node_uri(site: &SiteId, node: &NodeName) -> Result<String, LinkError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if site.0.is_empty() || !site.0.bytes().all(plain) {
        return Err(LinkError::Certificate(format!(
            "the site's id {:?} cannot be in a certificate",
            site.0
        )));
    }
    Ok(format!("spiffe://muster/{site}/node/{node}"))
}

/// A new key for a node, PEM.
///
/// # Errors
/// When the system gives no random numbers.
pub fn new_node_key() -> Result<String, LinkError> {
    Ok(new_key()?.serialize_pem())
}

/// P-256: the fastest of the usual kinds to sign and to check with this library.
fn new_key() -> Result<KeyPair, LinkError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| certificate("a new key", e))
}

fn serial() -> Result<SerialNumber, LinkError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| LinkError::Certificate("the system gives no random numbers".into()))?;
    // Positive, and never with a leading zero byte.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn ia5(s: &str) -> Result<Ia5String, LinkError> {
    Ia5String::try_from(s).map_err(|e| certificate("a name in the certificate", e))
}

fn system_time(t: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(t.0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn dir() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn an_authority_is_made_once_and_found_again() {
        let d = dir();
        let first = Authority::create_or_load(d.path()).unwrap();
        let again = Authority::create_or_load(d.path()).unwrap();
        assert_eq!(first.pin(), again.pin());
        assert_eq!(first.pin().len(), 64);
        let mode = fs::metadata(d.path().join(CA_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn half_an_authority_is_repaired_or_reported() {
        let d = dir();
        Authority::create_or_load(d.path()).unwrap();
        let key = fs::read(d.path().join(CA_KEY)).unwrap();
        fs::remove_file(d.path().join(CA_CERT)).unwrap();
        Authority::create_or_load(d.path()).unwrap();
        assert_eq!(fs::read(d.path().join(CA_KEY)).unwrap(), key, "the key is kept");

        let other = dir();
        Authority::create_or_load(other.path()).unwrap();
        fs::copy(other.path().join(CA_KEY), d.path().join(CA_KEY)).unwrap();
        let e = Authority::create_or_load(d.path()).unwrap_err().to_string();
        assert!(e.contains("do not belong together"), "{e}");

        fs::remove_file(d.path().join(CA_KEY)).unwrap();
        let e = Authority::create_or_load(d.path()).unwrap_err().to_string();
        assert!(e.contains("restore the key"), "{e}");
    }

    #[test]
    fn a_request_gives_its_key_and_nothing_else() {
        let d = dir();
        let a = Authority::create_or_load(d.path()).unwrap();
        let site = SiteId("s-1".into());
        let (_, csr) = new_request(&"root".parse().unwrap()).unwrap();
        let pem = a.sign_node(
            &csr,
            &"n1".parse().unwrap(),
            None,
            &site,
            Span::mins(5),
            Time(1_000_000_000),
        );
        let der = CertificateDer::from_pem_slice(pem.unwrap().as_bytes()).unwrap();
        let (_, cert) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert_eq!(cert.subject().to_string(), "CN=n1");
        assert!(!cert.is_ca());
    }

    #[test]
    fn a_request_with_a_broken_signature_is_refused() {
        let d = dir();
        let a = Authority::create_or_load(d.path()).unwrap();
        let (_, csr) = new_request(&"n1".parse().unwrap()).unwrap();
        let lines: Vec<&str> = csr.lines().collect();
        // A character inside the key, which the signature covers.
        let mut body: Vec<u8> = lines[1..lines.len() - 1].concat().into_bytes();
        let middle = body.len() / 2;
        body[middle] = if body[middle] == b'A' { b'B' } else { b'A' };
        let body = String::from_utf8(body).unwrap();
        let forged = format!("{}\n{body}\n{}\n", lines[0], lines[lines.len() - 1]);
        for bad in [&forged[..], "", "-----BEGIN CERTIFICATE REQUEST-----"] {
            let site = SiteId("s".into());
            let got = a.sign_node(bad, &"n1".parse().unwrap(), None, &site, Span::mins(5), Time(0));
            assert!(matches!(got, Err(LinkError::Certificate(_))), "{bad}");
        }
    }

    #[test]
    fn a_private_key_is_never_printed() {
        let a = Authority::create_or_load(dir().path()).unwrap();
        let id = a.server_identity(&["127.0.0.1".into(), "localhost".into()]).unwrap();
        assert!(!format!("{id:?}{a:?}").contains("PRIVATE"));
    }
}
