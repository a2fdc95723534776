//! Tensors by what they are for, whatever a file calls them, and their rows in every stored format.

/// How the elements of a tensor are stored.
///
/// Sources: IEEE 754 and bfloat16; `block_q8_0`, `block_q4_0`, `block_q4_K`, `block_q6_K` and their `dequantize_row_*`
/// in ggml (`ggml-common.h`, `ggml-quants.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// The upper half of a 32-bit float.
    Bf16,
    /// Groups of 32: `scale · q`, q in -128..=127, an f16 scale. GGUF's q8_0.
    Int8,
    /// Groups of 32: `scale · (q - 8)`, q in 0..=15, an f16 scale. GGUF's q4_0.
    Int4,
    /// Groups of 32 in blocks of 256: `d·s·q - dmin·m`, q in 0..=15, s and m in 0..=63 for a group, d and dmin f16 for
    /// a block. GGUF's q4_K.
    Q4K,
    /// Groups of 16 in blocks of 256: `d·s·(q - 32)`, q in 0..=63, s in -128..=127 for a group, d f16 for a block.
    /// GGUF's q6_K.
    Q6K,
}

/// The stored numbers of one row, each kind apart and in the order of the elements, whatever the file interleaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowParts {
    /// Floats: the elements, little-endian. Int8: i8. Int4 and Q4K: byte j holds elements 2j (low nibble) and 2j + 1.
    /// Q6K: as Int4, the low four bits of q.
    pub values: Vec<u8>,
    /// Q6K: byte j holds the upper two bits of q of elements 4j (lowest two bits) to 4j + 3. Else empty.
    pub high: Vec<u8>,
    /// Int8, Int4: f16 for each group. Q4K: s and m, a byte each, for each group. Q6K: i8 for each group. Else empty.
    pub scales: Vec<u8>,
    /// Q4K: d and dmin, f16 each, for each block. Q6K: d. Else empty.
    pub supers: Vec<u8>,
}

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
    /// `[hidden]`; where [`crate::ModelConfig::post_norms`].
    PostAttentionNorm,
    /// `[hidden]`; before the feed-forward layer.
    MlpNorm,
    /// `[intermediate, hidden]`
    Gate,
    /// `[intermediate, hidden]`
    Up,
    /// `[hidden, intermediate]`
    Down,
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
#[allow(missing_docs, reason = "the names say it; shapes follow from EncoderConfig")]
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
