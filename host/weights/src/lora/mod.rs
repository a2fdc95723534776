//! Low-rank adapters (LoRA, Hu et al. 2021) as the peft library writes them: `adapter_config.json` and
//! `adapter_model.safetensors`.
//!
//! An adapted matrix W makes `W x + scale · B (A x)` of a row x, where A is `[rank, width]` and B `[rows, rank]`. What an
//! adapter does beside that (DoRA, biases, modules of its own) is refused by name.

mod config;
mod error;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;
use sha2::{Digest, Sha256};

use crate::checkpoint::{FileBytes, ReadFile, json, read};
use crate::config::ModelConfig;
use crate::error::TensorError;
use crate::format::Format;
use crate::names::{DecoderTensor, LayerTensor};
use crate::safetensors::{Store, StoredTensor};
use crate::tensor::{Layout, Order, Tensor};

use config::LoraConfig;
pub use error::LoraError;
pub use summary::LoraSummary;

/// The largest rank of a pair: beyond what is trained, and within what kernels keep of a row.
pub const MOST_RANK: usize = 512;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// What an adapter may adapt.
const ADAPTED: &str = "adapted are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj of layers, fused as \
                       qkv_proj and gate_up_proj or not, and none of experts";

/// The same: names of the modules of a layer, and the matrices that each is.
const MODULES: [(&str, &[LayerTensor]); 9] = [
    ("self_attn.q_proj", &[LayerTensor::Query]),
    ("self_attn.k_proj", &[LayerTensor::Key]),
    ("self_attn.v_proj", &[LayerTensor::Value]),
    (
        "self_attn.qkv_proj",
        &[LayerTensor::Query, LayerTensor::Key, LayerTensor::Value],
    ),
    ("self_attn.o_proj", &[LayerTensor::Output]),
    ("mlp.gate_proj", &[LayerTensor::Gate]),
    ("mlp.up_proj", &[LayerTensor::Up]),
    ("mlp.gate_up_proj", &[LayerTensor::Gate, LayerTensor::Up]),
    ("mlp.down_proj", &[LayerTensor::Down]),
];

/// A low-rank adapter of a decoder, opened and held against its base.
///
/// Files are taken to stay as they are while it lives.
pub struct Lora {
    path: PathBuf,
    store: Store,
    config: FileBytes,
    pairs: BTreeMap<(usize, LayerTensor), Pair>,
}

/// What adapts a matrix.
struct Pair {
    a: String,
    b: String,
    /// The first of its rows in B.
    first: usize,
    rows: usize,
    width: usize,
    rank: usize,
    scale: f64,
}

/// The pair of matrices that adapts one of a base, in the orientation and order of that.
#[derive(Debug)]
pub struct LowRank<'a> {
    /// `[rank, width]`
    pub a: Tensor<'a>,
    /// `[rows, rank]`
    pub b: Tensor<'a>,
    /// What `B (A x)` is multiplied by.
    pub scale: f64,
}

impl std::fmt::Debug for Lora {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lora")
            .field("path", &self.path)
            .field("pairs", &self.pairs.len())
            .finish_non_exhaustive()
    }
}

impl Lora {
    /// Opens a directory with an adapter of `base`. Only headers are read.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, the adapter is of a kind that is not run, or does not fit the base.
    pub fn open(path: &Path, base: &ModelConfig, files: &dyn ReadFile) -> Result<Lora, LoraError> {
        let no_adapter = || LoraError::NoAdapter {
            path: path.to_owned(),
        };
        let extension = path.extension();
        if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            return Err(LoraError::Gguf {
                path: path.to_owned(),
            });
        }
        let config_path = path.join(CONFIG);
        let config = read(files, &config_path)?.ok_or_else(no_adapter)?;
        let object = json(
            &config_path,
            (*config).as_ref(),
            "the configuration of an adapter",
        )?;
        let said = LoraConfig::read(&config_path, &object)?;
        let store = Store::open_file(&path.join(WEIGHTS), files)?.ok_or_else(no_adapter)?;
        let mut lora = Lora {
            path: path.to_owned(),
            store,
            config,
            pairs: BTreeMap::new(),
        };
        lora.pair(base, (&config_path, &said))?;
        Ok(lora)
    }

    /// The modules of a layer that may be adapted, as adapters name them.
    #[must_use]
    pub fn modules() -> Vec<&'static str> {
        MODULES.iter().map(|(name, _)| *name).collect()
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What adapts a matrix of a layer, if anything does.
    ///
    /// # Errors
    /// A tensor is stored in a precision that is not read.
    pub fn low_rank(
        &self,
        layer: usize,
        matrix: LayerTensor,
    ) -> Result<Option<LowRank<'_>>, TensorError> {
        let Some(pair) = self.pairs.get(&(layer, matrix)) else {
            return Ok(None);
        };
        let a = self.tensor(&pair.a, [0, pair.rank, pair.width])?;
        let b = self.tensor(&pair.b, [pair.first, pair.rows, pair.rank])?;
        Ok(Some(LowRank {
            a,
            b,
            scale: pair.scale,
        }))
    }

    /// The rank of what adapts a matrix of a layer; 0 where nothing does.
    #[must_use]
    pub fn rank(&self, layer: usize, matrix: LayerTensor) -> usize {
        let pair = self.pairs.get(&(layer, matrix));
        pair.map_or(0, |pair| pair.rank)
    }

    /// The largest rank.
    #[must_use]
    pub fn most_rank(&self) -> usize {
        let ranks = self.pairs.values().map(|pair| pair.rank);
        ranks.max().unwrap_or(0)
    }

    /// Matrices that it adapts.
    #[must_use]
    pub fn matrices(&self) -> usize {
        self.pairs.len()
    }

    /// Numbers of all its pairs.
    #[must_use]
    pub fn parameters(&self) -> usize {
        let each = self.pairs.values();
        // Of a fused matrix each part is multiplied by itself.
        each.map(|pair| pair.rank * (pair.rows + pair.width)).sum()
    }

    /// SHA-256 over both files, with their names and lengths, as `sha256:` and lower-case hexadecimal digits. Reads all of them.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let config = (Path::new(CONFIG), (*self.config).as_ref());
        for (name, bytes) in std::iter::once(config).chain(self.store.files()) {
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            for part in [name.as_bytes(), bytes] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        written(hash)
    }

    /// `rows` rows of a stored matrix, from the first of them on.
    fn tensor(
        &self,
        name: &str,
        [first, rows, width]: [usize; 3],
    ) -> Result<Tensor<'_>, TensorError> {
        let missing = || TensorError::Missing {
            name: name.to_owned(),
            expected: vec![rows, width],
        };
        let stored = self.store.get(name).ok_or_else(missing)?;
        let format = match stored.dtype {
            Dtype::F32 => Format::F32,
            Dtype::F16 => Format::F16,
            Dtype::BF16 => Format::Bf16,
            other => {
                return Err(TensorError::Precision {
                    name: name.to_owned(),
                    found: format!("{other:?}"),
                    supported: "F32, F16 and BF16",
                });
            }
        };
        Ok(Tensor {
            name: name.to_owned(),
            rows,
            width,
            format,
            layout: Layout::Rows {
                bytes: stored.bytes,
            },
            order: Order {
                first,
                ..Order::STRAIGHT
            },
        })
    }

    /// Finds the pairs, and holds each against its matrix.
    fn pair(
        &mut self,
        base: &ModelConfig,
        (config_path, said): (&Path, &LoraConfig),
    ) -> Result<(), LoraError> {
        let path = self.path.join(WEIGHTS);
        let names: Vec<String> = self.store.names().map(str::to_owned).collect();
        if names.is_empty() {
            return Err(LoraError::Empty { path });
        }
        for name in names {
            let unknown = |reason: String| LoraError::Unknown {
                path: path.clone(),
                name: name.clone(),
                reason,
            };
            let (module, partner) = match (
                name.strip_suffix(".lora_A.weight"),
                name.strip_suffix(".lora_B.weight"),
            ) {
                (Some(module), _) => (module, format!("{module}.lora_B.weight")),
                (None, Some(module)) => (module, format!("{module}.lora_A.weight")),
                (None, None) => {
                    let reason = "is neither `lora_A.weight` nor `lora_B.weight` of a matrix; nothing else is run";
                    return Err(unknown(reason.to_owned()));
                }
            };
            if self.store.get(&partner).is_none() {
                return Err(LoraError::Partner {
                    path,
                    name,
                    partner,
                });
            }
            if name.ends_with(".lora_B.weight") {
                continue;
            }
            let module = module.strip_prefix("base_model.model.").unwrap_or(module);
            let (layer, parts) = adapted(module).ok_or_else(|| {
                unknown(format!("adapts `{module}`, which is not run: {ADAPTED}"))
            })?;
            if let Some(key) = said.leaves(module, layer) {
                let reason =
                    format!("adapts `{module}`, and `{key}` of {CONFIG} leaves that as it is");
                return Err(unknown(reason));
            }
            if layer >= base.layers.len() {
                let layers = base.layers.len();
                return Err(unknown(format!(
                    "adapts layer {layer} (the first is 0), and the base has {layers} layers"
                )));
            }
            let shapes = parts.iter().map(|part| {
                match base.shape(DecoderTensor::Layer(layer, *part)).as_deref() {
                    Some([rows, width]) => Some([*rows, *width]),
                    _ => None,
                }
            });
            let shapes: Option<Vec<[usize; 2]>> = shapes.collect();
            let shapes = shapes.ok_or_else(|| {
                unknown(format!(
                    "adapts `{module}`, and the base has no such matrix: {ADAPTED}"
                ))
            })?;
            let width = shapes.first().map_or(0, |[_, width]| *width);
            let rows = shapes.iter().map(|[rows, _]| rows).sum();
            let (a, b) = (self.stored(&path, &name)?, self.stored(&path, &partner)?);
            let shape = |name: &str, of: &StoredTensor<'_>, expected, why: &str| match of.shape
                == expected
            {
                true => Ok(()),
                false => Err(LoraError::Shape {
                    path: path.clone(),
                    name: name.to_owned(),
                    found: of.shape.to_vec(),
                    expected,
                    why: why.to_owned(),
                }),
            };
            let rank = a.shape.first().copied().unwrap_or(0);
            if rank == 0 || rank > MOST_RANK {
                return Err(LoraError::Rank {
                    path,
                    name,
                    rank,
                    most: MOST_RANK,
                });
            }
            let wanted = said.rank(config_path, module)?;
            shape(
                &name,
                &a,
                [wanted, width],
                "by adapter_config.json and the base",
            )?;
            shape(&partner, &b, [rows, rank], "by its partner and the base")?;
            let alpha = said.alpha(config_path, module)?;
            let scale = said.scale(alpha, rank);
            if !(scale as f32).is_finite() {
                return Err(LoraError::Scale {
                    path: config_path.to_owned(),
                    module: module.to_owned(),
                    scale,
                    alpha,
                    rank,
                });
            }
            let mut first = 0;
            for (part, [rows, width]) in parts.iter().zip(shapes) {
                let pair = Pair {
                    a: name.clone(),
                    b: partner.clone(),
                    first,
                    rows,
                    width,
                    rank,
                    scale,
                };
                first += rows;
                if let Some(other) = self.pairs.insert((layer, *part), pair) {
                    return Err(unknown(format!("adapts what `{}` adapts already", other.a)));
                }
            }
        }
        for (layer, part) in self.pairs.keys() {
            self.low_rank(*layer, *part)
                .map_err(|source| LoraError::Tensor {
                    path: path.clone(),
                    source,
                })?;
        }
        Ok(())
    }

    fn stored(&self, path: &Path, name: &str) -> Result<StoredTensor<'_>, LoraError> {
        self.store.get(name).ok_or_else(|| LoraError::Tensor {
            path: path.to_owned(),
            source: TensorError::Missing {
                name: name.to_owned(),
                expected: Vec::new(),
            },
        })
    }
}

/// The digest of a base with an adapter, of those of both: what tells answers that are made with it from others.
#[must_use]
pub fn adapted_digest(base: &str, adapter: &str) -> String {
    let mut hash = Sha256::new();
    for part in [base, adapter] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    written(hash)
}

fn written(hash: Sha256) -> String {
    let digits = hash.finalize();
    let digits: Vec<String> = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

/// The layer of a module, and the matrices that it is: several where they are fused (Phi-3). None if it is nothing that is
/// adapted.
fn adapted(module: &str) -> Option<(usize, &'static [LayerTensor])> {
    let (before, after) = module.split_once("layers.")?;
    // As the weights of a base may begin.
    if ![
        "",
        "model.",
        "model.language_model.",
        "language_model.model.",
    ]
    .contains(&before)
    {
        return None;
    }
    let (layer, part) = after.split_once('.')?;
    let known = MODULES.iter().find(|(name, _)| *name == part);
    let (_, parts) = known?;
    Some((layer.parse().ok()?, parts))
}
