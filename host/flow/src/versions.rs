//! Which versions of operators had a part in a record, or in an answer.
//!
//! Records that came to a stage together were made by the same ones, in the same order: they are noted with the batch, not
//! with each record, and kept with what waits. So whoever asks later is told what made a record, and not what runs by then.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_contract::OperatorVersion;

/// Versions in the order in which they had a part. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions(Option<Arc<str>>);

impl Versions {
    /// As they were kept. What is no text of these is none.
    pub(crate) fn kept(text: &str) -> Versions {
        match serde_json::from_str(text) {
            Ok(Value::Array(all)) if !all.is_empty() => Versions(Some(text.into())),
            _ => Versions::default(),
        }
    }

    /// As they are kept: empty where there are none.
    pub(crate) fn to_kept(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// A JSON array.
    pub(crate) fn to_json(&self) -> Value {
        let all = self.0.as_deref().map(serde_json::from_str);
        all.and_then(Result::ok)
            .unwrap_or_else(|| Value::Array(Vec::new()))
    }

    /// These, and after them one more, which is the text of a version.
    fn and(&self, version: &str) -> Versions {
        let all = match self.0.as_deref().and_then(|all| all.strip_suffix(']')) {
            Some(all) => format!("{all},{version}]"),
            None => format!("[{version}]"),
        };
        Versions(Some(all.into()))
    }
}

impl FromIterator<Value> for Versions {
    fn from_iter<I: IntoIterator<Item = Value>>(versions: I) -> Versions {
        let all: Vec<Value> = versions.into_iter().collect();
        Versions((!all.is_empty()).then(|| Value::Array(all).to_string().into()))
    }
}

/// A version as it is named to others.
pub(crate) fn described(slot: &str, version: &OperatorVersion) -> Value {
    json!({
        "slot": slot, "name": version.name, "version": version.version, "digest": version.digest,
        "revision": version.revision.digest,
    })
}

/// A version that adds itself to those that had a part.
pub(crate) struct Adds {
    version: String,
    /// The last ones that it was added to, and what they became: nearly all batches come the same way.
    last: Option<(Versions, Versions)>,
}

impl Adds {
    pub(crate) fn new(slot: &str, version: &OperatorVersion) -> Adds {
        Adds {
            version: described(slot, version).to_string(),
            last: None,
        }
    }

    /// These, and after them this one.
    pub(crate) fn to(&mut self, before: &Versions) -> Versions {
        if let Some((last, after)) = &self.last
            && last == before
        {
            return after.clone();
        }
        let after = before.and(&self.version);
        self.last = Some((before.clone(), after.clone()));
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_in_the_order_in_which_they_had_a_part() {
        let version = |digest: &str| OperatorVersion {
            name: "native".into(),
            version: "1.0.0".into(),
            digest: digest.into(),
            reads: tidegate_record::Fields::NONE,
            outputs: Vec::new(),
            revision: Default::default(),
        };
        let (mut first, mut second) = (
            Adds::new("one", &version("sha256:1")),
            Adds::new("two", &version("sha256:2")),
        );
        let none = Versions::default();
        assert_eq!((none.to_kept(), none.to_json()), ("", json!([])));
        let both = second.to(&first.to(&none));
        let digests = |versions: &Versions| {
            let all = versions.to_json();
            let all = all.as_array().unwrap().iter();
            all.map(|one| one["digest"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(digests(&both), ["sha256:1", "sha256:2"]);
        assert_eq!(both, second.to(&first.to(&none)));
        // Another way to the same operator is another.
        assert_eq!(digests(&second.to(&none)), ["sha256:2"]);
        assert_eq!(Versions::kept(both.to_kept()), both);
        for nothing in ["", "[]", "{}", "[1"] {
            assert_eq!(Versions::kept(nothing), none, "{nothing}");
        }
    }
}
