//! The model of a dashboard, as Grafana imports it.

use serde_json::{Value, json};

/// Columns of a dashboard.
const COLUMNS: u32 = 24;

/// How a panel shows its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Lines over time.
    Lines,
    /// Areas on top of each other.
    Stack,
    /// One number.
    Number,
    /// Bars of what is now.
    Bars,
    /// A table of what is now.
    Table,
}

/// A panel of a dashboard: queries and how they are drawn.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What stands above it.
    pub title: &'static str,
    /// How it shows its figures.
    pub show: Show,
    /// Grafana's word for the unit.
    pub unit: &'static str,
    /// Columns it takes.
    pub width: u32,
    /// What it means.
    pub about: &'static str,
    /// Expressions, each with its legend.
    pub queries: Vec<(&'static str, &'static str)>,
}

/// Something that is chosen at the top.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name, `$name` in expressions.
    pub name: &'static str,
    /// Where its values come from.
    pub query: &'static str,
    /// What is asked.
    pub label: &'static str,
}

/// A dashboard: panels, and what can be chosen above them.
#[derive(Debug, Clone)]
pub struct Dashboard {
    /// The name of its file and its id.
    pub name: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// Whom it is for and what it answers, in a sentence.
    pub about: &'static str,
    /// How far it looks back.
    pub back: &'static str,
    /// What is chosen at the top.
    pub variables: Vec<Variable>,
    /// Rows: a title, and panels.
    pub rows: Vec<(&'static str, Vec<Panel>)>,
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn variable(v: &Variable) -> Value {
    json!({
        "name": v.name, "label": v.label, "type": "query", "datasource": source(),
        "query": {"query": v.query, "refId": "values"}, "definition": v.query,
        "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
    })
}

fn panel(p: &Panel, id: u32, (x, y): (u32, u32), height: u32) -> Value {
    let instant = matches!(p.show, Show::Number | Show::Bars | Show::Table);
    let target = |(n, (expr, legend)): (usize, &(&str, &str))| {
        let letter = char::from(b'A' + u8::try_from(n).unwrap_or(25).min(25));
        json!({
            "refId": letter.to_string(), "datasource": source(), "expr": expr,
            "legendFormat": legend, "editorMode": "code", "range": !instant, "instant": instant,
            "format": if p.show == Show::Table { "table" } else { "time_series" },
        })
    };
    let (kind, options) = match p.show {
        Show::Lines | Show::Stack => (
            "timeseries",
            json!({"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                   "tooltip": {"mode": "multi", "sort": "desc"}}),
        ),
        Show::Number => (
            "stat",
            json!({"colorMode": "value", "graphMode": "none", "reduceOptions":
                   {"calcs": ["lastNotNull"], "fields": "", "values": false}}),
        ),
        Show::Bars => (
            "bargauge",
            json!({"displayMode": "gradient", "orientation": "horizontal", "reduceOptions":
                   {"calcs": ["lastNotNull"], "fields": "", "values": false}}),
        ),
        Show::Table => ("table", json!({"showHeader": true, "cellHeight": "sm"})),
    };
    let custom = match p.show {
        Show::Stack => json!({"fillOpacity": 60, "lineWidth": 1,
                              "stacking": {"mode": "normal", "group": "A"}}),
        Show::Lines => json!({"fillOpacity": 8, "lineWidth": 1}),
        _ => json!({}),
    };
    json!({
        "id": id, "type": kind, "title": p.title, "description": p.about, "datasource": source(),
        "gridPos": {"x": x, "y": y, "w": p.width, "h": height},
        "targets": p.queries.iter().enumerate().map(target).collect::<Vec<_>>(),
        "fieldConfig": {"defaults": {"unit": p.unit, "custom": custom}, "overrides": []},
        "options": options,
    })
}

impl Dashboard {
    /// As Grafana imports it.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut panels = Vec::new();
        let (mut id, mut y) = (0, 0);
        for (title, row) in &self.rows {
            id += 1;
            panels.push(json!({"id": id, "type": "row", "title": title, "collapsed": false,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}, "panels": []}));
            y += 1;
            let (mut x, mut tall) = (0, 0);
            for p in row {
                let height = if p.show == Show::Number { 4 } else { 8 };
                if x + p.width > COLUMNS {
                    (x, y) = (0, y + tall);
                    tall = 0;
                }
                id += 1;
                panels.push(panel(p, id, (x, y), height));
                (x, tall) = (x + p.width, tall.max(height));
            }
            y += tall;
        }
        let datasource = json!({"name": "datasource", "label": "Source", "type": "datasource",
            "query": "prometheus", "current": {}, "refresh": 1});
        let variables: Vec<Value> =
            [datasource].into_iter().chain(self.variables.iter().map(variable)).collect();
        json!({
            "uid": format!("muster-{}", self.name), "title": self.title, "description": self.about,
            "tags": ["muster"], "schemaVersion": 39, "version": 1, "editable": true,
            "timezone": "utc", "refresh": "30s", "graphTooltip": 1,
            "time": {"from": self.back, "to": "now"},
            "templating": {"list": variables}, "annotations": {"list": []}, "links": [
                {"type": "dashboards", "title": "Muster", "tags": ["muster"], "asDropdown": true,
                 "includeVars": true, "keepTime": true}],
            "panels": panels,
        })
    }

    /// All its expressions.
    pub fn queries(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        let panels = self.rows.iter().flat_map(|(_, panels)| panels);
        panels.flat_map(|p| p.queries.iter().map(|(expr, _)| (p.title, *expr)))
    }
}
