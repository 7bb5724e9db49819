//! What is remembered of one network port.

use super::active_findings::{FindingSubject, Findings, PendingFindings};
use super::layout::PortRow;
use crate::config::{WatchConfig, ms};
use crate::detect::meter::{Meter, Tick};
use crate::detect::port::{self, Errors};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::names::NodeName;
use muster_model::units::Time;

/// Losses of the link that are remembered.
const DOWNS: usize = 8;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;

/// One port.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: String,
    was_up: bool,
    up_before: bool,
    rows_down: u16,
    down_since: Time,
    downs: [i64; DOWNS],
    downed: Meter,
    symbols: Meter,
    symbols_hour: Meter,
    recoveries: Meter,
    receive: Meter,
}

impl Port {
    pub(super) fn new(name: String) -> Port {
        Port {
            name,
            was_up: false,
            up_before: false,
            rows_down: 0,
            down_since: Time(0),
            downs: [i64::MIN; DOWNS],
            downed: Meter::default(),
            symbols: Meter::default(),
            symbols_hour: Meter::default(),
            recoveries: Meter::default(),
            receive: Meter::default(),
        }
    }

    fn lost(&mut self, at: Time, times: usize) {
        for _ in 0..times.min(DOWNS) {
            self.downs.copy_within(1.., 0);
            self.downs[DOWNS - 1] = at.0;
        }
    }

    fn take(&mut self, row: PortRow, at: Time) {
        // A counter sees losses between two rows; without one, only what rows show is seen.
        match self.downed.add(at, row.downed, HOUR) {
            Tick::Rose(by) => self.lost(at, by.min(8.0) as usize),
            Tick::Absent if row.up < 0.5 && self.up_before => self.lost(at, 1),
            _ => {}
        }
        if row.up >= 0.5 {
            (self.was_up, self.up_before, self.rows_down) = (true, true, 0);
        } else if row.up < 0.5 && self.was_up {
            if self.rows_down == 0 {
                self.down_since = at;
            }
            self.up_before = false;
            self.rows_down = self.rows_down.saturating_add(1);
        }
        self.symbols.add(at, row.symbols, MINUTE);
        self.symbols_hour.add(at, row.symbols, HOUR);
        self.recoveries.add(at, row.recoveries, MINUTE);
        self.receive.add(at, row.receive, MINUTE);
    }

    fn downs(&self, at: Time) -> u32 {
        let hour = self.downs.iter().filter(|d| **d > at.0.saturating_sub(HOUR) && **d <= at.0);
        u32::try_from(hour.count()).unwrap_or(u32::MAX)
    }

    /// Takes in a row and judges it.
    pub(super) fn evaluate(
        &mut self,
        c: &WatchConfig,
        node: &NodeName,
        row: PortRow,
        at: Time,
        findings: &mut Findings,
        news: &mut PendingFindings,
    ) {
        self.take(row, at);
        let errors = Errors {
            symbols: self.symbols.rise(),
            symbols_hour: self.symbols_hour.rise(),
            recoveries: self.recoveries.rise(),
            receive: self.receive.rise(),
        };
        let up = row.up >= 0.5;
        let says = [
            (FailureMode::LINK_DOWN, port::down(c, self.rows_down, up).since(self.down_since)),
            (FailureMode::LINK_FLAP, port::flap(c, self.downs(at))),
            (FailureMode::SYMBOL_ERRORS, port::errors(c, errors)),
        ];
        for (kind, say) in says {
            let entity = || Entity::Port(node.clone(), self.name.clone());
            let over =
                if kind == FailureMode::SYMBOL_ERRORS { 10 * MINUTE } else { ms(c.over_after) };
            findings.settle(news, kind, entity, say, (at, over), FindingSubject::default());
        }
    }

    /// Windows begin anew.
    pub(super) fn forget(&mut self) {
        for m in
            [&mut self.symbols, &mut self.symbols_hour, &mut self.recoveries, &mut self.receive]
        {
            m.forget();
        }
        self.downs = [i64::MIN; DOWNS];
    }
}
