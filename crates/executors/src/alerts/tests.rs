//! Mail, to a server that takes everything.

use super::smtp;
use muster_model::units::Time;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// A mail server that takes everything; what it heard.
async fn mail_server() -> (String, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said = heard.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let said = said.clone();
            tokio::spawn(async move {
                let mut io = BufReader::new(socket);
                io.get_mut().write_all(b"220 here\r\n").await.unwrap();
                let (mut line, mut data) = (String::new(), false);
                while {
                    line.clear();
                    io.read_line(&mut line).await.unwrap()
                } > 0
                {
                    said.lock().unwrap().push_str(&line);
                    let answer: &[u8] = match line.trim_end() {
                        "." if data => {
                            data = false;
                            b"250 taken\r\n"
                        }
                        _ if data => continue,
                        "DATA" => {
                            data = true;
                            b"354 go on\r\n"
                        }
                        "QUIT" => b"221 bye\r\n",
                        l if l.starts_with("EHLO") => {
                            b"250-here\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n"
                        }
                        l if l.starts_with("AUTH PLAIN AG9wcwBwdw==") => b"235 yes\r\n",
                        l if l.contains("nobody@") => b"550 no such user\r\n",
                        _ => b"250 ok\r\n",
                    };
                    io.get_mut().write_all(answer).await.unwrap();
                }
            });
        }
    });
    (address, heard)
}

#[tokio::test]
async fn mail_is_sent_whole_and_a_refusal_is_reported() {
    let (server, heard) = mail_server().await;
    let to = vec!["ops@example.org".to_owned(), "b@example.org".to_owned()];
    let text = "[page] leaf is lost\r\n.hidden\r\n";
    let (at, id) = (Time(1_794_845_109_000), "site-1-oncall-0a1b");
    let subject = "größer\r\nBcc: x";
    let mail = smtp::Mail { from: "m@example.org", to: &to, subject, text, at, id };
    smtp::send(&server, Some(("ops", "pw")), &mail).await.unwrap();
    let said = heard.lock().unwrap().clone();
    assert!(said.contains("RCPT TO:<ops@example.org>") && said.contains("RCPT TO:<b@example.org>"));
    assert!(said.contains("Subject: =?utf-8?B?"), "{said}");
    assert!(said.contains("\r\n..hidden\r\n") && !said.contains("\nBcc"), "{said}");
    let to = vec!["nobody@example.org".to_owned()];
    let mail = smtp::Mail { from: "m@example.org", to: &to, subject: "s", text, at, id };
    let e = smtp::send(&server, None, &mail).await.unwrap_err().to_string();
    assert!(e.contains("550 no such user") && e.contains("RCPT TO"), "{e}");
    let e = smtp::send("127.0.0.1:1", None, &mail).await.unwrap_err().to_string();
    assert!(e.contains("cannot be reached"), "{e}");
    assert!(smtp::send("nonsense", None, &mail).await.is_err());
}

#[tokio::test]
async fn a_mail_has_the_form_that_mail_servers_insist_on() {
    let (server, heard) = mail_server().await;
    let to: Vec<String> = (0..80).map(|i| format!("person-{i}@example.org")).collect();
    let long = "ü".repeat(3000);
    // A name that would end the header, and lines that are too long.
    let id = "site>\r\nBcc: x..oncall-0a1b";
    let mail = smtp::Mail {
        from: "muster@ops.example.org",
        to: &to,
        subject: &"s".repeat(5000),
        text: &long,
        at: Time(1_794_845_109_000),
        id,
    };
    smtp::send(&server, None, &mail).await.unwrap();
    let said = heard.lock().unwrap().clone();
    let (_, message) = said.split_once("DATA\r\n").unwrap();
    let (head, body) = message.split_once("\r\n\r\n").unwrap();
    let fields = |name: &str| head.split("\r\n").filter(|l| l.starts_with(name)).count();
    for name in ["Date: ", "From: ", "To: ", "Message-ID: ", "Subject: "] {
        assert_eq!(fields(name), 1, "{name} once: {head}");
    }
    assert!(head.contains("Date: Mon, 16 Nov 2026 16:05:09 +0000\r\n"), "{head}");
    assert!(
        head.contains("Message-ID: <muster.siteBccx.oncall-0a1b@ops.example.org>\r\n"),
        "{head}"
    );
    assert!(message.split("\r\n").all(|l| l.len() <= 998), "no line is longer than 998");
    assert_eq!(body.matches('ü').count(), 3000, "and nothing is lost");
    // The next one is another message.
    let next = smtp::Mail { id: "site-oncall-ffff", ..mail };
    smtp::send(&server, None, &next).await.unwrap();
    assert!(heard.lock().unwrap().contains("<muster.site-oncall-ffff@ops.example.org>"));
}
