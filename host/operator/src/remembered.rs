//! What makes a revision the same as one that ran before, and what is remembered of it.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tidegate_component::digest;
use tidegate_contract::{KeptRevision, OperatorVersion};
use tidegate_record::Fields;

use crate::description::Description;
use crate::grants::{Grants, Ungranted};
use crate::limits::Limits;
use crate::metrics::{Kind, Metric};

/// The digest of a component with what it is run with: `sha256:` and 64 hexadecimal digits. Whoever adds to what decides
/// how an instance starts and answers adds it here.
pub(crate) fn identity(component: &str, config: &str, grants: Grants, limits: &Limits) -> String {
    let Grants {
        log,
        config: reads_config,
        metrics,
        ungranted,
    } = grants;
    let Limits {
        memory,
        total_memory,
        table_elements,
        output,
        deadline,
        init_deadline,
        bisect,
    } = limits;
    let times = [deadline, init_deadline, bisect].map(|time| time.as_nanos());
    let said = json!({
        "component": component,
        "config": config,
        "grants": [log, reads_config, metrics, ungranted == Ungranted::Trap],
        "limits": [memory, table_elements, output],
        "total_memory": total_memory,
        "times": times.map(|time| time.to_string()),
    });
    let mut hash = Sha256::new();
    hash.update("tidegate revision 1\n");
    hash.update(said.to_string());
    digest_of(hash)
}

fn digest_of(hash: Sha256) -> String {
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}

/// What a restart needs of a revision, to be kept by whoever keeps its component. `configured` is the configuration of
/// the pipeline file.
pub(crate) fn kept(
    identity: String,
    config: &str,
    configured: &str,
    described: &Description,
) -> KeptRevision {
    let deployed = config != configured;
    let version = &described.version;
    KeptRevision {
        digest: identity,
        config: deployed.then(|| config.to_owned()),
        configured_config: match deployed {
            true => digest(configured.as_bytes()),
            false => String::new(),
        },
        description: json!({
            "name": version.name,
            "version": version.version,
            "reads": version.reads.bits(),
            "outputs": version.outputs,
            "config_schema": described.config_schema,
            "metrics": described.metrics.iter().map(metric).collect::<Vec<_>>(),
            "handles_tokens": described.handles_tokens,
        })
        .to_string(),
    }
}

/// The configuration that a slot goes on with: the one that was deployed, while the pipeline file's is the one it
/// replaced.
pub(crate) fn config<'a>(kept: &'a KeptRevision, configured: &'a str) -> &'a str {
    match &kept.config {
        Some(config) if kept.configured_config == digest(configured.as_bytes()) => config,
        _ => configured,
    }
}

/// What a component said of itself when it was asked last; none if that cannot be read.
pub(crate) fn described(component: &str, text: &str) -> Option<Description> {
    let said: Value = serde_json::from_str(text).ok()?;
    let text = |name: &str| Some(said[name].as_str()?.to_owned());
    let outputs = said["outputs"].as_array()?.iter();
    let reads = u8::try_from(said["reads"].as_u64()?).ok()?;
    Some(Description {
        version: Arc::new(OperatorVersion {
            name: text("name")?,
            version: text("version")?,
            digest: component.to_owned(),
            reads: Fields::from_bits(reads),
            outputs: outputs
                .map(|output| output.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
            revision: KeptRevision::default(),
        }),
        config_schema: text("config_schema")?,
        metrics: match said.get("metrics") {
            Some(metrics) => metrics
                .as_array()?
                .iter()
                .map(read_metric)
                .collect::<Option<_>>()?,
            None => Vec::new(),
        },
        // Not there in what was kept before there were any.
        handles_tokens: said["handles_tokens"].as_bool().unwrap_or_default(),
    })
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Counter, "counter"),
    (Kind::Gauge, "gauge"),
    (Kind::Histogram, "histogram"),
];

fn metric(metric: &Metric) -> Value {
    let kind = KINDS.iter().find(|(kind, _)| *kind == metric.kind);
    json!({
        "name": metric.name,
        "kind": kind.map_or("", |(_, name)| *name),
        "help": metric.help,
        "labels": metric.labels,
        "bounds": metric.bounds,
    })
}

fn read_metric(said: &Value) -> Option<Metric> {
    let text = |value: &Value| Some(value.as_str()?.to_owned());
    let kind = said["kind"].as_str()?;
    Some(Metric {
        name: text(&said["name"])?,
        kind: KINDS.iter().find(|(_, name)| *name == kind)?.0,
        help: text(&said["help"])?,
        labels: said["labels"]
            .as_array()?
            .iter()
            .map(text)
            .collect::<Option<_>>()?,
        bounds: said["bounds"]
            .as_array()?
            .iter()
            .map(Value::as_f64)
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whatever_a_revision_is_made_of_makes_it_another() {
        let limits = Limits::default();
        let one = identity("sha256:a", "{}", Grants::ALL, &limits);
        assert_eq!(one, identity("sha256:a", "{}", Grants::ALL, &limits));
        let slower = Limits {
            deadline: limits.deadline + Duration::from_nanos(1),
            ..limits.clone()
        };
        for other in [
            identity("sha256:b", "{}", Grants::ALL, &limits),
            identity("sha256:a", "{\"a\":1}", Grants::ALL, &limits),
            identity("sha256:a", "{}", Grants::default(), &limits),
            identity("sha256:a", "{}", Grants::ALL, &slower),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn what_a_component_said_comes_back_and_a_configuration_only_while_the_files_stays() {
        let said = Description {
            version: Arc::new(OperatorVersion {
                name: "n".into(),
                version: "1.2.3".into(),
                digest: "sha256:a".into(),
                reads: Fields::KEY,
                outputs: vec!["side".into()],
                revision: KeptRevision::default(),
            }),
            handles_tokens: true,
            config_schema: "{}".into(),
            metrics: vec![Metric {
                name: "size".into(),
                kind: Kind::Histogram,
                help: "Bytes".into(),
                labels: vec!["language".into()],
                bounds: vec![0.5, 1024.0],
            }],
        };
        let kept = kept("sha256:r".into(), "{\"deployed\":1}", "{}", &said);
        assert_eq!(described("sha256:a", &kept.description), Some(said));
        assert_eq!(config(&kept, "{}"), "{\"deployed\":1}");
        assert_eq!(config(&kept, "{\"new\":1}"), "{\"new\":1}");
        assert_eq!(described("sha256:a", ""), None);
    }
}
