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
    /// Sinks, and experts with biases and clamped gates.
    pub(super) gpt_oss: bool,
    pub(super) mixture: Option<Mixture>,
}

/// What a family with experts takes for a key that is absent, and how it names them.
pub(super) struct Mixture {
    /// The key of how many there are, and another that it may have instead.
    pub(super) count_keys: [&'static str; 2],
    pub(super) count: u64,
    pub(super) chosen: u64,
    /// The key of their width, and that.
    pub(super) intermediate: (&'static str, Option<u64>),
    /// Width of the feed-forward layers without experts.
    pub(super) dense: Option<u64>,
    /// Whether the weights of the chosen always sum to 1.
    pub(super) normalized: bool,
    /// Whether layers may have none, by `mlp_only_layers` and `decoder_sparse_step`.
    pub(super) may_be_dense: bool,
    /// Width of the shared expert, if the family has one.
    pub(super) shared: Option<u64>,
}

/// Which layers see only a window.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Windows {
    /// None; a window in the file is refused.
    Nowhere,
    /// All, if the file gives a window; the default where the key is absent.
    Everywhere(Option<u64>),
    /// All, if `use_sliding_window`.
    ByFlag,
    /// By `layer_types`, or every other one from the first on up to layer `max_window_layers`, if `use_sliding_window`.
    EarlyOdd,
    /// By `layer_types`, or from layer `max_window_layers` on, if `use_sliding_window`.
    Late,
    /// By `layer_types`, or where positions do not turn, if `use_sliding_window`.
    WhereNotTurning,
    /// By `layer_types`, or all but every n-th.
    AllButEvery(u64),
    /// By `layer_types`, or every other one from the first on; the default where the key is absent.
    EveryOther(u64),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Biases {
    Nowhere,
    /// Of queries, keys and values.
    Qkv,
    /// The same, unless `qkv_bias` is false.
    QkvByKey,
    /// Of these and the output, if `attention_bias`.
    ByKey,
    /// The same, unless `attention_bias` is false.
    UnlessKey,
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
    gpt_oss: false,
    mixture: None,
};

/// Qwen3-MoE.
const QWEN_MIXTURE: Mixture = Mixture {
    count_keys: ["num_experts", "num_local_experts"],
    count: 128,
    chosen: 8,
    intermediate: ("moe_intermediate_size", Some(768)),
    dense: Some(6144),
    normalized: false,
    may_be_dense: true,
    shared: None,
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

pub(super) const FAMILIES: [Family; 13] = [
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
    Family {
        architecture: "MixtralForCausalLM",
        kv_heads: Some(8),
        context: 131_072,
        epsilon: 1e-5,
        theta: 1_000_000.0,
        windows: Windows::Everywhere(None),
        biases: Biases::Nowhere,
        mixture: Some(Mixture {
            count_keys: ["num_local_experts", "num_experts"],
            count: 8,
            chosen: 2,
            intermediate: ("intermediate_size", None),
            dense: None,
            normalized: true,
            may_be_dense: false,
            shared: None,
        }),
        ..LLAMA
    },
    Family {
        architecture: "Qwen2MoeForCausalLM",
        kv_heads: Some(16),
        context: 32_768,
        windows: Windows::EarlyOdd,
        biases: Biases::QkvByKey,
        mixture: Some(Mixture {
            count: 60,
            chosen: 4,
            intermediate: ("moe_intermediate_size", Some(1408)),
            dense: Some(5632),
            shared: Some(5632),
            ..QWEN_MIXTURE
        }),
        ..LLAMA
    },
    Family {
        architecture: "Qwen3MoeForCausalLM",
        kv_heads: Some(4),
        context: 32_768,
        windows: Windows::ByFlag,
        head_norms: true,
        mixture: Some(QWEN_MIXTURE),
        ..LLAMA
    },
    Family {
        architecture: "GptOssForCausalLM",
        kv_heads: Some(8),
        head_dim: Some(64),
        context: 131_072,
        epsilon: 1e-5,
        theta: 150_000.0,
        windows: Windows::EveryOther(128),
        biases: Biases::UnlessKey,
        gpt_oss: true,
        mixture: Some(Mixture {
            count_keys: ["num_local_experts", "num_experts"],
            count: 128,
            chosen: 4,
            intermediate: ("intermediate_size", Some(2880)),
            dense: Some(2880),
            normalized: true,
            may_be_dense: false,
            shared: None,
        }),
        ..LLAMA
    },
];
