//! What can be judged of objectives from the file alone.

use super::{
    BURN_MAX, BurnRule, DEFAULTS, FINE_MAX, HOUR, MINUTE, OBJECTIVES_MAX, Objective, Objectives,
    Ppm, Sli, TEXT_MAX, WINDOW_MAX, Window,
};
use crate::resolve::{one_line, some_lines};
use crate::spec::{SpecProblem, problem};
use crate::units::Span;
use std::collections::BTreeSet;

impl Objectives {
    /// Checks what can be judged from the file alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        if self.defaults > DEFAULTS {
            let text = format!("there is no set {}", self.defaults);
            return Err(problem("defaults", text, format!("the newest is {DEFAULTS}; 0 for none")));
        }
        if self.objectives.len() > OBJECTIVES_MAX {
            let text = format!("there are {}, more than {OBJECTIVES_MAX}", self.objectives.len());
            return Err(problem("objectives", text, "leave some out"));
        }
        let mut names = BTreeSet::new();
        for (i, o) in self.objectives.iter().enumerate() {
            let at =
                |p: SpecProblem| SpecProblem { field: format!("objectives[{i}].{}", p.field), ..p };
            if !names.insert(&o.name) {
                let text = format!("two objectives are called {}", o.name);
                return Err(at(problem("name", text, "give each its own name")));
            }
            o.check().map_err(at)?;
        }
        Ok(())
    }
}

impl Objective {
    /// Checks what can be judged from the objective alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        for (field, text) in [("owner", &self.owner), ("description", &self.description)] {
            if text.len() > TEXT_MAX {
                return Err(problem(
                    field,
                    "it is too long",
                    format!("use at most {TEXT_MAX} bytes"),
                ));
            }
            some_lines(field, text)?;
        }
        self.check_sli()?;
        if self.target.0 == 0 || self.target >= Ppm::ONE {
            return Err(problem(
                "target",
                format!("{} leaves almost no budget", self.target),
                "write more than 0% and less than 100%, like 99.9%",
            ));
        }
        if let Window::Rolling(w) = self.window
            && (w.0 < HOUR || w > WINDOW_MAX || !w.0.is_multiple_of(HOUR))
        {
            return Err(problem(
                "window",
                format!("{w} cannot be counted"),
                "write whole hours from 1h to 90d, or month",
            ));
        }
        let rules = self.burn.as_deref().unwrap_or_default();
        if rules.len() > BURN_MAX {
            return Err(problem("burn", "there are too many rules", format!("at most {BURN_MAX}")));
        }
        for (i, rule) in rules.iter().enumerate() {
            rule.check(self.target)
                .map_err(|p| SpecProblem { field: format!("burn[{i}].{}", p.field), ..p })?;
        }
        Ok(())
    }

    fn check_sli(&self) -> Result<(), SpecProblem> {
        let word = self.sli.word();
        let field = |f: &str| format!("sli.{word}.{f}");
        let limit = |f: &str, s: Span| match s.0 {
            0 => Err(problem(&field(f), "it is zero", "write a length of time, like 5m")),
            _ if s > WINDOW_MAX => Err(problem(&field(f), "it is longer than 90d", "write less")),
            _ => Ok(()),
        };
        if let Some(under) = self.sli.under() {
            limit("under", under)?;
        }
        if let Sli::Interruptions { cost } = self.sli {
            limit("cost", cost)?;
        }
        let (project, pool) = self.sli.scopes();
        if self.scope.project.is_some() && !project {
            let text = format!("{word} is not counted by project");
            return Err(problem("scope.project", text, "leave it out"));
        }
        if self.scope.pool.is_some() && !pool {
            let text = format!("{word} is not counted by pool");
            return Err(problem("scope.pool", text, "leave it out"));
        }
        if self.scope.pool.as_ref().is_some_and(|p| p.is_empty() || p.len() > 128) {
            return Err(problem(
                "scope.pool",
                "it is no name of a pool",
                "name one, or leave it out",
            ));
        }
        self.scope.pool.iter().try_for_each(|p| one_line("scope.pool", p))
    }
}

impl BurnRule {
    /// Can a budget of this target be spent so fast at all?
    #[must_use]
    pub fn reachable(&self, target: Ppm) -> bool {
        u64::from(self.factor.0) * u64::from(target.rest().0) < 1000 * u64::from(Ppm::ONE.0)
    }

    fn check(&self, target: Ppm) -> Result<(), SpecProblem> {
        let whole = |field: &str, s: Span| {
            let unit = if s > FINE_MAX { HOUR } else { MINUTE };
            if s.0 < MINUTE || s > WINDOW_MAX || !s.0.is_multiple_of(unit) {
                let text = format!("{s} cannot be counted");
                let hint = "write whole minutes from 1m to 8h, or whole hours to 90d";
                return Err(problem(field, text, hint));
            }
            Ok(())
        };
        whole("long", self.long)?;
        whole("short", self.short)?;
        if self.short > self.long {
            let text = format!("{} is longer than the long window", self.short);
            return Err(problem("short", text, "make it at most as long as `long`"));
        }
        if self.short == self.long && self.held.0 == 0 {
            let text = format!("{} is the long window again", self.short);
            let hint = "make it shorter than `long`, or write how long it must last with `for`";
            return Err(problem("short", text, hint));
        }
        if !self.held.0.is_multiple_of(MINUTE) || self.held > Span::hours(6) {
            let text = format!("{} cannot be counted", self.held);
            return Err(problem("for", text, "write whole minutes, at most 6h"));
        }
        if self.held.0 > 0 && self.long > FINE_MAX {
            let text = "it goes only with windows of at most 8h";
            return Err(problem("for", text, "leave it out, or make `long` shorter"));
        }
        if self.factor.0 == 0 {
            return Err(problem("factor", "it is zero", "write how many times too fast, like 2x"));
        }
        if !self.reachable(target) {
            let text = format!(
                "a budget of {} can never have a burn rate of {}: not all can be bad",
                target.rest(),
                self.factor
            );
            return Err(problem("factor", text, "take a smaller one"));
        }
        Ok(())
    }
}
