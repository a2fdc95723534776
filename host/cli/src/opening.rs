//! What a run needs of this machine beside its models: secrets and certificates, and the gateway's address. It is looked
//! at before anything is made, which `tidegate check` does too, and opened before a model is loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_connect::remote::RemoteModel;
use tidegate_control::config::{Mistake, Pipeline};
use tidegate_control::{MetricsTokenError, read_metrics_token};
use tidegate_gateway::front::Bound;

use crate::collectors;
use crate::exit::Failure;
use crate::models::{asking, look_at_remote, open_remote};
use crate::wire::gateway::door;

/// What was seen of the machine.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What is wrong wherever the pipeline is run.
    pub(crate) mistakes: Vec<Mistake>,
    /// What this machine lacks. Another may have it: a run needs it, and a check may be made elsewhere.
    pub(crate) lacks: Vec<Mistake>,
}

impl Seen {
    pub(crate) fn mistake(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    pub(crate) fn lacks(&mut self, mistake: Mistake) {
        self.lacks.push(mistake);
    }

    /// Everything that keeps a run from beginning here.
    pub(crate) fn all(self) -> impl Iterator<Item = Mistake> {
        self.mistakes.into_iter().chain(self.lacks)
    }
}

/// What was opened.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// The gateway's address and what is behind it, if there is a gateway.
    pub(crate) bound: Option<Bound>,
    /// The models of other servers that stages ask, by their index.
    pub(crate) remote: BTreeMap<usize, Arc<RemoteModel>>,
}

/// Looks at everything that is opened later. Nothing is made, asked or listened on.
pub(crate) fn look(pipeline: &Pipeline) -> Seen {
    let mut seen = Seen::default();
    if let Some(gateway) = &pipeline.gateway {
        door::look(pipeline, gateway, &mut seen);
    }
    collectors::look(pipeline, &mut seen);
    if let Some(token) = &pipeline.metrics_token
        && let Err(why) = read_metrics_token(&token.path)
    {
        let mistake = pipeline.mistake_of_metrics_token(token, &why);
        match why {
            MetricsTokenError::Read { .. } => seen.lacks(mistake),
            MetricsTokenError::Form { .. } => seen.mistake(mistake),
        }
    }
    for (index, model) in pipeline.models.iter().enumerate() {
        if let Some(remote) = &model.remote
            && asking(pipeline, index).next().is_some()
        {
            look_at_remote(pipeline, index, remote, &mut seen);
        }
    }
    seen
}

/// Takes the gateway's address, reads secrets and certificates, and has the models of other servers ready. Nobody is
/// answered and no model is asked yet.
pub(crate) fn open(pipeline: &Pipeline) -> Result<Opened, Failure> {
    let mut opened = Opened::default();
    for (index, model) in pipeline.models.iter().enumerate() {
        if let Some(remote) = &model.remote
            && asking(pipeline, index).next().is_some()
        {
            let remote = open_remote(pipeline, index, remote)?;
            opened.remote.insert(index, Arc::new(remote));
        }
    }
    if let Some(gateway) = &pipeline.gateway {
        opened.bound = Some(door::bind(gateway)?);
    }
    Ok(opened)
}
