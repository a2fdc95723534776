//! What a step costs on a device, counted without it: dispatches, workgroups, bytes, multiply-adds, and the least time that these
//! take.
//!
//! Bytes are those that workgroups say they touch ([`crate::touch`]), sent through a cache of the device's size in the order in
//! which the workgroups run. Times are bounds from below: a device that reads, computes and starts dispatches at its peak rates
//! is never faster, and kernels are never as fast as that. What is drawn from the logits afterwards is not counted.

mod banks;
mod cache;
mod kernel;
mod profile;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::HashMap;

use serde::Serialize;
use tidegate_contract::{BLOCK, Sampling, StepSequence};
use tidegate_weights::Checkpoint;

pub use profile::{DeviceProfile, PROFILES};

use crate::decoder::{StepWords, plan_on_paper};
use crate::device::ComputeCost;
use crate::kernels::{Kernel, expected_kernels};
use crate::load_error::LoadError;
use crate::program::Plan;
use crate::touch::Touch;
use crate::{DecoderOptions, GpuDecoder};
use cache::Cache;
use kernel::KernelFacts;
use traffic::{Step, Traffic, traffic};

/// The steps that a sheet is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetOptions {
    /// Sequences that decode together.
    pub batch: usize,
    /// Positions of each of them, the last one's row included.
    pub context: usize,
    /// Rows of a chunk of a prompt, which ends at the same position.
    pub chunk: usize,
}

/// What a model costs on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSheet {
    /// The device.
    pub device: DeviceProfile,
    /// The kernels for products.
    pub kernels: &'static str,
    /// Bytes of the weights there.
    pub weights_bytes: u64,
    /// One token for each sequence.
    pub decode: StepSheet,
    /// A chunk of a prompt.
    pub prefill: StepSheet,
}

/// What a step costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepSheet {
    /// Rows of the step.
    pub rows: u32,
    /// Dispatches, each by itself.
    pub dispatches: Vec<DispatchSheet>,
    /// Bytes of the weights, and of the keys and values that its rows see.
    pub least_bytes: u64,
    /// Bytes that come from memory, by the cache's size.
    pub read_bytes: u64,
    /// Bytes that are written.
    pub written_bytes: u64,
    /// Multiply-adds, or what takes as long.
    pub multiply_adds: u64,
    /// Seconds at least, and what they are made of.
    pub seconds: Seconds,
    /// Milliseconds on the device at hand, all dispatches together, where they were measured.
    pub measured_ms: Option<f64>,
}

/// Seconds that something takes at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// All together.
    pub total: f64,
    /// Of dispatches that wait for memory longest.
    pub memory: f64,
    /// Of dispatches that wait for arithmetic longest.
    pub arithmetic: f64,
    /// Between dispatches.
    pub gaps: f64,
}

/// What a dispatch costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DispatchSheet {
    /// The kernel.
    pub kernel: &'static str,
    /// Workgroups along each axis.
    pub workgroups: [u32; 3],
    /// Workgroups for each multiprocessor of the device.
    pub workgroups_each: f64,
    /// Lanes of a workgroup.
    pub lanes: u32,
    /// Bytes of a workgroup's memory.
    pub workgroup_memory: u32,
    /// Barriers that every lane comes to once, and those within loops, each counted once.
    pub barriers: [u32; 2],
    /// Words of one of 32 banks of workgroup memory that lanes ask for at once, at most: 1 is no conflict.
    pub bank_conflicts: u32,
    /// Bytes of its buffers that it needs, each once.
    pub needed_bytes: u64,
    /// Bytes that come from memory.
    pub read_bytes: u64,
    /// Bytes that its workgroups ask for, of memory or a cache.
    pub asked_bytes: u64,
    /// Bytes that it writes.
    pub written_bytes: u64,
    /// Multiply-adds, or what takes as long.
    pub multiply_adds: u64,
    /// Seconds it takes at least, without the gap before it.
    pub seconds: f64,
    /// What these are: `memory` or `arithmetic`.
    pub bound: &'static str,
    /// Milliseconds on the device at hand, where they were measured.
    pub measured_ms: Option<f64>,
}

impl StepSheet {
    /// Tokens per second at most, where each row is one.
    #[must_use]
    pub fn tokens_per_s(&self) -> f64 {
        f64::from(self.rows) / self.seconds.total
    }

    /// Bytes that come from memory for each byte of weights, keys and values.
    #[must_use]
    pub fn read_share(&self) -> f64 {
        self.read_bytes as f64 / self.least_bytes as f64
    }
}

impl CostSheet {
    /// What a model would cost on a device that need not be here.
    ///
    /// # Errors
    /// As `GpuDecoder::load`, for everything that can be known without a device.
    pub fn planned(
        checkpoint: &Checkpoint,
        device: &DeviceProfile,
        options: &DecoderOptions,
        steps: SheetOptions,
    ) -> Result<CostSheet, LoadError> {
        let traits = device.traits();
        let (asked, same_bits) = (options.kernels, options.reproducible);
        let kernels = expected_kernels(traits, device.software, asked, same_bits)?;
        let (plan, memory) = plan_on_paper(checkpoint, options, traits, kernels)?;
        let sheet = Sheet {
            plan: &plan,
            device,
            looked_at: LOOKED_AT,
        };
        Ok(CostSheet {
            device: device.clone(),
            kernels: kernels.matmul.name(),
            weights_bytes: memory.weights,
            decode: sheet.step(&steps.decode(), &[]),
            prefill: sheet.step(&steps.prefill(), &[]),
        })
    }

    /// What a model that is loaded costs on its device, beside the times that its dispatches take there.
    ///
    /// # Errors
    /// The device failed.
    pub fn measured(
        decoder: &mut GpuDecoder,
        device: &DeviceProfile,
        steps: SheetOptions,
    ) -> Result<CostSheet, LoadError> {
        let failed = |error| LoadError::from_decode(error, 0);
        let [decode, prefill] = [steps.decode(), steps.prefill()];
        let times = [
            decoder.times(&decode).map_err(failed)?,
            decoder.times(&prefill).map_err(failed)?,
        ];
        let sheet = Sheet {
            plan: decoder.plan(),
            device,
            looked_at: LOOKED_AT,
        };
        Ok(CostSheet {
            device: device.clone(),
            kernels: decoder.kernels().matmul.name(),
            weights_bytes: decoder.memory_report().weights,
            decode: sheet.step(&decode, &times[0]),
            prefill: sheet.step(&prefill, &times[1]),
        })
    }
}

impl SheetOptions {
    /// Rows that a decoder needs for these steps.
    #[must_use]
    pub fn rows(self) -> usize {
        self.batch.max(self.chunk.min(self.context))
    }

    /// KV blocks that a decoder needs for these steps.
    #[must_use]
    pub fn blocks(self) -> usize {
        self.batch * self.context.div_ceil(BLOCK)
    }

    /// The blocks of a sequence.
    fn blocks_of(self, sequence: usize) -> Vec<u32> {
        let each = self.context.div_ceil(BLOCK) as u32;
        let first = sequence as u32 * each;
        (first..first + each).collect()
    }

    fn decode(self) -> Vec<StepSequence> {
        let sequence = |index| StepSequence {
            position: self.context as u32 - 1,
            tokens: vec![0],
            blocks: self.blocks_of(index),
            samples: vec![Sampling::default()],
        };
        (0..self.batch).map(sequence).collect()
    }

    fn prefill(self) -> Vec<StepSequence> {
        let rows = self.chunk.min(self.context);
        vec![StepSequence {
            position: (self.context - rows) as u32,
            tokens: vec![0; rows],
            blocks: self.blocks_of(0),
            samples: vec![Sampling::default()],
        }]
    }
}

/// Of dispatches that are alike but for their buffers, as those of layers are, so many are looked at; the rest cost what the last
/// of them did.
const LOOKED_AT: u32 = 2;

/// What makes the sheet of a step.
struct Sheet<'a> {
    plan: &'a Plan,
    device: &'a DeviceProfile,
    /// [`LOOKED_AT`]
    looked_at: u32,
}

/// What makes two dispatches alike, but for their buffers.
#[derive(PartialEq, Eq, Hash)]
struct Likeness {
    kernel: Kernel,
    workgroups: [u32; 3],
    touches: Vec<Touch>,
}

impl Sheet<'_> {
    /// `times`: of dispatches by their index, milliseconds.
    fn step(&self, sequences: &[StepSequence], times: &[(usize, f64)]) -> StepSheet {
        let mut words = StepWords::default();
        let extent = words.fill_whole(sequences);
        let step = Step {
            extent,
            rows: &words.row_contexts,
        };
        let loads = self.plan.loads(extent, &words.row_contexts);
        let times: HashMap<usize, f64> = times.iter().copied().collect();
        let mut cache = Cache::new(self.device.cache);
        let mut known: HashMap<Likeness, (u32, Traffic)> = HashMap::new();
        let mut facts: HashMap<Kernel, KernelFacts> = HashMap::new();
        let mut dispatches = Vec::new();
        for (index, (dispatch, load)) in self.plan.dispatches().iter().zip(loads).enumerate() {
            let Some(choice) = dispatch.chosen(extent) else {
                continue;
            };
            let facts = *facts
                .entry(choice.kernel)
                .or_insert_with(|| KernelFacts::of(choice.kernel));
            let workgroups = choice.grid.map(|axis| axis.workgroups(extent));
            let likeness = Likeness {
                kernel: choice.kernel,
                workgroups,
                touches: dispatch.touches.clone(),
            };
            let side_by_side = self.side_by_side(facts.lanes);
            let mut count = || traffic(dispatch, choice, step, side_by_side, &mut cache);
            let traffic = match known.get_mut(&likeness) {
                Some((seen, traffic)) if *seen >= self.looked_at => *traffic,
                Some(seen) => {
                    *seen = (seen.0 + 1, count());
                    seen.1
                }
                None => {
                    let traffic = count();
                    known.insert(likeness, (1, traffic));
                    traffic
                }
            };
            let measured = times.get(&index).copied();
            let kernel = choice.kernel.name();
            dispatches.push(self.dispatch((kernel, workgroups), facts, traffic, load, measured));
        }
        let least = traffic::least(self.plan, step);
        self.total(extent.rows, least, dispatches)
    }

    /// Workgroups that the device has in flight at once.
    fn side_by_side(&self, lanes: u32) -> usize {
        let each = if self.device.software {
            1
        } else {
            // Vulkan, Metal and DX12 devices all keep at most some 32 workgroups on one multiprocessor.
            (self.device.lanes / lanes.max(1)).clamp(1, 32)
        };
        (self.device.multiprocessors * each) as usize
    }

    fn dispatch(
        &self,
        (kernel, workgroups): (&'static str, [u32; 3]),
        facts: KernelFacts,
        traffic: Traffic,
        load: ComputeCost,
        measured_ms: Option<f64>,
    ) -> DispatchSheet {
        let multiply_adds = load.rows + load.attention;
        // Where there are fewer workgroups than multiprocessors, the rest have nothing to do.
        let all: f64 = workgroups.iter().map(|axis| f64::from(*axis)).product();
        let each = all / f64::from(self.device.multiprocessors);
        let memory = (traffic.read + traffic.written) as f64 / self.device.bandwidth;
        let rate = self.device.multiply_adds;
        let arithmetic = rate.map_or(0.0, |rate| multiply_adds as f64 / (rate * each.min(1.0)));
        DispatchSheet {
            kernel,
            workgroups,
            workgroups_each: each,
            lanes: facts.lanes,
            workgroup_memory: facts.shared,
            barriers: facts.barriers,
            bank_conflicts: facts.bank_conflicts,
            needed_bytes: traffic.needed,
            read_bytes: traffic.read,
            asked_bytes: traffic.asked,
            written_bytes: traffic.written,
            multiply_adds,
            seconds: memory.max(arithmetic),
            bound: if memory >= arithmetic {
                "memory"
            } else {
                "arithmetic"
            },
            measured_ms,
        }
    }

    fn total(&self, rows: u32, least_bytes: u64, dispatches: Vec<DispatchSheet>) -> StepSheet {
        let sum = |of: fn(&DispatchSheet) -> u64| dispatches.iter().map(of).sum::<u64>();
        let bound = |name| {
            let of = dispatches.iter().filter(|dispatch| dispatch.bound == name);
            of.map(|dispatch| dispatch.seconds)
                .fold(0.0, |sum, of| sum + of)
        };
        let mut seconds = Seconds {
            total: 0.0,
            memory: bound("memory"),
            arithmetic: bound("arithmetic"),
            gaps: dispatches.len() as f64 * self.device.gap,
        };
        seconds.total = seconds.memory + seconds.arithmetic + seconds.gaps;
        let measured = dispatches
            .iter()
            .filter_map(|dispatch| dispatch.measured_ms);
        StepSheet {
            rows,
            least_bytes,
            read_bytes: sum(|dispatch| dispatch.read_bytes),
            written_bytes: sum(|dispatch| dispatch.written_bytes),
            multiply_adds: sum(|dispatch| dispatch.multiply_adds),
            seconds,
            measured_ms: dispatches
                .iter()
                .any(|dispatch| dispatch.measured_ms.is_some())
                .then(|| measured.sum()),
            dispatches,
        }
    }
}
