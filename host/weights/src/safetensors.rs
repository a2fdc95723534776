//! `model.safetensors`: memory-mapped, checked against the configuration, read tensor by tensor.
//!
//! Format: the safetensors header (u64 length, JSON, data); every offset in it is checked by the `safetensors` crate
//! before any tensor is looked at.

use std::fs::File;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};

use crate::config::ModelConfig;

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// The upper half of a 32-bit float.
    Bf16,
}

impl Precision {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F16 | Precision::Bf16 => 2,
        }
    }

    /// The name used in shader files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
        }
    }
}

/// Why weights were not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The model is stored in several files.
    #[error("{path} is an index of several weight files, supported: one model.safetensors")]
    Sharded {
        /// The index.
        path: PathBuf,
    },
    /// The header is damaged, or the file was cut short.
    #[error("{path} is not a whole safetensors file ({bytes} bytes): {reason}")]
    Header {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// What is wrong.
        reason: String,
    },
    /// A tensor that the configuration calls for is absent.
    #[error("tensor `{name}` is missing, expected shape {expected:?}")]
    Missing {
        /// The tensor.
        name: String,
        /// Shape it must have.
        expected: Vec<usize>,
    },
    /// A tensor has another shape than the configuration calls for.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?} by config.json")]
    Shape {
        /// The tensor.
        name: String,
        /// Shape in the file.
        found: Vec<usize>,
        /// Shape it must have.
        expected: Vec<usize>,
    },
    /// A tensor is stored in a precision that is not implemented.
    #[error("tensor `{name}` is stored as {found}, supported: F32, F16, BF16")]
    Precision {
        /// The tensor.
        name: String,
        /// Precision in the file.
        found: String,
    },
    /// The file holds more layers than the configuration names.
    #[error(
        "tensor `{name}` belongs to layer {layer} (the first is 0), but `num_hidden_layers` is {layers} in config.json"
    )]
    SurplusLayer {
        /// The tensor.
        name: String,
        /// Its layer, counted from 0.
        layer: usize,
        /// Layers the configuration names.
        layers: usize,
    },
    /// A tensor holds a value that no weight can have.
    #[error("tensor `{name}` holds {value} at element {index}, every weight must be finite")]
    NotFinite {
        /// The tensor.
        name: String,
        /// Index of the first such element.
        index: usize,
        /// The value.
        value: f32,
    },
}

/// An open `model.safetensors`.
#[derive(Debug)]
pub struct Weights {
    map: Mmap,
    metadata: Metadata,
    /// Where the data begins in the file, bytes.
    data: usize,
}

/// One tensor of the file.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// Its precision.
    pub precision: Precision,
    /// Its shape, row-major.
    pub shape: Vec<usize>,
    /// Its elements, little-endian; not necessarily aligned.
    pub bytes: &'a [u8],
}

impl Weights {
    /// Maps a `model.safetensors`, or the one in a model's directory, and checks its header.
    ///
    /// # Errors
    /// The file cannot be read, is truncated or has a damaged header, or the model is in several files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let mut path = path.as_ref().to_owned();
        if path.is_dir() {
            let index = path.join("model.safetensors.index.json");
            path.push("model.safetensors");
            if !path.exists() && index.exists() {
                return Err(WeightsError::Sharded { path: index });
            }
        }
        let read = |source| WeightsError::Read {
            path: path.clone(),
            source,
        };
        let file = File::open(&path).map_err(read)?;
        let bytes = file.metadata().map_err(read)?.len();
        let header = |reason: String| WeightsError::Header {
            path: path.clone(),
            bytes,
            reason,
        };
        if bytes < 8 {
            return Err(header(
                "shorter than the 8 bytes of its header length".to_owned(),
            ));
        }
        // SAFETY: the map is only read, and every access is bounds-checked against its length. If another process
        // changes the file meanwhile the values read are wrong, and if it truncates the file the process gets SIGBUS;
        // a model directory is documented as immutable while it is loaded.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let (length, metadata) =
            SafeTensors::read_metadata(&map).map_err(|e| header(e.to_string()))?;
        Ok(Weights {
            map,
            metadata,
            data: length + 8,
        })
    }

    /// Names of every tensor in the file, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.metadata.tensors().into_keys().collect();
        names.sort();
        names
    }

    /// A tensor, if it has the expected shape and a supported precision.
    ///
    /// # Errors
    /// It is absent, or its shape or precision is another.
    pub fn tensor(&self, name: &str, expected: &[usize]) -> Result<Tensor<'_>, WeightsError> {
        let missing = || WeightsError::Missing {
            name: name.to_owned(),
            expected: expected.to_vec(),
        };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        if info.shape != expected {
            let (found, expected) = (info.shape.clone(), expected.to_vec());
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                found,
                expected,
            });
        }
        let precision = match info.dtype {
            Dtype::F32 => Precision::F32,
            Dtype::F16 => Precision::F16,
            Dtype::BF16 => Precision::Bf16,
            other => {
                return Err(WeightsError::Precision {
                    name: name.to_owned(),
                    found: format!("{other:?}"),
                });
            }
        };
        let (start, end) = info.data_offsets;
        let bytes = self
            .map
            .get(self.data + start..self.data + end)
            .ok_or_else(missing)?;
        Ok(Tensor {
            name: name.to_owned(),
            precision,
            shape: expected.to_vec(),
            bytes,
        })
    }

    /// Checks that every tensor the configuration calls for is there, in its shape, and that no layer is left over.
    ///
    /// # Errors
    /// The first tensor that is not there, or that belongs to a layer past the last.
    pub fn check(&self, config: &ModelConfig) -> Result<(), WeightsError> {
        for (name, shape) in TensorNames::all(config) {
            self.tensor(&name, &shape)?;
        }
        let surplus = self
            .names()
            .into_iter()
            .filter_map(|name| Some((TensorNames::layer_of(&name)?, name)))
            .filter(|(layer, _)| *layer >= config.layers)
            .min();
        match surplus {
            None => Ok(()),
            Some((layer, name)) => Err(WeightsError::SurplusLayer {
                name,
                layer,
                layers: config.layers,
            }),
        }
    }
}

impl Tensor<'_> {
    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.precision.bytes()
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Widens elements `range` to f32 into `out`, which is cleared.
    ///
    /// # Errors
    /// The first value that is not finite.
    pub fn read(
        &self,
        range: std::ops::Range<usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let size = self.precision.bytes();
        let bytes = self
            .bytes
            .get(range.start * size..range.end * size)
            .unwrap_or_default();
        out.clear();
        match self.precision {
            Precision::F32 => {
                out.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)))
            }
            Precision::F16 => out.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|b| f16::from_le_bytes(*b).to_f32()),
            ),
            Precision::Bf16 => out.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|b| bf16::from_le_bytes(*b).to_f32()),
            ),
        }
        match out.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => Err(WeightsError::NotFinite {
                name: self.name.clone(),
                index: range.start + at,
                value: out[at],
            }),
        }
    }

    /// All elements, widened to f32.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn to_f32(&self) -> Result<Vec<f32>, WeightsError> {
        let mut out = Vec::new();
        self.read(0..self.len(), &mut out)?;
        Ok(out)
    }
}

/// The tensors of a Llama-family model, as the transformers library names them.
pub(crate) struct TensorNames;

impl TensorNames {
    pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
    pub(crate) const FINAL_NORM: &str = "model.norm.weight";
    pub(crate) const HEAD: &str = "lm_head.weight";

    /// A tensor of layer `layer`, for example `self_attn.q_proj`.
    pub(crate) fn layer(layer: usize, part: &str) -> String {
        format!("model.layers.{layer}.{part}.weight")
    }

    /// The layer that a tensor of this name belongs to; none if it belongs to no layer.
    fn layer_of(name: &str) -> Option<usize> {
        let (number, _) = name.strip_prefix("model.layers.")?.split_once('.')?;
        number.parse().ok()
    }

    /// Every tensor that must be there, with its shape.
    pub(crate) fn all(config: &ModelConfig) -> impl Iterator<Item = (String, Vec<usize>)> {
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let (query, key) = (
            config.heads * config.head_dim,
            config.kv_heads * config.head_dim,
        );
        let outside = [
            Some((Self::EMBEDDING.to_owned(), vec![config.vocabulary, hidden])),
            Some((Self::FINAL_NORM.to_owned(), vec![hidden])),
            (!config.tied).then(|| (Self::HEAD.to_owned(), vec![config.vocabulary, hidden])),
        ];
        let layers = (0..config.layers).flat_map(move |layer| {
            [
                ("input_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![query, hidden]),
                ("self_attn.k_proj", vec![key, hidden]),
                ("self_attn.v_proj", vec![key, hidden]),
                ("self_attn.o_proj", vec![hidden, query]),
                ("post_attention_layernorm", vec![hidden]),
                ("mlp.gate_proj", vec![intermediate, hidden]),
                ("mlp.up_proj", vec![intermediate, hidden]),
                ("mlp.down_proj", vec![hidden, intermediate]),
            ]
            .map(|(part, shape)| (Self::layer(layer, part), shape))
        });
        outside.into_iter().flatten().chain(layers)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    fn config(layers: usize) -> ModelConfig {
        let text = serde_json::json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": 8,
            "intermediate_size": 12,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "num_hidden_layers": layers,
            "vocab_size": 16,
            "max_position_embeddings": 32,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": true,
            "bos_token_id": 1,
            "eos_token_id": 2,
        });
        ModelConfig::from_json(&text.to_string()).unwrap()
    }

    #[test]
    fn a_file_with_more_layers_than_the_configuration_names_is_refused() {
        let zeros = vec![0; 4096];
        let tensors: Vec<(String, TensorView<'_>)> = TensorNames::all(&config(12))
            .map(|(name, shape)| {
                let bytes = &zeros[..4 * shape.iter().product::<usize>()];
                (name, TensorView::new(Dtype::F32, shape, bytes).unwrap())
            })
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.safetensors");
        safetensors::serialize_to_file(tensors, None, &path).unwrap();
        let weights = Weights::open(&path).unwrap();
        weights.check(&config(12)).unwrap();
        let error = weights.check(&config(2)).unwrap_err().to_string();
        assert_eq!(
            error,
            "tensor `model.layers.2.input_layernorm.weight` belongs to layer 2 (the first is 0), but \
             `num_hidden_layers` is 2 in config.json"
        );
        assert!(matches!(
            weights.check(&config(13)),
            Err(WeightsError::Missing { .. })
        ));
    }
}
