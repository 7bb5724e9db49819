//! Mail, as far as it is needed to notify somebody: one message over a connection that is encrypted
//! wherever the server offers it. A password is only given to an encrypted connection, or to this
//! very machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_model::units::Time;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Encrypted from the first byte on.
const SMTPS: u16 = 465;
/// Longer lines of an answer are not read.
const LINE_MAX: usize = 4096;
/// Longer lines are not allowed in a message, their end not counted (RFC 5322, 2.1.1).
const TEXT_LINE: usize = 998;
/// A subject with more characters is cut short.
const SUBJECT_MAX: usize = 400;

/// A message to be mailed.
pub(super) struct Mail<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a [String],
    pub(super) subject: &'a str,
    pub(super) text: &'a str,
    /// When it was written.
    pub(super) at: Time,
    /// What distinguishes it from every other message; the same when it is sent again.
    pub(super) id: &'a str,
}

/// Why a mail was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum MailError {
    #[error("the mail server cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    #[error("the mail server's name is none")]
    Name,
    #[error("the mail server answered `{answer}` to {to}")]
    Refused { to: &'static str, answer: String },
    #[error("the mail server has no TLS, and a password is not sent in the clear")]
    Clear,
    #[error("no certificates to trust were found")]
    Roots,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Sends one message.
pub(super) async fn send(
    server: &str,
    login: Option<(&str, &str)>,
    mail: &Mail<'_>,
) -> Result<(), MailError> {
    let (host, port) = server.rsplit_once(':').ok_or(MailError::Name)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().map_err(|_| MailError::Name)?;
    let tcp = TcpStream::connect((host, port)).await?;
    let here = tcp.peer_addr().is_ok_and(|a| a.ip().is_loopback());
    let implicit = port == SMTPS;
    let plain: Box<dyn Stream> = if implicit { encrypted(tcp, host).await? } else { Box::new(tcp) };
    let mut line = Line { io: BufReader::new(plain) };
    line.expect("its greeting", 220).await?;
    let mut offers = line.hello().await?;
    let mut secure = implicit;
    if !secure && offers.iter().any(|o| o == "STARTTLS") {
        line.send_line("STARTTLS", "STARTTLS", 220).await?;
        line = Line { io: BufReader::new(encrypted(line.io.into_inner(), host).await?) };
        offers = line.hello().await?;
        secure = true;
    }
    if let Some((user, password)) = login {
        if !secure && !here {
            return Err(MailError::Clear);
        }
        let plain = STANDARD.encode(format!("\0{user}\0{password}"));
        line.send_line("AUTH PLAIN", &format!("AUTH PLAIN {plain}"), 235).await?;
    }
    let eight_bit = offers.iter().any(|o| o == "8BITMIME");
    let body = if eight_bit { " BODY=8BITMIME" } else { "" };
    line.send_line("MAIL FROM", &format!("MAIL FROM:<{}>{body}", address(mail.from)), 250).await?;
    for to in mail.to {
        line.send_line("RCPT TO", &format!("RCPT TO:<{}>", address(to)), 250).await?;
    }
    line.send_line("DATA", "DATA", 354).await?;
    line.send_line("the message", &message(mail), 250).await?;
    // It is taken; whether the goodbye is answered does not matter.
    let _ = line.send_line("QUIT", "QUIT", 221).await;
    Ok(())
}

/// What may stand between the brackets of an address: nothing that ends them.
fn address(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>' | ' ')).collect()
}

/// A header's value; what is not ASCII is encoded.
fn header(text: &str) -> String {
    let clean = text.chars().take(SUBJECT_MAX);
    let clean: String = clean.map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.is_ascii() {
        return clean;
    }
    // An encoded word holds 45 bytes at most; characters are not cut.
    let mut words: Vec<String> = Vec::new();
    let mut part = String::new();
    for c in clean.chars() {
        if part.len() + c.len_utf8() > 45 {
            words.push(std::mem::take(&mut part));
        }
        part.push(c);
    }
    words.push(part);
    let coded = words.iter().map(|w| format!("=?utf-8?B?{}?=", STANDARD.encode(w)));
    coded.collect::<Vec<_>>().join("\r\n ")
}

/// The message with its headers and the dot that ends it.
fn message(mail: &Mail<'_>) -> String {
    let to: Vec<String> = mail.to.iter().map(|t| address(t)).collect();
    let mut out = format!(
        "Date: {}\r\nFrom: {}\r\nTo: {}\r\nMessage-ID: {}\r\nSubject: {}\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\
         Auto-Submitted: auto-generated\r\n\r\n",
        date(mail.at),
        address(mail.from),
        to.join(",\r\n "),
        message_id(mail),
        header(mail.subject),
    );
    for line in mail.text.lines().flat_map(pieces) {
        // A dot alone would end the message.
        if line.starts_with('.') {
            out.push('.');
        }
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.push('.');
    out
}

/// A line in pieces that may stand in a message.
fn pieces(line: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), line);
    while rest.len() > TEXT_LINE {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(TEXT_LINE));
        out.push(piece);
        rest = more;
    }
    out.push(rest);
    out
}

/// A moment as a message says it, such as `Mon, 16 Nov 2026 16:05:09 +0000`.
fn date(at: Time) -> String {
    let moment = jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let moment = moment.to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::rfc2822::DateTimePrinter::new().zoned_to_string(&moment).unwrap_or_default()
}

/// `<LEFT@RIGHT>` of plain characters only: the message's own id, and the sender's domain.
fn message_id(mail: &Mail<'_>) -> String {
    let plain = |text: &str| -> String {
        let keep = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let kept: String = text.chars().filter(keep).take(200).collect();
        // Dots stand between other characters only.
        let parts: Vec<&str> = kept.split('.').filter(|p| !p.is_empty()).collect();
        parts.join(".")
    };
    let domain = mail.from.rsplit_once('@').map_or("", |(_, domain)| domain);
    let (left, right) = (plain(mail.id), plain(domain));
    let right = if right.is_empty() { "muster.invalid" } else { right.as_str() };
    format!("<muster.{left}@{right}>")
}

async fn encrypted(plain: impl Stream + 'static, host: &str) -> Result<Box<dyn Stream>, MailError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(MailError::Roots);
    }
    let config = rustls::ClientConfig::builder_with_provider(muster_link::tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|_| MailError::Roots)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|_| MailError::Name)?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, plain).await?))
}

struct Line {
    io: BufReader<Box<dyn Stream>>,
}

impl Line {
    /// An answer: its code, and its lines without it.
    async fn answer(&mut self) -> Result<(u32, Vec<String>), MailError> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let most = LINE_MAX as u64 + 1;
            let read = (&mut self.io).take(most).read_line(&mut line).await?;
            if read == 0 || read > LINE_MAX || lines.len() > 100 {
                return Err(MailError::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let line = line.trim_end().to_owned();
            let code = line.get(..3).and_then(|c| c.parse().ok()).unwrap_or(0);
            let last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if last {
                return Ok((code, lines));
            }
        }
    }

    async fn expect(&mut self, to: &'static str, code: u32) -> Result<Vec<String>, MailError> {
        let (got, lines) = self.answer().await?;
        // 251: it will be passed on.
        if got == code || (code == 250 && got == 251) {
            return Ok(lines);
        }
        let text: String = lines.join(" ").chars().take(120).collect();
        Err(MailError::Refused { to, answer: format!("{got} {text}") })
    }

    async fn send_line(
        &mut self,
        to: &'static str,
        text: &str,
        code: u32,
    ) -> Result<Vec<String>, MailError> {
        self.io.get_mut().write_all(format!("{text}\r\n").as_bytes()).await?;
        self.io.get_mut().flush().await?;
        self.expect(to, code).await
    }

    /// Says hello; what the server offers.
    async fn hello(&mut self) -> Result<Vec<String>, MailError> {
        let lines = self.send_line("EHLO", "EHLO muster", 250).await?;
        Ok(lines.iter().map(|l| l.trim().to_ascii_uppercase()).collect())
    }
}
