//! Time passes.

use super::ClusterRun;
use muster_model::ids::JobId;
use muster_model::units::{Span, Time};

impl ClusterRun {
    /// The next moment at which something happens by itself.
    pub fn next_event(&self) -> Option<Time> {
        let ends = self.ends.values().copied();
        let stops = self.stops.values().map(|s| s.0);
        let reported = self.reported.values().map(|t| t.at).filter(|t| *t > self.now);
        let again = self.look_again.into_iter().filter(|t| *t > self.now);
        let windows = self
            .reservations
            .iter()
            .filter_map(|c| c.reservation.window(self.now))
            .flat_map(|(a, b)| [a, b])
            .filter(|t| *t > self.now);
        ends.chain(stops).chain(reported).chain(again).chain(windows).min()
    }

    /// Time passes until `t`, with all that happens on the way.
    pub fn pass_to(&mut self, t: Time) {
        while let Some(e) = self.next_event().filter(|e| *e <= t) {
            self.now = self.now.max(e);
            self.happen();
            self.cycle();
        }
        self.now = t;
        self.cycle();
    }

    fn happen(&mut self) {
        let due: Vec<JobId> =
            self.ends.iter().filter(|(_, t)| **t <= self.now).map(|(id, _)| *id).collect();
        for id in due {
            self.finish(id);
        }
        let due: Vec<JobId> =
            self.stops.iter().filter(|(_, s)| s.0 <= self.now).map(|(id, _)| *id).collect();
        for id in due {
            self.gone(id);
        }
    }

    pub fn pass(&mut self, s: Span) {
        self.pass_to(self.now + s);
    }

    /// Lets everything come to its end. Returns who still waits when nothing happens any more.
    pub fn drain(&mut self) -> Vec<JobId> {
        let mut idle = 0;
        for _ in 0..20_000 {
            let quiet = self.ends.is_empty() && self.stops.is_empty();
            idle = if quiet { idle + 1 } else { 0 };
            let Some(e) = self.next_event().filter(|_| idle < 30) else {
                return self.c.queue.jobs().collect();
            };
            self.now = self.now.max(e);
            self.happen();
            self.cycle();
        }
        panic!("it never comes to rest");
    }
}
