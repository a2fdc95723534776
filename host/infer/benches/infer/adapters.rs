//! What low-rank adapters add to a step: 125M parameters in int8 and adapters of rank 16 of every projection, at 8 and 32 sequences
//! around position 128. Without adapters in the step, with one for all sequences, and with eight in turn; beside the base that has
//! none.

use std::io;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use tidegate_contract::{BLOCK, Decoder, Sampling, StepSequence};
use tidegate_infer::{DecoderOptions, DeviceOptions, Gpu, GpuDecoder};
use tidegate_weights::{Checkpoint, FileBytes, Format, Lora, ModelConfig, ReadFile};

const POSITION: u32 = 127;
const MOST: usize = 32;
const ADAPTERS: u32 = 8;
const RANK: usize = 16;

pub(crate) fn benches(criterion: &mut Criterion) {
    if let Err(error) = measure(criterion) {
        eprintln!("{error}");
    }
}

/// An adapter in memory, as peft lays it out.
struct Made {
    config: Vec<u8>,
    weights: Vec<u8>,
}

impl Made {
    fn new(config: &ModelConfig) -> Made {
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let query = config.heads * config.head_dim;
        let key = config.kv_heads * config.head_dim;
        let modules = [
            ("self_attn.q_proj", [query, hidden]),
            ("self_attn.k_proj", [key, hidden]),
            ("self_attn.v_proj", [key, hidden]),
            ("self_attn.o_proj", [hidden, query]),
            ("mlp.gate_proj", [intermediate, hidden]),
            ("mlp.up_proj", [intermediate, hidden]),
            ("mlp.down_proj", [hidden, intermediate]),
        ];
        let (mut header, mut data) = (Vec::new(), Vec::new());
        for layer in 0..config.layers.len() {
            for (module, [rows, width]) in modules {
                for (which, [rows, width]) in [("A", [RANK, width]), ("B", [rows, RANK])] {
                    let begin = data.len();
                    for index in 0..rows * width {
                        let number = (index * 37 % 101) as f32 / 50_000.0 - 0.001;
                        data.extend(number.to_le_bytes());
                    }
                    header.push(format!(
                        "\"base_model.model.model.layers.{layer}.{module}.lora_{which}.weight\":{{\"dtype\":\"F32\",\
                         \"shape\":[{rows},{width}],\"data_offsets\":[{begin},{}]}}",
                        data.len()
                    ));
                }
            }
        }
        let header = format!("{{{}}}", header.join(","));
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.into_bytes());
        weights.extend(data);
        Made {
            config: format!("{{\"peft_type\":\"LORA\",\"r\":{RANK},\"lora_alpha\":32}}")
                .into_bytes(),
            weights,
        }
    }
}

impl ReadFile for Made {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let bytes = match path.file_name().and_then(|name| name.to_str()) {
            Some("adapter_config.json") => &self.config,
            _ => &self.weights,
        };
        Ok(Arc::new(bytes.clone()))
    }
}

fn load(gpu: &Gpu, adapters: u32) -> Result<GpuDecoder, Box<dyn std::error::Error>> {
    let config = ModelConfig::preset("125M").ok_or("there is no preset of 125M")?;
    let made = Made::new(&config);
    let loras = (0..adapters).map(|_| Lora::open(Path::new("made"), &config, &made));
    let loras = loras.collect::<Result<Vec<_>, _>>()?;
    let checkpoint = Checkpoint::random(config, Format::Int8, 1).adapted(loras);
    let options = DecoderOptions {
        context: 256,
        blocks: MOST * 256 / BLOCK,
        max_rows: MOST,
        max_samples: MOST,
        ..DecoderOptions::default()
    };
    Ok(GpuDecoder::load(gpu, &checkpoint, &options)?)
}

fn measure(criterion: &mut Criterion) -> Result<(), Box<dyn std::error::Error>> {
    let gpu = Gpu::open(&crate::adapter(), DeviceOptions::default())?;
    let mut base = load(&gpu, 0)?;
    let mut adapted = load(&gpu, ADAPTERS)?;
    for batch in [8, MOST] {
        let mut group = criterion.benchmark_group(format!("125M/adapters/{batch}"));
        group.throughput(Throughput::Elements(batch as u64));
        for (name, has_adapters, among) in [
            ("base", false, 0),
            ("none", true, 0),
            ("1", true, 1),
            ("8", true, ADAPTERS),
        ] {
            let decoder = match has_adapters {
                true => &mut adapted,
                false => &mut base,
            };
            let step: Vec<_> = (0..batch).map(|index| sequence(index, among)).collect();
            let mut sampled = Vec::new();
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    if let Err(error) = decoder.step(&step, &mut sampled) {
                        eprintln!("{name}: {error}");
                    }
                });
            });
        }
        group.finish();
    }
    Ok(())
}

/// A sequence that goes through one of so many adapters, in turn.
fn sequence(index: usize, among: u32) -> StepSequence {
    let blocks = (POSITION as usize + 1).div_ceil(BLOCK);
    let which = (index as u32).checked_rem(among);
    StepSequence {
        lora: which.map_or(0, |which| 1 + which),
        position: POSITION,
        tokens: vec![0],
        blocks: (index * blocks..(index + 1) * blocks)
            .map(|block| block as u32)
            .collect(),
        samples: vec![Sampling::default()],
    }
}
