//! What keys do. `top` only looks: no key changes anything at the site.

use super::model::{Model, View};
use super::rows;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Longest filter.
const LONGEST: usize = 60;

/// A key was pressed.
pub(super) fn press(m: &mut Model, key: KeyEvent) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => m.quit = true,
            KeyCode::Char('z') => m.suspend = true,
            KeyCode::Char('f') => step(m, page(m)),
            KeyCode::Char('b') => step(m, -page(m)),
            KeyCode::Char('u') if m.typing => m.filter.clear(),
            _ => {}
        }
        return;
    }
    if m.typing {
        return type_filter(m, key.code);
    }
    match key.code {
        KeyCode::Char('q') => m.quit = true,
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') => back(m),
        KeyCode::Char('?') => m.help = !m.help,
        KeyCode::Char(c @ '1'..='4') => {
            let at = c.to_digit(10).unwrap_or(1) as usize - 1;
            m.go(View::ALL[at]);
        }
        KeyCode::Tab => m.go(m.view.next(false)),
        KeyCode::BackTab => m.go(m.view.next(true)),
        KeyCode::Char('/') => {
            m.help = false;
            m.typing = true;
        }
        KeyCode::Char('j') | KeyCode::Down => step(m, 1),
        KeyCode::Char('k') | KeyCode::Up => step(m, -1),
        KeyCode::PageDown | KeyCode::Char(' ') => step(m, page(m)),
        KeyCode::PageUp => step(m, -page(m)),
        KeyCode::Home | KeyCode::Char('g') => step(m, isize::MIN / 2),
        KeyCode::End | KeyCode::Char('G') => step(m, isize::MAX / 2),
        KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => m.enter(),
        _ => {}
    }
}

fn page(m: &Model) -> isize {
    isize::try_from(m.size.1.saturating_sub(8).max(1)).unwrap_or(1)
}

fn type_filter(m: &mut Model, code: KeyCode) {
    match code {
        KeyCode::Enter => m.typing = false,
        KeyCode::Esc => {
            m.typing = false;
            m.filter.clear();
        }
        KeyCode::Backspace => {
            m.filter.pop();
        }
        KeyCode::Char(c) if !c.is_control() && m.filter.chars().count() < LONGEST => {
            m.filter.push(c);
        }
        _ => {}
    }
    m.scroll = 0;
}

/// Out of what was opened last.
fn back(m: &mut Model) {
    if m.help {
        m.help = false;
    } else if m.opened.is_some() {
        m.opened = None;
        m.scroll = 0;
    } else if !m.filter.is_empty() {
        m.filter.clear();
    } else if m.view == View::Job {
        m.go(View::Queue);
    }
}

/// Up or down: the cursor of a list, or the lines of a page.
fn step(m: &mut Model, by: isize) {
    let keys: Vec<String> = match m.view {
        View::Queue if !m.help => rows::jobs(m).iter().map(|j| j.id.clone()).collect(),
        View::Incidents if !m.help && m.opened.is_none() => {
            rows::items(m).into_iter().map(|i| i.key).collect()
        }
        _ => {
            // How far it goes is known when it is drawn.
            m.scroll = m.scroll.saturating_add_signed(by).min(super::draw::longest(m));
            return;
        }
    };
    m.cursor().step(&keys, by);
}
