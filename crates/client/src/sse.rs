//! Following the log: server-sent events that go on where they broke off.

use crate::fleet::chosen_events;
use crate::http::{MAX_BREAKS, pause};
use crate::waits::STREAM_SILENCE;
use crate::{Client, ClientError};
use muster_api::{Event, EventsQuery};

/// Longest message that is taken; the server sends none that comes near.
const MAX_MESSAGE: usize = 16 << 20;

/// The log as it grows. Nothing is skipped and nothing comes twice.
#[derive(Debug)]
pub struct EventFollow {
    client: Client,
    wanted: EventsQuery,
    cursor: Option<String>,
    answer: Option<reqwest::Response>,
    parser: Parser,
    breaks: u32,
    /// The server was there once.
    begun: bool,
}

impl Client {
    /// Follows the log from after this cursor; from its beginning when there is none.
    #[must_use]
    pub fn follow_events(&self, after: Option<String>) -> EventFollow {
        self.follow_chosen_events(EventsQuery { after, ..EventsQuery::default() })
    }

    /// Follows those events of the log that a query chooses.
    #[must_use]
    pub fn follow_chosen_events(&self, wanted: EventsQuery) -> EventFollow {
        EventFollow {
            client: self.clone(),
            cursor: wanted.after.clone(),
            wanted,
            answer: None,
            parser: Parser::default(),
            breaks: 0,
            begun: false,
        }
    }
}

impl EventFollow {
    /// The next event; waits for it, through restarts of the server if need be.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(message) = self.parser.pop() {
                if message.data.is_empty() {
                    continue;
                }
                let event: Event = serde_json::from_str(&message.data)
                    .map_err(|e| self.client.garbled(format!("an event: {e}")))?;
                self.cursor = message
                    .id
                    .or_else(|| (event.seq > 0).then(|| event.seq.to_string()))
                    .or(self.cursor.take());
                self.breaks = 0;
                return Ok(event);
            }
            if self.answer.is_none() {
                let mut call = self.client.get(&["v1", "events"]);
                call = call.query(&[("after", self.cursor.clone())]);
                call = call.query(&chosen_events(&self.wanted));
                call.accept = "text/event-stream";
                call.last_event.clone_from(&self.cursor);
                call.endless = true;
                self.parser = Parser::default();
                match self.client.open(&call).await {
                    Ok(answer) => (self.answer, self.begun) = (Some(answer), true),
                    // One that served before is being started again, or another takes over.
                    Err(e) if self.begun && e.is_passing() && self.breaks < MAX_BREAKS => {
                        self.breaks += 1;
                        self.client.rest(&e, self.breaks).await;
                        continue;
                    }
                    Err(e) => return Err(e),
                }
            }
            let Some(answer) = &mut self.answer else { continue };
            let (waits, server) = (&self.client.waits, self.client.server());
            match waits.answer(STREAM_SILENCE, server, answer.chunk()).await {
                Ok(Some(bytes)) => {
                    waits.answered();
                    if !self.parser.push(&bytes) {
                        return Err(self.client.garbled("an event without an end"));
                    }
                }
                broken => {
                    self.answer = None;
                    self.breaks += 1;
                    if self.breaks > MAX_BREAKS {
                        return Err(match broken {
                            Err(e) => self.client.unreachable(e),
                            Ok(_) => self.client.garbled("the stream of events ends at once"),
                        });
                    }
                    tokio::time::sleep(pause(self.breaks)).await;
                }
            }
        }
    }

    /// The place to go on from with [`Client::follow_events`].
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

/// One message of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    id: Option<String>,
    data: String,
}

/// Takes bytes in any pieces, gives whole messages.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    message: Message,
    ready: std::collections::VecDeque<Message>,
}

impl Parser {
    /// False when a message grows past all bounds.
    fn push(&mut self, bytes: &[u8]) -> bool {
        for &b in bytes {
            if b != b'\n' {
                self.line.push(b);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            self.take_line(line.strip_suffix('\r').unwrap_or(&line));
        }
        self.line.len() + self.message.data.len() <= MAX_MESSAGE
    }

    fn take_line(&mut self, line: &str) {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            if message != Message::default() {
                self.ready.push_back(message);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.message.id = Some(value.into()),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // `event`, `retry` and comments (an empty field) say nothing that is needed here.
            _ => {}
        }
    }

    fn pop(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_whatever_the_pieces() {
        let text = b": hello\n\nid: 7\nevent: x\ndata: {\"a\":1}\r\n\r\nid:8\ndata: a\ndata: b\n\n";
        for size in [1, 2, 3, 7, text.len()] {
            let mut p = Parser::default();
            for piece in text.chunks(size) {
                assert!(p.push(piece));
            }
            assert_eq!(p.pop(), Some(Message { id: Some("7".into()), data: "{\"a\":1}".into() }));
            assert_eq!(p.pop(), Some(Message { id: Some("8".into()), data: "a\nb".into() }));
            assert_eq!(p.pop(), None);
        }
    }
}
