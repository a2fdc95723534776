//! A model that stages ask, wherever it is.

use std::sync::Arc;

use tidegate_connect::remote::RemoteModel;
use tidegate_contract::{Model, ModelFacts};
use tidegate_control::config::{BiasedToken, Generate, Holds, ModelStage};

use super::{HostedModel, LoraModel};

/// A model of the pipeline.
#[derive(Clone)]
pub(crate) enum Served {
    /// It is loaded here.
    Hosted(Arc<HostedModel>),
    /// It is one of these, through a low-rank adapter.
    Lora(Arc<LoraModel>),
    /// Another server has it.
    Remote(Arc<RemoteModel>),
}

impl Served {
    /// What requests are submitted to.
    pub(crate) fn model(&self) -> Arc<dyn Model> {
        match self {
            Served::Hosted(model) => model.clone(),
            Served::Lora(model) => model.clone(),
            Served::Remote(model) => model.clone(),
        }
    }

    /// What is known of it.
    pub(crate) fn facts(&self) -> ModelFacts {
        self.model().facts()
    }

    /// How long what it is asked and answers may be.
    pub(crate) fn holds(&self) -> Holds {
        let holds = Holds::positions(self.facts().context as usize);
        match self {
            Served::Hosted(_) | Served::Lora(_) => holds,
            Served::Remote(model) => Holds {
                answer: model.most_tokens() as usize,
                ..holds
            },
        }
    }

    /// The one that is loaded here, if it is: of an adapter its base.
    fn hosted(&self) -> Option<&HostedModel> {
        match self {
            Served::Hosted(model) => Some(model),
            Served::Lora(model) => Some(model.base()),
            Served::Remote(_) => None,
        }
    }

    /// The one that another server has, if it is.
    pub(crate) fn remote(&self) -> Option<&Arc<RemoteModel>> {
        match self {
            Served::Hosted(_) | Served::Lora(_) => None,
            Served::Remote(model) => Some(model),
        }
    }

    /// Positions that are no room for a user message. What a server puts around it is not known.
    pub(crate) fn around_prompt(&self, generate: &Generate) -> anyhow::Result<usize> {
        match self {
            Served::Hosted(model) => model.around_prompt(generate),
            Served::Lora(model) => model.base().around_prompt(generate),
            Served::Remote(model) => {
                let system = generate.system.as_deref();
                let system = system.map(|text| model.count_tokens(text)).transpose()?;
                Ok(system.unwrap_or_default())
            }
        }
    }

    /// Tokens that stand around every text.
    pub(crate) fn special_tokens(&self) -> usize {
        self.hosted().map_or(0, |model| model.special_tokens())
    }

    /// What stands before the texts of a stage that wants vectors. What another server puts there is its own.
    pub(crate) fn text_prompt(&self, stage: &ModelStage) -> String {
        match self {
            Served::Hosted(model) => model.text_prompt(stage),
            // Adapters are of models that make text.
            Served::Lora(_) | Served::Remote(_) => String::new(),
        }
    }

    /// What the biases of a stage mean, by the stage's index in the pipeline.
    pub(crate) fn biases(&self, stage: usize, generate: &Generate) -> Vec<(u32, f32)> {
        match self {
            Served::Hosted(model) => model.biases(model.index(), stage),
            Served::Lora(model) => model.biases(stage),
            Served::Remote(_) => {
                let ids = generate
                    .bias
                    .iter()
                    .filter_map(|(token, bias)| match token {
                        BiasedToken::Id(id) => Some((*id, *bias)),
                        BiasedToken::Text(_) => None,
                    });
                ids.collect()
            }
        }
    }
}
