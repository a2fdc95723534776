//! What is said to a server, by its kind.

use hyper::Uri;
use tidegate_contract::Makes;

use super::address::{Address, escaped};
use super::options::{Kserve, OpenAi, RemoteError, RemoteKind};
use super::secret::Secret;

/// A server's protocol.
pub(crate) struct Protocol {
    address: Address,
    pub kind: RemoteKind,
    /// Where chats, texts to be gone on with, and texts to be encoded are sent.
    pub chat: Uri,
    pub completions: Uri,
    pub encode: Uri,
    /// Most tokens of an answer.
    pub most_tokens: u32,
}

impl Protocol {
    pub(crate) fn new(kind: &RemoteKind) -> Result<Protocol, RemoteError> {
        let wrong = |name, value: String, limit| Err(RemoteError::Option { name, value, limit });
        let (address, chat, completions, encode) = match kind {
            RemoteKind::OpenAi(OpenAi {
                url, makes, batch, ..
            }) => {
                if *makes == Makes::Labels {
                    return wrong("makes", "labels".into(), "text or embeddings of this kind");
                }
                if *batch == 0 {
                    return wrong("batch", "0".into(), "at least 1");
                }
                let address = Address::new(url, "/v1")?;
                let chat = address.path("/chat/completions")?;
                let completions = address.path("/completions")?;
                let encode = address.path("/embeddings")?;
                (address, chat, completions, encode)
            }
            RemoteKind::Kserve(Kserve {
                url,
                model,
                version,
                batch,
                ..
            }) => {
                if *batch == 0 {
                    return wrong("batch", "0".into(), "at least 1");
                }
                let address = Address::new(url, "")?;
                let version = version.as_ref();
                let version = version.map(|version| format!("/versions/{}", escaped(version)));
                let model = escaped(model);
                let path = format!("/v2/models/{model}{}/infer", version.unwrap_or_default());
                let encode = address.path(&path)?;
                (address, encode.clone(), encode.clone(), encode)
            }
        };
        Ok(Protocol {
            address,
            kind: kind.clone(),
            chat,
            completions,
            encode,
            most_tokens: 0,
        })
    }

    pub(crate) fn with_most_tokens(mut self, most: u32) -> Protocol {
        self.most_tokens = most;
        self
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn key(&self) -> Option<&Secret> {
        match &self.kind {
            RemoteKind::OpenAi(server) => server.key.as_ref(),
            RemoteKind::Kserve(server) => server.key.as_ref(),
        }
    }

    /// The model's name there, with its version.
    pub(crate) fn model(&self) -> String {
        match &self.kind {
            RemoteKind::OpenAi(server) => server.model.clone(),
            RemoteKind::Kserve(server) => match &server.version {
                Some(version) => format!("{}\0{version}", server.model),
                None => server.model.clone(),
            },
        }
    }

    pub(crate) fn makes(&self) -> Makes {
        match &self.kind {
            RemoteKind::OpenAi(server) => server.makes,
            RemoteKind::Kserve(server) if server.labels.is_empty() => Makes::Embeddings,
            RemoteKind::Kserve(_) => Makes::Labels,
        }
    }

    /// Most texts of one call.
    pub(crate) fn batch(&self) -> usize {
        match &self.kind {
            RemoteKind::OpenAi(server) => server.batch,
            RemoteKind::Kserve(server) => server.batch,
        }
    }
}
