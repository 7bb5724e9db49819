//! The terminal: raw mode and the other screen while `top` runs, and as it was afterwards,
//! however it ends.

use super::draw;
use super::live;
use super::model::{Model, Msg};
use crossterm::event::{self, Event};
use muster_client::Client;
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use ratatui::DefaultTerminal;
use rustix::process::{Signal, kill_current_process_group};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Sender};

/// Time between two pictures, however much happens.
const DRAW: Duration = Duration::from_millis(100);
/// How often the thread that waits for keys looks whether it is still wanted.
const KEYS: Duration = Duration::from_millis(200);

fn broken(e: impl std::fmt::Display) -> Fail {
    Fail::failed(format!("cannot draw on this terminal: {e}"))
}

/// The terminal while it is ours. Dropping it gives it back.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal; a panic gives it back before it is reported.
    fn take() -> Result<Screen, Fail> {
        Ok(Screen { terminal: ratatui::try_init().map_err(broken)? })
    }

    fn draw(&mut self, model: &mut Model) -> Result<(), Fail> {
        let size = self.terminal.size().map_err(broken)?;
        model.update(Msg::Size(size.width, size.height));
        let shown = self.terminal.draw(|f| draw::draw(model, f.area(), f.buffer_mut()));
        shown.map(drop).map_err(broken)
    }

    /// To the shell, and back when the shell says so.
    fn suspend(&mut self) -> Result<(), Fail> {
        self.give_back();
        // Returns when the process goes on.
        let _ = kill_current_process_group(Signal::TSTP);
        self.again()
    }

    /// Takes the terminal again, of which nothing is known any more.
    fn again(&mut self) -> Result<(), Fail> {
        crossterm::terminal::enable_raw_mode().map_err(broken)?;
        crossterm::execute!(std::io::stdout(), crossterm::terminal::EnterAlternateScreen)
            .map_err(broken)?;
        self.terminal.clear().map_err(broken)
    }

    fn give_back(&mut self) {
        let _ = self.terminal.show_cursor();
        ratatui::restore();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Keys and sizes, from a thread of its own: reading a terminal blocks.
fn keys(tx: Sender<Msg>, stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let msg = match event::poll(KEYS) {
                Ok(false) => continue,
                Ok(true) => match event::read() {
                    Ok(Event::Key(key)) => Msg::Key(key),
                    Ok(Event::Resize(w, h)) => Msg::Size(w, h),
                    Ok(_) => continue,
                    Err(_) => return,
                },
                Err(_) => return,
            };
            if tx.blocking_send(msg).is_err() {
                return;
            }
        }
    });
}

/// Looks until the user has seen enough.
pub(super) async fn run(client: Client, mut model: Model) -> Result<u8, Fail> {
    let unix =
        |kind| signal(kind).map_err(|e| Fail::failed(format!("cannot listen for signals: {e}")));
    let mut term = unix(SignalKind::terminate())?;
    let mut int = unix(SignalKind::interrupt())?;
    let mut hup = unix(SignalKind::hangup())?;
    let mut cont = unix(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut screen = Screen::take()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (tx, mut rx) = mpsc::channel(256);
    keys(tx.clone(), Arc::clone(&stop));
    tokio::spawn(live::follow(client.clone(), tx.clone()));
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    let code = loop {
        screen.draw(&mut model)?;
        tokio::select! {
            Some(msg) = rx.recv() => model.update(msg),
            _ = clock.tick() => {}
            _ = term.recv() => break 143,
            _ = int.recv() => break 130,
            _ = hup.recv() => break 129,
            _ = cont.recv() => screen.again()?,
        }
        // Whatever came meanwhile is one picture.
        let until = tokio::time::Instant::now() + DRAW;
        while !model.quit && !model.suspend {
            match rx.try_recv() {
                Ok(Msg::Key(key)) => {
                    model.update(Msg::Key(key));
                    break;
                }
                Ok(msg) => model.update(msg),
                Err(_) => break,
            }
            if tokio::time::Instant::now() > until {
                break;
            }
        }
        if std::mem::take(&mut model.suspend) {
            screen.suspend()?;
        }
        if model.quit {
            break 0;
        }
        model.update(Msg::Tick(now()));
        for want in model.due() {
            tokio::spawn(live::read(client.clone(), want, tx.clone()));
        }
    };
    stop.store(true, Ordering::Relaxed);
    drop(screen);
    Ok(code)
}
