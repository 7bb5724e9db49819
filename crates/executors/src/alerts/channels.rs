//! How each kind of receiver is notified.

use super::{SECRETS_OF, smtp};
use crate::effect::Log;
use crate::webhook::{self, PATIENCE, signature};
use muster_model::alert::{Alert, Channel, Receiver};
use muster_model::names::{Label, ProjectName};
use muster_slo::Notification;
use muster_slo::words::{self, Item, MessageContext};
use sha2::Digest as _;
use std::collections::BTreeMap;

/// Notifies receivers.
pub struct Sender<L> {
    log: L,
    client: reqwest::Client,
    base: String,
}

impl<L: Log> Sender<L> {
    /// `base` is the console's address.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub fn new(log: L, base: String) -> Result<Sender<L>, reqwest::Error> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Sender { log, client: webhook::client()?, base })
    }

    /// Notifies a receiver.
    ///
    /// # Errors
    /// Why it could not be notified, without anything secret.
    pub async fn send(
        &self,
        to: &Receiver,
        letter: &Notification,
        alerts: &BTreeMap<String, Alert>,
    ) -> Result<(), String> {
        let site = self.log.read(|s| s.site.clone()).unwrap_or_default().to_string();
        let context = MessageContext { site: &site, base: &self.base };
        let items: Vec<Item<'_>> =
            letter.alerts.iter().filter_map(|(id, news)| Some((alerts.get(id)?, *news))).collect();
        if items.is_empty() {
            return Ok(());
        }
        match &to.by {
            Channel::Alertmanager { url } => {
                let url = format!("{}/api/v2/alerts", url.trim_end_matches('/'));
                self.post(&url, &json(&words::alertmanager(&items, &context))?, &[]).await
            }
            Channel::Webhook { url, sign } => {
                let body = json(&words::webhook(&items, &context))?;
                let mut headers = vec![("idempotency-key", key(&site, to, &items))];
                if let Some(name) = sign {
                    let secret = self.secret(name).await?;
                    headers.push(("muster-signature", signature(secret.as_bytes(), &body)));
                }
                self.post(url, &body, &headers).await
            }
            Channel::Slack { url_secret } => {
                let url = self.secret(url_secret).await?;
                self.post(url.trim(), &json(&words::slack(&items, &context))?, &[]).await
            }
            Channel::Smtp { server, from, to: people, user, password_secret } => {
                let password = match password_secret {
                    Some(name) => Some(self.secret(name).await?),
                    None => None,
                };
                let (subject, text) = words::mail(&items, &context);
                let login = user.as_deref().zip(password.as_deref());
                let (id, at) = (key(&site, to, &items), self.log.now());
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
        webhook::post(&self.client, url, headers, body).await
    }

    /// A secret of the operators' project.
    async fn secret(&self, name: &Label) -> Result<String, String> {
        let project: ProjectName = SECRETS_OF.parse().map_err(|_| "no such project".to_owned())?;
        let found = self.log.secret(&project, name.as_str()).await?;
        found.map(|v| v.trim().to_owned()).ok_or_else(|| {
            format!("there is no secret {name} in project {SECRETS_OF}: `muster secret set {name} --project {SECRETS_OF}` makes it")
        })
    }
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
