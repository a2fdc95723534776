//! What access is given.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// A kind of request that a key may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/rerank`
    Rerank,
    /// `/v1/models`
    Models,
    /// `/v1/ingest/...`
    Ingest,
    /// `/v1/outputs/...`
    Outputs,
    /// The page, and what it asks: only where it is named.
    Page,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 9] = [
        Scope::Chat,
        Scope::Responses,
        Scope::Completions,
        Scope::Embeddings,
        Scope::Rerank,
        Scope::Models,
        Scope::Ingest,
        Scope::Outputs,
        Scope::Page,
    ];

    /// Its name in a pipeline file, and in the claim of a token.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Chat => "chat",
            Scope::Responses => "responses",
            Scope::Completions => "completions",
            Scope::Embeddings => "embeddings",
            Scope::Rerank => "rerank",
            Scope::Models => "models",
            Scope::Ingest => "ingest",
            Scope::Outputs => "outputs",
            Scope::Page => "page",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl Permissions {
    /// Whether this kind of request is among them.
    #[must_use]
    pub fn allow(&self, scope: Scope) -> bool {
        match &self.scopes {
            Some(scopes) => scopes.contains(&scope),
            // What a pipeline shows of itself was not meant by whoever gave a key for its models.
            None => scope != Scope::Page,
        }
    }
}

/// What may be done with a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// These kinds of requests; without, all but those that must be named.
    pub scopes: Option<Vec<Scope>>,
    /// These models, by the names that clients use; all without.
    pub models: Option<Vec<String>>,
    /// Name of the quota; none without.
    pub quota: Option<String>,
}

/// A key that clients send.
#[derive(Clone, Debug)]
pub struct Key {
    /// What it is called in logs and metrics, and what requests with one idempotency key share. Never the key itself.
    pub name: String,
    /// What it is compared with.
    pub secret: Secret,
    /// What may be done with it.
    pub permissions: Permissions,
}

/// What a key is compared with.
#[derive(Clone, Debug)]
pub enum Secret {
    /// `sha256:` and 64 hexadecimal digits.
    Digest(String),
    /// Name of an environment variable with the key.
    Environment(String),
}

/// Someone whose tokens are believed.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// What it is called in errors, and the beginning of the names of those it vouches for.
    pub name: String,
    /// The only algorithm its tokens are signed by. Keys of other kinds are passed over.
    pub algorithm: Algorithm,
    /// Its keys.
    pub keys: KeySource,
    /// The `iss` that its tokens have; not looked at without.
    pub issuer: Option<String>,
    /// An `aud` that its tokens have; tokens may not have any without.
    pub audience: Option<String>,
    /// How much clocks may differ.
    pub leeway: Duration,
    /// What may be done with its tokens. A `scope` claim, if there is one, takes away from it.
    pub permissions: Permissions,
}

impl Issuer {
    /// How much clocks may differ, unless something else is said.
    pub const LEEWAY: Duration = Duration::from_secs(30);
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256, by a secret of at least 32 bytes.
    Hs256,
    /// RSA PKCS #1 v1.5 with SHA-256, by a key of 2048 to 8192 bits.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// Its name in a token.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Hs256 => "HS256",
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
        }
    }
}

/// Where an issuer's keys are.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// An environment variable with the secret of HS256.
    Environment(String),
    /// A file: a PEM public key, or a JSON Web Key Set. Read again when it changes.
    File(PathBuf),
    /// A JSON Web Key Set at a URL. Fetched again after so long, and when a token names a key that is not there.
    Url {
        /// Where.
        url: String,
        /// After how long.
        every: Duration,
    },
}

/// How much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests a minute; any number without.
    pub requests: Option<u64>,
    /// Tokens a minute, of prompts and answers; any number without.
    pub tokens: Option<u64>,
    /// Requests at once, of those that wait for a model or follow an output; any number without.
    pub concurrent: Option<u64>,
}

/// Who may come.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// Static keys.
    pub keys: Vec<Key>,
    /// Issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// Quotas, by name.
    pub quotas: BTreeMap<String, Quota>,
    /// So many failures of one address in a minute send it away until the minute is over; never for 0.
    pub failures: u32,
}

impl Default for AccessOptions {
    fn default() -> AccessOptions {
        AccessOptions {
            keys: Vec::new(),
            issuers: Vec::new(),
            quotas: BTreeMap::new(),
            failures: 20,
        }
    }
}

/// Why access cannot be as it was given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A name is there twice.
    #[error("the key or issuer `{0}` is there twice")]
    Twice(String),
    /// Two keys have one secret.
    #[error("keys `{other}` and `{name}` have the same secret; give each its own")]
    SameSecret {
        /// The later one.
        name: String,
        /// The earlier one.
        other: String,
    },
    /// A digest is none.
    #[error("key `{0}`: its digest is not `sha256:` with 64 hexadecimal digits")]
    Digest(String),
    /// An environment variable is not set.
    #[error("key or issuer `{name}`: the environment variable `{variable}` is not set, or empty")]
    Environment {
        /// Of which key.
        name: String,
        /// Which variable.
        variable: String,
    },
    /// A quota is not there.
    #[error("key or issuer `{name}`: there is no quota `{quota}`")]
    Quota {
        /// Of which key.
        name: String,
        /// Which quota.
        quota: String,
    },
    /// A limit of zero lets nothing through.
    #[error("quota `{0}`: a limit is 0")]
    Zero(String),
    /// Keys of an issuer are of no use.
    #[error("issuer `{name}`: {why}")]
    Issuer {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
}

impl AccessError {
    /// The key, issuer or quota that it is about.
    pub fn name(&self) -> &str {
        match self {
            AccessError::Twice(name)
            | AccessError::Digest(name)
            | AccessError::Zero(name)
            | AccessError::SameSecret { name, .. }
            | AccessError::Environment { name, .. }
            | AccessError::Quota { name, .. }
            | AccessError::Issuer { name, .. } => name,
        }
    }
}
