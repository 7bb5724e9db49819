//! How each kind of receiver is told.

use super::{SECRETS_OF, smtp};
use crate::acts::signature;
use crate::brain::Brain;
use muster_model::alert::{Alert, Channel, Receiver};
use muster_model::names::{Label, ProjectName};
use muster_slo::Letter;
use muster_slo::words::{self, Item, Voice};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells receivers.
pub(super) struct Sender {
    brain: Brain,
    client: reqwest::Client,
    base: String,
}

impl Sender {
    /// `base` is the console's address.
    pub(super) fn new(brain: Brain, base: String) -> Result<Sender, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let base = base.trim_end_matches('/').to_owned();
        Ok(Sender { brain, client, base })
    }

    /// Tells a receiver; or says why it could not be told, without anything secret.
    pub(super) async fn send(
        &self,
        to: &Receiver,
        letter: &Letter,
        alerts: &BTreeMap<String, Alert>,
    ) -> Result<(), String> {
        let site = self.brain.read(|s| s.site.clone()).unwrap_or_default().to_string();
        let voice = Voice { site: &site, base: &self.base };
        let items: Vec<Item<'_>> =
            letter.alerts.iter().filter_map(|(id, news)| Some((alerts.get(id)?, *news))).collect();
        if items.is_empty() {
            return Ok(());
        }
        match &to.by {
            Channel::Alertmanager { url } => {
                let url = format!("{}/api/v2/alerts", url.trim_end_matches('/'));
                self.post(&url, &json(&words::alertmanager(&items, &voice))?, &[]).await
            }
            Channel::Webhook { url, sign } => {
                let body = json(&words::webhook(&items, &voice))?;
                let mut headers = vec![("idempotency-key", key(&site, to, &items))];
                if let Some(name) = sign {
                    let secret = self.secret(name).await?;
                    headers.push(("muster-signature", signature(secret.as_bytes(), &body)));
                }
                self.post(url, &body, &headers).await
            }
            Channel::Slack { url_secret } => {
                let url = self.secret(url_secret).await?;
                self.post(url.trim(), &json(&words::slack(&items, &voice))?, &[]).await
            }
            Channel::Smtp { server, from, to: people, user, password_secret } => {
                let password = match password_secret {
                    Some(name) => Some(self.secret(name).await?),
                    None => None,
                };
                let (subject, text) = words::mail(&items, &voice);
                let login = user.as_deref().zip(password.as_deref());
                let (id, at) = (key(&site, to, &items), self.brain.now());
                let mail =
                    smtp::Mail { from, to: people, subject: &subject, text: &text, at, id: &id };
                let sent = smtp::send(server, login, &mail);
                match tokio::time::timeout(PATIENCE, sent).await {
                    Ok(done) => done.map_err(|e| e.to_string()),
                    Err(_) => Err("the mail server took too long".to_owned()),
                }
            }
        }
    }

    async fn post(
        &self,
        url: &str,
        body: &[u8],
        headers: &[(&'static str, String)],
    ) -> Result<(), String> {
        let url = reqwest::Url::parse(url).map_err(|_| "its address is none".to_owned())?;
        let mut request =
            self.client.post(url).header("content-type", "application/json").body(body.to_vec());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        // The address may hold a secret.
        let answer = request.send().await.map_err(|e| cause(&e.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }

    /// A secret of the operators' project.
    async fn secret(&self, name: &Label) -> Result<String, String> {
        let project: ProjectName = SECRETS_OF.parse().map_err(|_| "no such project".to_owned())?;
        let found = self.brain.secret(&project, name.as_str()).await.map_err(|e| e.to_string())?;
        found.map(|v| v.trim().to_owned()).ok_or_else(|| {
            format!("there is no secret {name} in project {SECRETS_OF}: `muster secret set {name} --project {SECRETS_OF}` makes it")
        })
    }
}

/// The innermost reason: the outer ones only say that something failed.
fn cause(e: &dyn std::error::Error) -> String {
    let mut here = e;
    while let Some(next) = here.source() {
        here = next;
    }
    here.to_string()
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|e| e.to_string())
}

/// Lets the other side see a repeat for what it is.
fn key(site: &str, to: &Receiver, items: &[Item<'_>]) -> String {
    let of = |(a, news): &Item<'_>| format!("{}-{news:?}-{}", a.id, a.changed_at.0);
    let all: Vec<String> = items.iter().map(of).collect();
    let hash = sha2::Sha256::digest(all.join(" ").as_bytes());
    let hex: String = hash.iter().take(12).map(|b| format!("{b:02x}")).collect();
    format!("{site}-{}-{hex}", to.name)
}

use sha2::Digest as _;
