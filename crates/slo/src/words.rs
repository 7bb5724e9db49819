//! What a receiver gets: the same news in the form that each kind of receiver reads. Sending it,
//! and signing it, is done elsewhere.

use crate::notifications::AlertChange;
use muster_model::alert::Alert;
use muster_model::calendar::rfc3339;
use serde::Serialize;
use std::collections::BTreeMap;

/// Members that are named in a message.
const NAMED: usize = 10;

/// In whose name a message is written, and where its links lead.
#[derive(Debug, Clone, Copy)]
pub struct MessageContext<'a> {
    /// The site's name.
    pub site: &'a str,
    /// Where the console is, without a slash at the end; empty where it is not known.
    pub base: &'a str,
}

/// An alert and what there is to report of it.
pub type Item<'a> = (&'a Alert, AlertChange);

impl MessageContext<'_> {
    /// A whole address from a path of the console; the path alone where that is not known.
    fn address(&self, path: &str) -> String {
        if path.starts_with('/') { format!("{}{path}", self.base) } else { path.to_owned() }
    }
}

/// An alert as an Alertmanager takes it (`POST /api/v2/alerts`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertmanagerAlert {
    /// What it is distinguished by.
    pub labels: BTreeMap<&'static str, String>,
    /// What is said about it.
    pub annotations: BTreeMap<&'static str, String>,
    /// When it began.
    pub starts_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// Where the evidence is. Left out where it is no whole address.
    #[serde(rename = "generatorURL", skip_serializing_if = "String::is_empty")]
    pub generator_url: String,
}

/// For an Alertmanager. One that becomes more urgent is another alert there, and the one before it
/// ends by itself.
#[must_use]
pub fn alertmanager(items: &[Item<'_>], context: &MessageContext<'_>) -> Vec<AlertmanagerAlert> {
    let one = |(a, news): &Item<'_>| {
        let mut labels = BTreeMap::from([
            ("alertname", a.kind.clone()),
            ("alert", a.id.clone()),
            ("severity", a.urgency.word().to_owned()),
            ("topic", a.topic.word().to_owned()),
            ("cause", a.cause.to_string()),
            ("site", context.site.to_owned()),
        ]);
        let whose = [("owner", a.owner.clone()), ("project", project(a))];
        labels.extend(whose.into_iter().filter(|(_, v)| !v.is_empty()));
        let annotations = BTreeMap::from([
            ("summary", a.summary.clone()),
            ("affected", affected(a)),
            ("runbook", context.address(&a.runbook)),
            ("evidence", context.address(&a.link)),
        ]);
        let over = *news == AlertChange::Over;
        AlertmanagerAlert {
            labels,
            annotations: annotations.into_iter().filter(|(_, v)| !v.is_empty()).collect(),
            starts_at: rfc3339(a.since),
            ends_at: a.resolved_at.filter(|_| over).map(rfc3339),
            generator_url: if context.base.is_empty() {
                String::new()
            } else {
                context.address(&a.link)
            },
        }
    };
    items.iter().map(one).collect()
}

/// For any endpoint that reads JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Hook<'a> {
    /// Shape of this document.
    pub version: u32,
    /// The site's id.
    pub site: &'a str,
    /// What there is to report, one entry for each alert.
    pub alerts: Vec<HookItem<'a>>,
}

/// One of them.
#[derive(Debug, Clone, Serialize)]
pub struct HookItem<'a> {
    /// What there is to report.
    pub news: AlertChange,
    /// The evidence, as a whole address.
    pub evidence: String,
    /// The runbook, as a whole address.
    pub instructions: String,
    /// The alert as it stands.
    #[serde(flatten)]
    pub alert: &'a Alert,
}

/// For any endpoint that reads JSON.
#[must_use]
pub fn webhook<'a>(items: &[Item<'a>], context: &MessageContext<'a>) -> Hook<'a> {
    let one = |(alert, news): &Item<'a>| HookItem {
        news: *news,
        evidence: context.address(&alert.link),
        instructions: context.address(&alert.runbook),
        alert,
    };
    Hook { version: 1, site: context.site, alerts: items.iter().map(one).collect() }
}

/// What Slack takes, and what takes the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatMessage {
    /// What is posted.
    pub text: String,
}

/// For a chat.
#[must_use]
pub fn slack(items: &[Item<'_>], context: &MessageContext<'_>) -> ChatMessage {
    let plain = |s: &str| s.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let line = |(a, news): &Item<'_>| {
        let mut text = format!("*{}* {}", plain(&head(a, *news)), plain(&a.summary));
        if !affected(a).is_empty() {
            text.push_str(&format!(" ({})", plain(&affected(a))));
        }
        for (word, path) in [("evidence", &a.link), ("runbook", &a.runbook)] {
            if !path.is_empty() && !context.base.is_empty() {
                // A bar or a bracket would end the link.
                let to = context.address(path).replace('|', "%7C").replace('>', "%3E");
                text.push_str(&format!(" <{to}|{word}>"));
            }
        }
        text
    };
    let lines: Vec<String> = items.iter().map(line).collect();
    ChatMessage { text: format!("{}\n{}", plain(context.site), lines.join("\n")) }
}

/// A mail: subject and text.
#[must_use]
pub fn mail(items: &[Item<'_>], context: &MessageContext<'_>) -> (String, String) {
    let first = items.first().map(|(a, n)| format!("{} {}", head(a, *n), a.summary));
    let more = match items.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let subject = format!("[{}] {}{more}", context.site, first.unwrap_or_default());
    // A header is one line.
    let subject = subject.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    let mut text = String::new();
    for (a, news) in items {
        let lines = [
            ("", format!("{} {}", head(a, *news), a.summary)),
            ("cause:    ", a.cause.to_string()),
            ("since:    ", rfc3339(a.since)),
            ("resolved: ", a.resolved_at.map(rfc3339).unwrap_or_default()),
            ("affected: ", affected(a)),
            ("owner:    ", a.owner.clone()),
            ("evidence: ", context.address(&a.link)),
            ("runbook:  ", context.address(&a.runbook)),
        ];
        for (word, value) in lines.iter().filter(|(_, v)| !v.is_empty()) {
            text.push_str(&format!("{word}{}\r\n", value.replace(['\r', '\n'], " ")));
        }
        text.push_str("\r\n");
    }
    (subject, text)
}

fn project(a: &Alert) -> String {
    a.project.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// `[page]`, `[page, still]`, `[resolved]`.
fn head(a: &Alert, news: AlertChange) -> String {
    let urgency = a.urgency.word();
    match news {
        AlertChange::Firing => format!("[{urgency}]"),
        AlertChange::Worse => format!("[{urgency}, worse]"),
        AlertChange::Still => format!("[{urgency}, still]"),
        AlertChange::Over => "[resolved]".to_owned(),
    }
}

/// `1 job with 32 GPUs, n1, n2 and 62 more`.
fn affected(a: &Alert) -> String {
    let some = |n: u64, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let jobs =
        (a.jobs > 0).then(|| format!("{} with {}", some(a.jobs, "job"), some(a.gpus, "GPU")));
    let named = a.members.iter().take(NAMED).map(ToString::to_string);
    let named: Vec<String> = jobs.into_iter().chain(named).collect();
    // The alert counts conditions; those that are named are things.
    let more = match a.members.len() {
        n if n >= muster_model::alert::MEMBERS_MAX => {
            format!(" and more, {} findings in all", a.count)
        }
        n if n > NAMED => format!(" and {} more", n - NAMED),
        _ => String::new(),
    };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::Time;
    use muster_model::alert::{AlertState, Topic, Urgency};

    const CONTEXT: MessageContext<'_> =
        MessageContext { site: "lab", base: "https://muster.example.org" };

    fn alert() -> Alert {
        Alert {
            id: "00ff".to_owned(),
            group: "incident:9".to_owned(),
            topic: Topic::Incident,
            kind: "leaf-loss".to_owned(),
            cause: "leaf:eu/l2".parse().unwrap(),
            above: vec![],
            urgency: Urgency::Page,
            state: AlertState::Firing,
            summary: "leaf <l2> is lost\nBcc: x@y".to_owned(),
            owner: "fleet".to_owned(),
            project: None,
            runbook: "/runbooks/leaf-loss".to_owned(),
            link: "/incidents/9".to_owned(),
            members: (0..12).map(|n| format!("node:n{n}").parse().unwrap()).collect(),
            paged: false,
            objectives: vec![],
            count: 13,
            jobs: 0,
            gpus: 0,
            since: Time(1_771_070_400_000),
            raised_at: Time(1_771_070_400_000),
            changed_at: Time(1_771_070_400_000),
            loud_since: None,
            silenced: None,
            gone_since: None,
            level: 0,
            acknowledged: None,
            resolved_at: Some(Time(1_771_070_460_000)),
            merged_into: None,
        }
    }

    #[test]
    fn an_alertmanager_gets_labels_that_stay() {
        let a = alert();
        let written = |news| serde_json::to_value(alertmanager(&[(&a, news)], &CONTEXT)).unwrap();
        let first = written(AlertChange::Firing);
        assert_eq!(first[0]["labels"]["alertname"], "leaf-loss");
        assert_eq!(first[0]["labels"]["severity"], "page");
        assert_eq!(first[0]["startsAt"], "2026-02-14T12:00:00.000Z");
        assert_eq!(first[0]["endsAt"], serde_json::Value::Null);
        assert_eq!(first[0]["generatorURL"], "https://muster.example.org/incidents/9");
        let runbook = "https://muster.example.org/runbooks/leaf-loss";
        assert_eq!(first[0]["annotations"]["runbook"], runbook);
        let over = written(AlertChange::Over);
        assert_eq!(over[0]["labels"], first[0]["labels"]);
        assert_eq!(over[0]["endsAt"], "2026-02-14T12:01:00.000Z");
        let lost = MessageContext { base: "", ..CONTEXT };
        let written =
            serde_json::to_value(alertmanager(&[(&a, AlertChange::Firing)], &lost)).unwrap();
        assert_eq!(written[0]["generatorURL"], serde_json::Value::Null);
        assert_eq!(written[0]["annotations"]["evidence"], "/incidents/9");
    }

    #[test]
    fn a_hook_gets_the_whole_alert() {
        let a = alert();
        let written =
            serde_json::to_value(webhook(&[(&a, AlertChange::Firing)], &CONTEXT)).unwrap();
        assert_eq!(
            (&written["version"], &written["alerts"][0]["news"]),
            (&1.into(), &"firing".into())
        );
        assert_eq!(written["alerts"][0]["cause"], "leaf:eu/l2");
        assert_eq!(
            written["alerts"][0]["instructions"],
            "https://muster.example.org/runbooks/leaf-loss"
        );
    }

    #[test]
    fn a_chat_and_a_mail_cannot_be_tricked() {
        let a = alert();
        let chat = slack(&[(&a, AlertChange::Still)], &CONTEXT).text;
        assert!(chat.starts_with("lab\n*[page, still]* leaf &lt;l2&gt; is lost"), "{chat}");
        assert!(chat.contains("node:n0, node:n1") && chat.contains("and 2 more"), "{chat}");
        assert!(
            chat.ends_with("<https://muster.example.org/runbooks/leaf-loss|runbook>"),
            "{chat}"
        );
        let (subject, text) = mail(&[(&a, AlertChange::Firing), (&a, AlertChange::Over)], &CONTEXT);
        assert_eq!(subject, "[lab] [page] leaf <l2> is lost Bcc: x@y and 1 more");
        assert!(text.contains("[resolved] leaf <l2> is lost Bcc: x@y\r\n"), "{text}");
        assert!(
            text.contains("runbook:  https://muster.example.org/runbooks/leaf-loss\r\n"),
            "{text}"
        );
        assert!(text.lines().all(|l| !l.starts_with("Bcc")), "{text}");
    }

    #[test]
    fn many_are_counted() {
        let mut a = alert();
        a.members = (0..64).map(|n| format!("node:n{n}").parse().unwrap()).collect();
        a.count = 200;
        assert!(affected(&a).ends_with("and more, 200 findings in all"));
        a.members.truncate(1);
        assert_eq!(affected(&a), "node:n0");
        (a.jobs, a.gpus) = (1, 32);
        assert_eq!(affected(&a), "1 job with 32 GPUs, node:n0");
    }
}
