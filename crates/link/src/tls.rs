//! TLS 1.3 between agent and server, both with certificates of the site's own authority.

use crate::error::LinkError;
use crate::pki::{Authority, ENROLMENT_URI, Identity, SERVER_NAME, key_hash};
use crate::token::hex;
use muster_model::ids::SiteId;
use muster_model::names::NodeName;
use muster_model::units::Time;
use rustls::client::Resumption;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use sha2::{Digest, Sha256};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_parser::extensions::GeneralName;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a handshake may take: when a whole site comes back at once, one waits its turn.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// Whom a client trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The authority with this certificate (PEM).
    Ca(String),
    /// The authority whose certificate has this hex SHA-256; the server shows it.
    Pin(String),
}

/// Who is at the other end of a connection, as its certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The node that its certificate names.
    pub node: NodeName,
    /// The site that let it in.
    pub site: SiteId,
    /// The enrolment that the certificate belongs to: the hash of the key that the node was
    /// enrolled with.
    pub enrolment: String,
    /// Serial number of the certificate, hex.
    pub serial: String,
    /// When the certificate ends. A resumed session is not checked against it by TLS.
    pub not_after: Time,
}

/// One provider for everything, chosen here and never taken from the process.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider())).clone()
}

/// Makes it the one of clients that do not choose one (reqwest's). A second call does nothing.
pub fn install() {
    // An error says that there is one already.
    let _ = ring::default_provider().install_default();
}

fn cert(pem: &str) -> Result<CertificateDer<'static>, LinkError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|e| LinkError::Certificate(format!("a certificate cannot be read: {e}")))
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, LinkError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|e| LinkError::Certificate(format!("a private key cannot be read: {e}")))
}

fn roots(ca: CertificateDer<'static>) -> Result<Arc<RootCertStore>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(ca)?;
    Ok(Arc::new(roots))
}

/// What the server's end needs. A client without a certificate is let through (it may only
/// join); one with a certificate of another authority is not.
///
/// Whether a certificate has ended is decided by `clock`, the one that the server signs them by: the
/// machine's may have been set to another day, and must not shut the nodes out.
///
/// # Errors
/// When the identity cannot be used.
pub fn server_config(
    a: &Authority,
    identity: &Identity,
    clock: fn() -> Time,
) -> Result<Arc<ServerConfig>, LinkError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(a.ca_der().clone())?, provider())
            .allow_unauthenticated()
            .build()
            .map_err(|e| LinkError::Certificate(format!("the authority cannot be used: {e}")))?;
    let chain = vec![cert(&identity.cert_pem)?, a.ca_der().clone()];
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(ClockOf(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key(&identity.key_pem)?)?;
    // Stateless tickets: nothing is kept for each of ten thousand agents.
    config.ticketer = ring::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// The clock that certificates are judged by.
#[derive(Debug)]
struct ClockOf(fn() -> Time);

impl TimeProvider for ClockOf {
    fn current_time(&self) -> Option<UnixTime> {
        let ms = u64::try_from((self.0)().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_millis(ms)))
    }
}

/// What a client's end needs. Keep and reuse it: it remembers the session, which makes the
/// next connection cheap for both sides.
///
/// # Errors
/// When the identity or the authority cannot be used.
pub fn client_config(id: Option<&Identity>, trust: &Trust) -> Result<Arc<ClientConfig>, LinkError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match trust {
        Trust::Ca(pem) => builder.with_root_certificates(roots(cert(pem)?)?),
        Trust::Pin(pin) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned(pin.to_ascii_lowercase()))),
    };
    let mut config = match id {
        Some(id) => builder.with_client_auth_cert(vec![cert(&id.cert_pem)?], key(&id.key_pem)?)?,
        None => builder.with_no_client_auth(),
    };
    // There is one server name. The default would set aside room for 256 of them, in each of
    // ten thousand simulated agents.
    config.resumption = Resumption::in_memory_sessions(1);
    Ok(Arc::new(config))
}

/// Trusts the one authority with this hash, wherever in the server's chain it stands.
#[derive(Debug)]
struct Pinned(String);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let ca = intermediates
            .iter()
            .find(|c| hex(&Sha256::digest(c)) == self.0)
            .ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        WebPkiServerVerifier::builder_with_provider(roots(ca.clone().into_owned())?, provider())
            .build()
            .map_err(|e| rustls::Error::General(e.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Who is at the other end; `None` without a certificate.
///
/// # Errors
/// When the certificate is the authority's but names no node.
pub fn peer(conn: &ServerConnection) -> Result<Option<Peer>, LinkError> {
    let Some(der) = conn.peer_certificates().and_then(|c| c.first()) else { return Ok(None) };
    parse_peer(der).map(Some)
}

/// When a certificate (PEM) ends: an agent renews its own well before.
///
/// # Errors
/// When it is no certificate.
pub fn not_after(cert_pem: &str) -> Result<Time, LinkError> {
    let der = cert(cert_pem)?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der)
        .map_err(|e| LinkError::Certificate(format!("a certificate cannot be read: {e}")))?;
    Ok(Time(parsed.validity().not_after.timestamp().saturating_mul(1000)))
}

fn parse_peer(der: &CertificateDer<'_>) -> Result<Peer, LinkError> {
    let bad = |why: String| LinkError::Certificate(format!("the peer's certificate {why}"));
    let (_, parsed) = x509_parser::parse_x509_certificate(der)
        .map_err(|e| bad(format!("cannot be read: {e}")))?;
    let names = parsed
        .subject_alternative_name()
        .map_err(|e| bad(format!("cannot be read: {e}")))?
        .map(|s| &s.value.general_names[..])
        .unwrap_or_default();
    let (site, node) = names
        .iter()
        .find_map(|n| match n {
            GeneralName::URI(uri) => uri.strip_prefix("spiffe://muster/")?.split_once("/node/"),
            _ => None,
        })
        .ok_or_else(|| bad("names no node".into()))?;
    let enrolment = names.iter().find_map(|n| match n {
        GeneralName::URI(uri) => uri.strip_prefix(ENROLMENT_URI).map(str::to_owned),
        _ => None,
    });
    let own = || key_hash(&parsed.public_key().subject_public_key.data);
    Ok(Peer {
        enrolment: enrolment.unwrap_or_else(own),
        node: node.parse().map_err(|e| bad(format!("names no node: {e}")))?,
        site: SiteId(site.to_owned()),
        serial: hex(parsed.raw_serial()),
        not_after: Time(parsed.validity().not_after.timestamp().saturating_mul(1000)),
    })
}

/// Small messages go at once, and a peer whose machine vanished is noticed.
///
/// # Errors
/// When the socket is already gone.
pub fn tune(stream: &TcpStream) -> Result<(), LinkError> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    let tuned = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, Duration::from_secs(30)))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10)))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 3));
    tuned.map_err(|e| LinkError::Io(e.into()))
}

/// Connects to a server at `HOST:PORT`.
///
/// # Errors
/// When it cannot be reached, or is not the one that is trusted.
pub async fn connect(
    addr: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, LinkError> {
    let slow = |what, d: Duration| LinkError::Slow { what, seconds: d.as_secs() };
    let tcp = timeout(CONNECT, TcpStream::connect(addr))
        .await
        .map_err(|_| slow("the connection", CONNECT))??;
    tune(&tcp)?;
    let name = ServerName::try_from(SERVER_NAME)
        .map_err(|e| LinkError::Certificate(format!("the server's name: {e}")))?;
    let tls = timeout(HANDSHAKE, TlsConnector::from(config).connect(name, tcp))
        .await
        .map_err(|_| slow("the handshake", HANDSHAKE))??;
    Ok(tls)
}
