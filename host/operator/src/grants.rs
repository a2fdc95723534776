//! The capabilities a pipeline gives to a slot.

/// What becomes of a component that imports what its slot does not grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ungranted {
    /// It does not start.
    #[default]
    Refuse,
    /// It starts, and a call of that import costs the instance as a trap does. For toolchains that import every interface
    /// of a world whether it is used or not. What this host does not know at all is refused nevertheless.
    Trap,
}

/// Which host interfaces the operator of a slot may import. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// `tidegate:operator/log`.
    pub log: bool,
    /// `tidegate:operator/config`.
    pub config: bool,
    /// `tidegate:operator/metrics`.
    pub metrics: bool,
    /// What becomes of imports beyond these.
    pub ungranted: Ungranted,
}

/// A grant that this host does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown grant {0:?}: log, config and metrics can be granted")]
pub struct UnknownGrant(pub String);

impl Grants {
    /// Everything there is to grant.
    pub const ALL: Grants = Grants {
        log: true,
        config: true,
        metrics: true,
        ungranted: Ungranted::Refuse,
    };

    /// The grants of a pipeline file: `log`, `config`, `metrics`.
    pub fn from_names<'a>(
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Grants, UnknownGrant> {
        let mut grants = Grants::default();
        for name in names {
            match name {
                "log" => grants.log = true,
                "config" => grants.config = true,
                "metrics" => grants.metrics = true,
                other => return Err(UnknownGrant(other.to_owned())),
            }
        }
        Ok(grants)
    }

    /// Whether an interface of the operator package is granted.
    pub(crate) fn contains(&self, interface: &str) -> bool {
        match interface {
            "log" => self.log,
            "config" => self.config,
            "metrics" => self.metrics,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_that_is_not_named() {
        let grants = Grants::from_names(["log"]).unwrap();
        assert!(grants.contains("log") && !grants.contains("config") && !grants.contains("http"));
        let error = Grants::from_names(["log", "http"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown grant \"http\": log, config and metrics can be granted"
        );
    }
}
