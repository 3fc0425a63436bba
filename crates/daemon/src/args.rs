//! The command line, and the daemon's own settings.

use std::path::PathBuf;

use blindsum_monitor::Settings;
use blindsum_net::coordinator::ConfigFile;
use clap::Parser;
use serde::Deserialize;
use tracing::warn;

use crate::Failure;

/// Coordinator of secure aggregation: adds up the updates of certified parties without seeing them.
#[derive(Parser, Clone, Debug)]
#[command(name = "blindsumd", version)]
pub struct Args {
    /// Configuration file (TOML).
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen, as in 0.0.0.0:9443.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The coordinator's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The CA of the parties (PEM).
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The CA's revocation list (PEM).
    #[arg(long, value_name = "FILE")]
    revoked: Option<PathBuf>,
    /// The SQLite file that remembers jobs, rounds and models.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// The file of the audit trail.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Stop once every job is over.
    #[arg(long)]
    stop_when_done: bool,
    /// Which log lines are written: off, error, warn, info, debug, trace, or a list as in warn,blindsum_net=debug.
    #[arg(long, value_name = "LEVEL", env = "BLINDSUM_LOG")]
    log_level: Option<String>,
    /// How log lines are written: text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Where to answer scrapes (/metrics) and health checks (/livez, /readyz) by plain HTTP, as in 127.0.0.1:9090.
    #[arg(long, value_name = "ADDRESS:PORT", alias = "health")]
    metrics: Option<String>,
    /// Where to show people how jobs stand, by plain HTTP, as in 127.0.0.1:9091.
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<String>,
    /// The file whose first line is the token that the dashboard asks for.
    #[arg(long, value_name = "FILE")]
    dashboard_token_file: Option<PathBuf>,
    /// Any other field, before what the file says: limits.connections=100, jobs.0.rounds=3.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Check the configuration and end.
    #[arg(long)]
    pub check: bool,
}

impl Args {
    /// The flags as settings, those of `--set` last. Paths are relative to the folder in which the program runs, not to
    /// the configuration file.
    pub fn settings(&self) -> Vec<String> {
        let here = std::env::current_dir().unwrap_or_default();
        let text = |value: &str| toml::Value::String(value.to_owned()).to_string();
        let path = |value: &PathBuf| text(&here.join(value).display().to_string());
        let paths = [
            ("certificate", &self.certificate),
            ("key", &self.key),
            ("ca", &self.ca),
            ("revoked", &self.revoked),
            ("store", &self.store),
            ("audit", &self.audit),
            ("dashboard_token_file", &self.dashboard_token_file),
        ];
        let texts = [
            ("listen", &self.listen),
            ("program.log_level", &self.log_level),
            ("program.log_format", &self.log_format),
            ("metrics", &self.metrics),
            ("dashboard", &self.dashboard),
        ];
        let mut settings = Vec::new();
        for (key, value) in paths {
            settings.extend(value.as_ref().map(|value| format!("{key}={}", path(value))));
        }
        for (key, value) in texts {
            settings.extend(value.as_ref().map(|value| format!("{key}={}", text(value))));
        }
        if self.stop_when_done {
            settings.push("stop_when_done=true".into());
        }
        settings.extend(self.set.iter().cloned());
        settings
    }
}

/// The table `program` of the configuration.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Program {
    /// Filter of log lines.
    pub log_level: String,
    /// `text` or `json`.
    pub log_format: String,
    /// The name that the setting `metrics` had before 0.2.
    health: Option<String>,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            log_level: "info".into(),
            log_format: "text".into(),
            health: None,
        }
    }
}

impl Program {
    /// Reads the table.
    pub fn read(table: &toml::Table) -> Result<Self, Failure> {
        table.clone().try_into().map_err(|e: toml::de::Error| {
            let rule = blindsum_net::toml_words(&e, "");
            Failure::Program {
                field: "program",
                rule,
            }
        })
    }

    /// What operators and their programs see, and where.
    pub fn shown(&self, file: &ConfigFile) -> Result<Settings, Failure> {
        Ok(Settings {
            metrics: self.metrics(file.metrics.as_deref())?,
            dashboard: file.dashboard.clone(),
            dashboard_token_file: file.token_file(),
        })
    }

    /// The address for metrics and health: the setting `metrics`, or else the one by its old name.
    fn metrics(&self, metrics: Option<&str>) -> Result<Option<String>, Failure> {
        match (metrics, &self.health) {
            (Some(_), Some(_)) => Err(Failure::Program {
                field: "program.health",
                rule: "is the old name of metrics, which is given too: leave program.health out"
                    .into(),
            }),
            (Some(metrics), None) => Ok(Some(metrics.into())),
            (None, health) => Ok(health.clone()),
        }
    }

    /// Warns of a setting that has another name now.
    pub fn warn_of_old_words(&self) {
        if self.health.is_some() {
            warn!(
                "program.health is called metrics now, at the top of the file: the old name goes away in the next release"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings() {
        let args = [
            "blindsumd",
            "--listen",
            "[::1]:9",
            "--ca",
            "/tmp/a \"b\".pem",
            "--set",
            "jobs.0.rounds=3",
        ];
        let settings = Args::parse_from(args).settings();
        assert!(
            settings.contains(&"listen=\"[::1]:9\"".to_owned()),
            "{settings:?}"
        );
        assert_eq!(settings.last().unwrap(), "jobs.0.rounds=3");
        let ca = settings.iter().find(|s| s.starts_with("ca=")).unwrap();
        assert_eq!(ca, "ca='/tmp/a \"b\".pem'");
    }

    #[test]
    fn the_old_name_of_metrics_still_counts_alone() {
        let table: toml::Table = "health = '127.0.0.1:1'".parse().unwrap();
        let program = Program::read(&table).unwrap();
        let address = program.metrics(None).unwrap();
        assert_eq!(address.as_deref(), Some("127.0.0.1:1"));
        let error = program.metrics(Some("127.0.0.1:2")).unwrap_err();
        assert!(
            error.to_string().contains("leave program.health out"),
            "{error}"
        );
    }

    #[test]
    fn unknown_program_settings_are_refused() {
        let table: toml::Table = "log_levle = 'info'".parse().unwrap();
        let error = Program::read(&table).unwrap_err().to_string();
        assert!(error.contains("log_levle"), "{error}");
        assert!(error.starts_with("program: "), "{error}");
    }
}
