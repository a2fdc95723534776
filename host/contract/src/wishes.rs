//! What a record itself asks of a model, beside what its stage says: the members of its value that a stage with
//! `messages` reads. The gateway writes them, and so may whoever fills a topic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{
    Conversation, Function, FunctionChoice, Message, Parameters, Prompt, Role, Structure,
};
use crate::template_arguments::TemplateArguments;

/// A request in a record: one JSON object. Other members are the record's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AskingRecord {
    /// The model that answers in the place of the stage's own, in stages that have it as an alternative; other stages ask
    /// their own. One that no stage of the pipeline has is a mistake of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// The chat, oldest first; none of a text to be gone on with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// A text to be gone on with, in the place of a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What may be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// Which functions are called.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub function_choice: FunctionChoice,
    /// Whether one answer may call several functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_calls: bool,
    /// Whether calls are taken out of the text; reasoning is in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lanes: bool,
    /// What the chat template is given; in the place of those of the stage that have the same names.
    #[serde(default, skip_serializing_if = "TemplateArguments::is_empty")]
    pub template_arguments: TemplateArguments,
    /// Whether the last message, an assistant's text, is the beginning of the answer: see [`Conversation::continues`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// How to generate, where it differs from the stage.
    #[serde(default)]
    pub parameters: Wishes,
}

fn is_auto(choice: &FunctionChoice) -> bool {
    *choice == FunctionChoice::Auto
}

/// Parameters that a record brings; what is none stays the stage's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wishes {
    /// Most tokens of an answer; never more than the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// 0 is greedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// See [`Parameters::top_k`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// See [`Parameters::top_p`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// See [`Parameters::min_p`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
    /// See [`Parameters::repetition_penalty`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f32>,
    /// See [`Parameters::presence_penalty`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f32>,
    /// See [`Parameters::frequency_penalty`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f32>,
    /// By token number; in the place of the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logit_bias: Option<BTreeMap<u32, f32>>,
    /// See [`Parameters::logprobs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u8>,
    /// See [`Parameters::n`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// See [`Parameters::stop`]; in the place of the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
    /// See [`Parameters::reasoning_tokens`]; never more than the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u32>,
    /// See [`Parameters::structure`]; in the place of the stage's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structure: Option<Structure>,
    /// Seed of the sampling, below 2^53.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Wishes {
    /// The stage's parameters with these in their place. A stage's limit of tokens stays one.
    pub fn over(&self, stage: &Parameters) -> Parameters {
        let bias = self.logit_bias.as_ref();
        Parameters {
            max_tokens: self
                .max_tokens
                .map_or(stage.max_tokens, |most| most.min(stage.max_tokens)),
            temperature: self.temperature.unwrap_or(stage.temperature),
            top_k: self.top_k.unwrap_or(stage.top_k),
            top_p: self.top_p.unwrap_or(stage.top_p),
            min_p: self.min_p.unwrap_or(stage.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(stage.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(stage.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(stage.frequency_penalty),
            logit_bias: bias.map_or_else(
                || stage.logit_bias.clone(),
                |bias| bias.iter().map(|(token, bias)| (*token, *bias)).collect(),
            ),
            logprobs: self.logprobs.or(stage.logprobs),
            n: self.n.unwrap_or(stage.n),
            stop: self.stop.clone().unwrap_or_else(|| stage.stop.clone()),
            reasoning_tokens: match (self.reasoning_tokens, stage.reasoning_tokens) {
                (Some(own), Some(stage)) => Some(own.min(stage)),
                (own, stage) => own.or(stage),
            },
            structure: self.structure.clone().or_else(|| stage.structure.clone()),
            speculation: stage.speculation,
        }
    }
}

impl AskingRecord {
    /// What the model makes an answer to. A system message of the stage goes before the chat.
    pub fn into_prompt(self, system: Option<&str>) -> Prompt {
        if let Some(text) = self.prompt {
            return Prompt::Raw(text);
        }
        let system = system.map(|text| Message::new(Role::System, text));
        Prompt::Chat(Conversation {
            messages: system.into_iter().chain(self.messages).collect(),
            functions: self.functions,
            function_choice: self.function_choice,
            parallel_calls: self.parallel_calls,
            lanes: self.lanes,
            reasoning_apart: true,
            template_arguments: self.template_arguments,
            continues: self.continues,
        })
    }
}
