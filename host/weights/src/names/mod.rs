//! Tensors by what they are for, whatever a file calls them.

mod encoders;
mod huggingface;
mod shapes;

pub(crate) use encoders::{
    encoder_layer_of, encoder_name, encoder_prefixes, encoder_rows, of_decoder, old_norm_name,
};
pub(crate) use huggingface::{decoder_layer_of, decoder_name};

/// A tensor of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecoderTensor {
    /// `[vocabulary, hidden]`
    Embedding,
    /// `[hidden]`
    FinalNorm,
    /// `[vocabulary, hidden]`; absent where tied.
    Head,
    /// A tensor of a layer.
    Layer(usize, LayerTensor),
}

/// A tensor of a decoder's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerTensor {
    /// `[hidden]`
    AttentionNorm,
    /// `[heads · head_dim, hidden]`
    Query,
    /// `[heads · head_dim]`
    QueryBias,
    /// `[kv_heads · head_dim, hidden]`
    Key,
    /// `[kv_heads · head_dim]`
    KeyBias,
    /// `[kv_heads · head_dim, hidden]`
    Value,
    /// `[kv_heads · head_dim]`
    ValueBias,
    /// `[head_dim]`
    QueryNorm,
    /// `[head_dim]`
    KeyNorm,
    /// `[hidden, heads · head_dim]`
    Output,
    /// `[hidden]`
    OutputBias,
    /// `[heads]`; where [`crate::ModelConfig::sinks`].
    Sinks,
    /// `[hidden]`; where [`crate::ModelConfig::post_norms`].
    PostAttentionNorm,
    /// `[hidden]`; before the feed-forward layer.
    MlpNorm,
    /// `[intermediate, hidden]`; where a layer has no experts.
    Gate,
    /// `[intermediate, hidden]`; the same.
    Up,
    /// `[hidden, intermediate]`; the same.
    Down,
    /// `[experts, hidden]`; where a layer has [`crate::Experts`], as what follows up to [`LayerTensor::SharedDown`].
    Router,
    /// Of the expert of that number: `[experts.intermediate, hidden]`
    ExpertGate(usize),
    /// `[experts.intermediate, hidden]`
    ExpertUp(usize),
    /// `[hidden, experts.intermediate]`
    ExpertDown(usize),
    /// `[experts]`; where experts are [`crate::Experts::clamped`], as the next three.
    RouterBias,
    /// `[experts.intermediate]`
    ExpertGateBias(usize),
    /// `[experts.intermediate]`
    ExpertUpBias(usize),
    /// `[hidden]`
    ExpertDownBias(usize),
    /// `[1, hidden]`; where there is a shared expert.
    SharedRouter,
    /// `[experts.shared, hidden]`
    SharedGate,
    /// `[experts.shared, hidden]`
    SharedUp,
    /// `[hidden, experts.shared]`
    SharedDown,
    /// `[hidden]`; where [`crate::ModelConfig::post_norms`].
    PostMlpNorm,
}

/// A tensor of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EncoderTensor {
    /// `[vocabulary, hidden]`
    Words,
    /// `[positions, hidden]`; where positions are learned.
    Positions,
    /// `[types, hidden]`; where there are types.
    Types,
    /// `[hidden]`; where [`crate::EncoderConfig::first_norm`].
    Norm,
    /// `[hidden]`; biases of norms where [`crate::EncoderBiases::norms`].
    NormBias,
    /// A tensor of a layer.
    Layer(usize, EncoderLayerTensor),
    /// `[hidden]`; where [`crate::EncoderConfig::pre_norm`].
    FinalNorm,
    /// `[hidden]`
    FinalNormBias,
    /// `[hidden, hidden]`; of a head that makes scores.
    HeadDense,
    /// `[hidden]`
    HeadDenseBias,
    /// `[hidden]`; where [`crate::Scoring::norm`].
    HeadNorm,
    /// `[hidden]`
    HeadNormBias,
    /// `[labels, hidden]`
    HeadOutput,
    /// `[labels]`
    HeadOutputBias,
}

/// A tensor of an encoder's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(
    missing_docs,
    reason = "the names say it; shapes follow from EncoderConfig"
)]
pub enum EncoderLayerTensor {
    /// Before attention; where [`crate::EncoderConfig::pre_norm`], but for the first layer where words are normed.
    AttentionNorm,
    AttentionNormBias,
    Query,
    QueryBias,
    Key,
    KeyBias,
    Value,
    ValueBias,
    /// `[head_dim]`; where [`crate::EncoderConfig::head_norms`].
    QueryNorm,
    KeyNorm,
    Output,
    OutputBias,
    /// After attention; not where [`crate::EncoderConfig::pre_norm`].
    OutputNorm,
    OutputNormBias,
    /// Before the feed-forward layer; where [`crate::EncoderConfig::pre_norm`].
    UpNorm,
    UpNormBias,
    /// Where [`crate::EncoderConfig::gated`].
    Gate,
    Up,
    UpBias,
    Down,
    DownBias,
    /// After the feed-forward layer; not where [`crate::EncoderConfig::pre_norm`].
    DownNorm,
    DownNormBias,
}
