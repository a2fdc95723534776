//! The other side of the admin API: finding a running host and asking it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidegate_state::StateDirectory;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::admin::{CONFIG_BYTES, CONNECTION, MAX_COMPONENT, MAX_CONFIG};
use crate::api::{DeployReport, DeployRequest, StatusReport};
use crate::config::{Mistakes, state_directory};
use crate::health::HealthReport;
use crate::letters::{LetterPage, LetterQuery, LetterReport, SendLetters, SentLetters};
use crate::live::LogReport;
use crate::models::ModelReport;
use crate::token::AdminFile;

/// For a question.
const ASK: Duration = Duration::from_secs(10);
/// For a deployment: the host compiles beside its stream, with what that leaves of the machine, warms and switches.
const DEPLOY: Duration = CONNECTION;
/// For a model: as long as the host keeps the connection, since weights of many gigabytes are read, hashed and loaded.
const LOAD: Duration = CONNECTION;
/// For dead letters, which a broker may have to be asked for.
const LETTERS: Duration = Duration::from_secs(60);
/// For sending them again: each is looked up and kept.
const SEND: Duration = Duration::from_secs(300);
/// Longest answer that is read, bytes.
const ANSWER: u64 = 64 << 20;

/// A running host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    file: AdminFile,
    /// Where the address was found, if it was.
    found: Option<PathBuf>,
}

/// A host that cannot be asked, or refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing runs with this state directory.
    #[error(
        "no running host found: {path} is missing; is the pipeline running, or still starting?"
    )]
    NotRunning {
        /// The file that a running host leaves.
        path: PathBuf,
    },
    /// The host that left the file is gone.
    #[error(
        "no running host found: {path} was left by a process that has ended; is the pipeline running?"
    )]
    Stale {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be used.
    #[error("cannot read {path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The pipeline file cannot be used.
    #[error("{0}")]
    Pipeline(Mistakes),
    /// There is no connection, or no answer in time.
    #[error("the host at {address} does not answer: {why}")]
    Unreachable {
        /// Its address.
        address: SocketAddr,
        /// What went wrong.
        why: String,
    },
    /// The component is too large.
    #[error("the component has {bytes} bytes; a host takes at most {limit}")]
    TooLarge {
        /// Bytes of the component.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// The configuration is too large.
    #[error("the configuration has {bytes} bytes; a host takes at most {limit}")]
    ConfigTooLarge {
        /// Bytes of the configuration.
        bytes: usize,
        /// Most bytes.
        limit: usize,
    },
    /// The host said no.
    #[error("{error}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The host's words.
        error: String,
    },
    /// The host said something that cannot be understood.
    #[error("the answer of {address} cannot be understood: {why}")]
    Answer {
        /// Its address.
        address: SocketAddr,
        /// What is wrong.
        why: String,
    },
}

impl Client {
    /// The host of a pipeline, by its file (`*.toml`) or its state directory.
    pub fn find(pipeline_or_state: &Path) -> Result<Self, ClientError> {
        let is_file = pipeline_or_state.is_file()
            || pipeline_or_state
                .extension()
                .is_some_and(|extension| extension == "toml");
        let state = if is_file {
            state_directory(pipeline_or_state).map_err(ClientError::Pipeline)?
        } else {
            pipeline_or_state.to_owned()
        };
        let path = AdminFile::path(&state);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ClientError::NotRunning { path });
            }
            Err(error) => {
                return Err(ClientError::File {
                    path,
                    why: error.to_string(),
                });
            }
        };
        match serde_json::from_slice::<AdminFile>(&bytes) {
            Ok(file) if file.address.ip().is_loopback() => Ok(Self {
                file,
                found: Some(path),
            }),
            Ok(file) => Err(ClientError::File {
                path,
                why: format!("{} is not a loopback address", file.address),
            }),
            Err(error) => Err(ClientError::File {
                path,
                why: error.to_string(),
            }),
        }
    }

    /// The host at an address.
    pub fn at(address: SocketAddr, token: &str) -> Self {
        Self {
            file: AdminFile {
                address,
                token: token.trim().to_owned(),
                pid: 0,
            },
            found: None,
        }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.file.address
    }

    /// Its state directory, if it was found by that.
    pub fn state(&self) -> Option<&Path> {
        self.found.as_deref()?.parent()
    }

    /// Whether a process has the state directory that it was found by. A process number would say nothing: somebody else
    /// has it after a restart of the machine. Where it cannot be looked, there may be one.
    pub fn is_there(&self) -> bool {
        let in_use = self.state().map(StateDirectory::in_use);
        !matches!(in_use, Some(Ok(None)))
    }

    /// How it stands.
    pub fn status(&self) -> Result<StatusReport, ClientError> {
        let answer = agent(ASK)
            .get(self.url("/v1/status"))
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// Whether it is well.
    pub fn health(&self) -> Result<HealthReport, ClientError> {
        let answer = agent(ASK)
            .get(self.url("/v1/health"))
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// Puts a component, a configuration or both into a slot.
    pub fn deploy(
        &self,
        slot: &str,
        deployment: &DeployRequest,
    ) -> Result<DeployReport, ClientError> {
        let component = deployment.component.as_deref().unwrap_or_default();
        if component.len() > MAX_COMPONENT {
            return Err(ClientError::TooLarge {
                bytes: component.len(),
                limit: MAX_COMPONENT,
            });
        }
        let mut request = agent(DEPLOY)
            .post(self.url(&format!("/v1/slots/{}", escaped(slot))))
            .query("label", &deployment.label);
        let mut body = Vec::new();
        if let Some(config) = &deployment.config {
            if config.len() > MAX_CONFIG {
                return Err(ClientError::ConfigTooLarge {
                    bytes: config.len(),
                    limit: MAX_CONFIG,
                });
            }
            request = request.query(CONFIG_BYTES, config.len().to_string());
            body.extend_from_slice(config.as_bytes());
        }
        body.extend_from_slice(component);
        let answer = request
            .header("authorization", self.authorization())
            .header("content-type", "application/wasm")
            // A host that refuses the head is not sent the component.
            .header("expect", "100-continue")
            .send(&body[..]);
        self.understood(answer)
    }

    /// The log of a slot, lines of this number and later.
    pub fn log(&self, slot: &str, after: u64) -> Result<LogReport, ClientError> {
        let answer = agent(ASK)
            .get(self.url(&format!("/v1/slots/{}/logs", escaped(slot))))
            .query("after", after.to_string())
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// The address of its page, with the token in it: whoever has it sees and may do all that the admin API does.
    pub fn page(&self) -> String {
        format!("{}#token={}", self.url("/"), escaped(&self.file.token))
    }

    /// The models of its pipeline.
    pub fn models(&self) -> Result<Vec<ModelReport>, ClientError> {
        let answer = agent(ASK)
            .get(self.url("/v1/models"))
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// Loads a model of the pipeline file, or puts the one at `path` (absolute, on the host's machine) in its place.
    pub fn load_model(&self, name: &str, path: Option<&Path>) -> Result<ModelReport, ClientError> {
        let body = match path {
            None => String::new(),
            Some(path) => serde_json::json!({ "path": path }).to_string(),
        };
        let answer = agent(LOAD)
            .post(self.url(&format!("/v1/models/{}", escaped(name))))
            .header("authorization", self.authorization())
            .header("content-type", "application/json")
            .send(body);
        self.understood(answer)
    }

    /// Takes a model off its adapter; records for it wait until it is loaded again.
    pub fn unload_model(&self, name: &str) -> Result<ModelReport, ClientError> {
        let answer = agent(DEPLOY)
            .delete(self.url(&format!("/v1/models/{}", escaped(name))))
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// Dead letters of its pipeline, the newest first.
    pub fn dead_letters(&self, query: &LetterQuery) -> Result<LetterPage, ClientError> {
        let limit = query.limit.to_string();
        let mut request = agent(LETTERS)
            .get(self.url("/v1/dead-letters"))
            .query("limit", limit);
        let texts = [
            ("before", &query.before),
            ("stage", &query.stage),
            ("source", &query.source),
            ("text", &query.text),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                request = request.query(name, text);
            }
        }
        let answer = request.header("authorization", self.authorization()).call();
        self.understood(answer)
    }

    /// A dead letter as a whole.
    pub fn dead_letter(&self, id: &str) -> Result<LetterReport, ClientError> {
        let answer = agent(LETTERS)
            .get(self.url(&format!("/v1/dead-letters/{}", escaped(id))))
            .header("authorization", self.authorization())
            .call();
        self.understood(answer)
    }

    /// Sends dead letters again, at most [`MAX_SENT`](crate::MAX_SENT) at once.
    pub fn send_dead_letters(&self, letters: &SendLetters) -> Result<SentLetters, ClientError> {
        let body = serde_json::json!(letters).to_string();
        let answer = agent(SEND)
            .post(self.url("/v1/dead-letters/send"))
            .header("authorization", self.authorization())
            .header("content-type", "application/json")
            .send(body);
        self.understood(answer)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.file.address)
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.file.token)
    }

    fn understood<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let address = self.file.address;
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer
            .body_mut()
            .with_config()
            .limit(ANSWER)
            .read_to_vec()
            .map_err(|error| self.unreachable(&error))?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
                address,
                why: error.to_string(),
            });
        }
        let error = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|answer| answer.get("error")?.as_str().map(str::to_owned))
            .unwrap_or_else(|| format!("the host at {address} answered {status}"));
        Err(ClientError::Refused {
            status: status.as_u16(),
            error,
        })
    }

    fn unreachable(&self, error: &ureq::Error) -> ClientError {
        match &self.found {
            Some(path) if !self.is_there() => ClientError::Stale { path: path.clone() },
            found => ClientError::Unreachable {
                address: self.file.address,
                why: match (found, error) {
                    // Where an earlier host listened, whose file is still there.
                    (Some(_), ureq::Error::Io(refused))
                        if refused.kind() == std::io::ErrorKind::ConnectionRefused =>
                    {
                        format!(
                            "{error}; a process has the state directory: the host is starting or ending, try again"
                        )
                    }
                    _ => error.to_string(),
                },
            },
        }
    }
}

/// An agent for this machine: no proxy, no redirection, one deadline for everything.
fn agent(deadline: Duration) -> Agent {
    Agent::config_builder()
        .timeout_global(Some(deadline))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into()
}

/// A name as one part of a path.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
