//! Tensors by what they are for, whatever a file calls them.

mod huggingface;
mod shapes;

pub(crate) use huggingface::{
    decoder_layer_of, decoder_name, encoder_layer_of, encoder_name, old_norm_name,
};

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
    /// `[positions, hidden]`
    Positions,
    /// `[types, hidden]`
    Types,
    /// `[hidden]`
    Norm,
    /// `[hidden]`
    NormBias,
    /// A tensor of a layer.
    Layer(usize, EncoderLayerTensor),
    /// `[hidden, hidden]`; of a classification head.
    HeadDense,
    /// `[hidden]`
    HeadDenseBias,
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
    Query,
    QueryBias,
    Key,
    KeyBias,
    Value,
    ValueBias,
    Output,
    OutputBias,
    OutputNorm,
    OutputNormBias,
    Up,
    UpBias,
    Down,
    DownBias,
    DownNorm,
    DownNormBias,
}
