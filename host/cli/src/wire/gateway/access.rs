//! Who may ask, as the pipeline file says it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_connect::remote::fetch;
use tidegate_control::config::{self, KeySecret, TokenAlgorithm, TokenKeys};
use tidegate_gateway::access::{
    Access, AccessOptions, Algorithm, FetchKeys, Issuer, Key, KeySource, Permissions, Quota, Scope,
    Secret,
};

use crate::exit::Failure;

/// What those are called who come by a token, before their subject. The pipeline file keeps it free.
pub(super) const TOKEN: &str = "token";
/// Largest JWKS.
const LARGEST: usize = 1 << 20;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(8);

struct Fetch;

impl FetchKeys for Fetch {
    fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        fetch(url, LARGEST, PATIENCE)
    }
}

/// Reads the secrets of keys; blocks while those of tokens are fetched.
pub(super) fn access(gateway: &config::Gateway) -> Result<Access, Failure> {
    Access::new(options(gateway), Some(Arc::new(Fetch)))
        .map_err(|error| Failure::usage(format_args!("gateway: {error}")))
}

/// Who may ask. No secret is read yet.
pub(super) fn options(gateway: &config::Gateway) -> AccessOptions {
    let mut quotas = BTreeMap::new();
    let mut permissions = |name: &str, scope: &config::Scope, quota: &config::Quota| {
        quotas.insert(
            name.to_owned(),
            Quota {
                requests: quota.requests,
                tokens: quota.tokens,
                concurrent: quota.concurrent,
            },
        );
        Permissions {
            scopes: scope.endpoints.as_ref().map(|endpoints| {
                let named = endpoints.iter().filter_map(|one| Scope::named(one.name()));
                // Whoever may ask a model may see which there are.
                named.chain([Scope::Models]).collect()
            }),
            models: scope.models.clone(),
            quota: Some(name.to_owned()),
        }
    };
    let keys = gateway.keys.iter().map(|key| Key {
        name: key.name.clone(),
        secret: match &key.secret {
            KeySecret::Digest(digest) => {
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                Secret::Digest(format!("sha256:{hex}"))
            }
            KeySecret::Variable(name) => Secret::Environment(name.clone()),
        },
        permissions: permissions(&key.name, &key.scope, &key.quota),
    });
    let keys = keys.collect();
    let issuers = gateway.tokens.iter().map(|tokens| Issuer {
        name: TOKEN.to_owned(),
        algorithm: match tokens.algorithm {
            TokenAlgorithm::Hs256 => Algorithm::Hs256,
            TokenAlgorithm::Rs256 => Algorithm::Rs256,
            TokenAlgorithm::Es256 => Algorithm::Es256,
        },
        keys: match &tokens.keys {
            TokenKeys::Variable(name) => KeySource::Environment(name.clone()),
            TokenKeys::File(path) => KeySource::File(path.clone()),
            TokenKeys::Url { url, refresh } => KeySource::Url {
                url: url.clone(),
                every: *refresh,
            },
        },
        issuer: tokens.issuer.clone(),
        audience: tokens.audience.clone(),
        leeway: tokens.leeway,
        permissions: permissions(TOKEN, &tokens.scope, &tokens.quota),
    });
    let issuers: Vec<Issuer> = issuers.collect();
    AccessOptions {
        keys,
        issuers,
        quotas,
        failures: gateway.limits.wrong_keys,
    }
}
