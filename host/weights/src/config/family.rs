//! What sets the families apart: defaults and properties of transformers' `configuration_*.py` and `modeling_*.py`.

/// What sets a family apart, and what it takes for a key that is absent.
pub(super) struct Family {
    pub(super) architecture: &'static str,
    pub(super) kv_heads: Option<u64>,
    pub(super) head_dim: Option<u64>,
    pub(super) context: u64,
    pub(super) epsilon: f64,
    pub(super) theta: f64,
    pub(super) tied: bool,
    pub(super) windows: Windows,
    pub(super) biases: Biases,
    pub(super) head_norms: bool,
    pub(super) gemma: Option<Gemma>,
    pub(super) phi3: bool,
}

/// Which layers see only a window.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Windows {
    /// None; a window in the file is refused.
    Nowhere,
    /// All, if the file gives a window; the default where the key is absent.
    Everywhere(Option<u64>),
    /// By `layer_types`, or from layer `max_window_layers` on, if `use_sliding_window`.
    Late,
    /// By `layer_types`, or where positions do not turn, if `use_sliding_window`.
    WhereNotTurning,
    /// By `layer_types`, or all but every n-th.
    AllButEvery(u64),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Biases {
    Nowhere,
    /// Of queries, keys and values.
    Qkv,
    /// Of these and the output, if `attention_bias`.
    ByKey,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Gemma {
    Two,
    Three,
}

/// What most families share.
const LLAMA: Family = Family {
    architecture: "LlamaForCausalLM",
    kv_heads: None,
    head_dim: None,
    context: 2048,
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    windows: Windows::Nowhere,
    biases: Biases::ByKey,
    head_norms: false,
    gemma: None,
    phi3: false,
};

const GEMMA3: Family = Family {
    architecture: "Gemma3ForCausalLM",
    kv_heads: Some(4),
    head_dim: Some(256),
    context: 131_072,
    theta: 1_000_000.0,
    tied: true,
    windows: Windows::AllButEvery(6),
    head_norms: true,
    gemma: Some(Gemma::Three),
    ..LLAMA
};

pub(super) const FAMILIES: [Family; 9] = [
    LLAMA,
    Family {
        architecture: "MistralForCausalLM",
        kv_heads: Some(8),
        context: 131_072,
        windows: Windows::Everywhere(Some(4096)),
        biases: Biases::Nowhere,
        ..LLAMA
    },
    Family {
        architecture: "Qwen2ForCausalLM",
        kv_heads: Some(32),
        context: 32_768,
        windows: Windows::Late,
        biases: Biases::Qkv,
        ..LLAMA
    },
    Family {
        architecture: "Qwen3ForCausalLM",
        kv_heads: Some(32),
        head_dim: Some(128),
        context: 32_768,
        windows: Windows::Late,
        head_norms: true,
        ..LLAMA
    },
    Family {
        architecture: "SmolLM3ForCausalLM",
        kv_heads: Some(4),
        context: 32_768,
        theta: 2_000_000.0,
        tied: true,
        windows: Windows::WhereNotTurning,
        ..LLAMA
    },
    Family {
        architecture: "Phi3ForCausalLM",
        context: 4096,
        epsilon: 1e-5,
        windows: Windows::Everywhere(None),
        biases: Biases::Nowhere,
        phi3: true,
        ..LLAMA
    },
    Family {
        architecture: "Gemma2ForCausalLM",
        kv_heads: Some(4),
        head_dim: Some(256),
        context: 8192,
        tied: true,
        windows: Windows::AllButEvery(2),
        gemma: Some(Gemma::Two),
        ..LLAMA
    },
    GEMMA3,
    Family {
        architecture: "Gemma3ForConditionalGeneration",
        ..GEMMA3
    },
];
