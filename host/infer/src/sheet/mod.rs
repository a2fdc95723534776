//! What a step costs on a device, counted without it: dispatches, workgroups, bytes, multiply-adds, and the time that these take at
//! peak rates.
//!
//! Bytes are those that workgroups say they touch ([`crate::touch`]), sent through a cache of the device's size in the order in
//! which the workgroups run, in the second of two equal steps. Times are what that takes at the device's peak rates, which kernels do
//! not reach; but a cache that keeps better than what was touched last can read less. What is drawn from the logits
//! afterwards is not counted.

mod banks;
mod cache;
mod experts;
mod kernel;
mod profile;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_contract::{BLOCK, DecodeError, Decoder, Sampling, StepSequence};
use tidegate_weights::Checkpoint;

pub use profile::{DeviceProfile, PROFILES};

use crate::decoder::{Piece, StepWords, on_paper};
use crate::device::ComputeCost;
use crate::kernels::{Arithmetic, Kernel, Together, expected_kernels};
use crate::load_error::LoadError;
use crate::program::{Dispatch, Plan, SizedKernel};
use crate::touch::Touch;
use crate::{DecoderOptions, GpuDecoder};
use cache::{Cache, Moved};
use kernel::KernelFacts;
use trace::{Replay, Trace};
use traffic::{Pass, Traffic};

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
    pub kernels: String,
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
    /// Passes that it runs in: a decoder has room for so many rows of such a context at once, and at hand none of its dispatches may
    /// hold up the device for long.
    pub passes: usize,
    /// Dispatches of all passes, each by itself.
    pub dispatches: Vec<DispatchSheet>,
    /// Bytes of the weights, and of the keys and values that its rows see, each once.
    pub least_bytes: u64,
    /// Bytes that come from memory.
    pub read_bytes: u64,
    /// Bytes that go to memory.
    pub written_bytes: u64,
    /// Multiply-adds, or what takes as long.
    pub multiply_adds: u64,
    /// Seconds at peak rates, and what they are made of.
    pub seconds: Seconds,
    /// Milliseconds on the device at hand, all dispatches together, where they were measured.
    pub measured_ms: Option<f64>,
}

/// Seconds that something takes at peak rates.
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
    /// Barriers of its text outside of loops and within them, each counted once.
    pub barriers: [u32; 2],
    /// Words of one of 32 banks of workgroup memory that lanes ask for at once, at most: 1 is no conflict.
    pub bank_conflicts: u32,
    /// Bytes of its buffers that it needs, each once.
    pub needed_bytes: u64,
    /// Bytes that its workgroups ask for, of memory or a cache.
    pub asked_bytes: u64,
    /// Bytes that it writes, into a cache.
    pub stored_bytes: u64,
    /// Bytes that come from memory while it runs.
    pub read_bytes: u64,
    /// Bytes that go to memory while it runs, whoever has written them.
    pub written_bytes: u64,
    /// Multiply-adds, or what takes as long.
    pub multiply_adds: u64,
    /// Seconds it takes at peak rates, without the gap before it.
    pub seconds: f64,
    /// What these are: `memory` or `arithmetic`.
    pub bound: &'static str,
    /// Milliseconds on the device at hand, where they were measured.
    pub measured_ms: Option<f64>,
}

impl StepSheet {
    /// Tokens per second at peak rates, where each row is one.
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
        let who = (device.name.as_str(), device.software);
        let kernels = expected_kernels(traits, who, asked, same_bits)?;
        let paper = on_paper(checkpoint, options, traits, kernels)?;
        let loras = checkpoint.loras().len();
        let [decode, prefill] = [steps.decode(loras), steps.prefill(loras)];
        let sheet = Sheet {
            plan: &paper.plan,
            together: paper.together,
            device,
            looked_at: LOOKED_AT,
            most_workgroups: MOST_WORKGROUPS,
        };
        Ok(CostSheet {
            device: device.clone(),
            kernels: paper.products.clone(),
            weights_bytes: paper.memory.weights,
            decode: sheet.step(&decode, &paper.passes(&decode), &[])?,
            prefill: sheet.step(&prefill, &paper.passes(&prefill), &[])?,
        })
    }

    /// What a model that is loaded costs on its device, beside the times that its dispatches take there, in the passes and submissions
    /// that its steps run in.
    ///
    /// # Errors
    /// A step has more workgroups than a sheet follows, which is found before any is measured, or the device failed.
    pub fn measured(
        decoder: &mut GpuDecoder,
        device: &DeviceProfile,
        steps: SheetOptions,
    ) -> Result<CostSheet, LoadError> {
        CostSheet::measured_within(decoder, device, steps, MOST_WORKGROUPS)
    }

    fn measured_within(
        decoder: &mut GpuDecoder,
        device: &DeviceProfile,
        steps: SheetOptions,
        most_workgroups: u64,
    ) -> Result<CostSheet, LoadError> {
        let failed = |error| LoadError::from_decode(error, 0);
        let loras = decoder.shape().loras;
        let [decode, prefill] = [steps.decode(loras), steps.prefill(loras)];
        let passes = [decoder.passes(&decode), decoder.passes(&prefill)];
        // Nobody waits for times whose sheet is refused then.
        let sheet = Sheet::of(decoder, device, most_workgroups);
        sheet.followed(&decode, &passes[0])?;
        sheet.followed(&prefill, &passes[1])?;
        let times = [
            least_times(decoder, &decode, &passes[0]).map_err(failed)?,
            least_times(decoder, &prefill, &passes[1]).map_err(failed)?,
        ];
        let sheet = Sheet::of(decoder, device, most_workgroups);
        Ok(CostSheet {
            device: device.clone(),
            kernels: decoder.products().to_owned(),
            weights_bytes: decoder.memory_report().weights,
            decode: sheet.step(&decode, &passes[0], &times[0])?,
            prefill: sheet.step(&prefill, &passes[1], &times[1])?,
        })
    }
}

/// Steps that are measured at most, and for how long.
const MOST_STEPS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(2);

/// Milliseconds of each dispatch of each pass of a step: the least of some steps, since a device that had nothing to do is slow at first.
fn least_times(
    decoder: &mut GpuDecoder,
    step: &[StepSequence],
    passes: &[Vec<Piece>],
) -> Result<Vec<Vec<(usize, f64)>>, DecodeError> {
    let started = Instant::now();
    let mut least = decoder.times(step, passes)?;
    for _ in 1..MOST_STEPS {
        if started.elapsed() > PATIENCE {
            break;
        }
        let times = decoder.times(step, passes)?;
        let pairs = least.iter_mut().flatten().zip(times.iter().flatten());
        for ((_, least), (_, time)) in pairs {
            *least = least.min(*time);
        }
    }
    Ok(least)
}

impl SheetOptions {
    /// What a decoder is loaded with for these steps, and else by default.
    #[must_use]
    pub fn decoder(self) -> DecoderOptions {
        DecoderOptions {
            context: self.context,
            blocks: self.blocks(),
            max_rows: self.rows(),
            max_samples: self.batch,
            ..DecoderOptions::default()
        }
    }

    /// Rows that a decoder needs for these steps.
    fn rows(self) -> usize {
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

    /// Sequences go through a model's adapters in turn.
    fn decode(self, loras: usize) -> Vec<StepSequence> {
        let sequence = |index: usize| StepSequence {
            lora: index.checked_rem(loras).map_or(0, |lora| 1 + lora as u32),
            position: self.context as u32 - 1,
            tokens: vec![0],
            blocks: self.blocks_of(index),
            samples: vec![Sampling::default()],
        };
        (0..self.batch).map(sequence).collect()
    }

    /// A prompt goes through the first of a model's adapters.
    fn prefill(self, loras: usize) -> Vec<StepSequence> {
        let rows = self.chunk.min(self.context);
        vec![StepSequence {
            lora: u32::from(loras > 0),
            position: (self.context - rows) as u32,
            tokens: vec![0; rows],
            blocks: self.blocks_of(0),
            samples: vec![Sampling::default()],
        }]
    }
}

/// Of dispatches that are alike but for their buffers, and come after such that are alike, as those of layers do, so many are looked
/// at; the rest do what the last of them did, each with buffers of its own.
const LOOKED_AT: u32 = 2;

/// Workgroups that a sheet follows at most, and pieces that they touch about at most: some seconds.
const MOST_WORKGROUPS: u64 = 1 << 22;
const MOST_PIECES: u64 = 1 << 23;

/// Bytes of a piece of a buffer at least.
const LEAST_PIECE: u64 = 4096;

/// Workgroups that are followed side by side at most.
const MOST_SIDE_BY_SIDE: u64 = 8192;

/// What makes the sheet of a step.
struct Sheet<'a> {
    plan: &'a Plan,
    /// How attention takes rows together.
    together: Together,
    device: &'a DeviceProfile,
    /// [`LOOKED_AT`]
    looked_at: u32,
    /// [`MOST_WORKGROUPS`]
    most_workgroups: u64,
}

/// What makes two dispatches alike, but for their buffers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Likeness {
    kernel: Kernel,
    workgroups: [u32; 3],
    touches: Vec<Touch>,
}

/// A dispatch that runs.
struct Running<'a> {
    /// In the plan.
    index: usize,
    dispatch: &'a Dispatch,
    choice: &'a SizedKernel,
    load: ComputeCost,
    /// Rows, or what else its work is counted by.
    count: u32,
    facts: KernelFacts,
    workgroups: [u32; 3],
    /// The dispatch of this pass that it costs as much as, if it is not looked at itself: its place among those that run.
    like: Option<usize>,
    touched: Traffic,
}

impl<'a> Sheet<'a> {
    /// Of a model that is loaded.
    fn of(decoder: &'a GpuDecoder, device: &'a DeviceProfile, most_workgroups: u64) -> Sheet<'a> {
        Sheet {
            plan: decoder.plan(),
            together: decoder.together(),
            device,
            looked_at: LOOKED_AT,
            most_workgroups,
        }
    }

    /// What runs in each pass of a step, if that is no more than a sheet follows.
    fn followed(
        &self,
        sequences: &[StepSequence],
        passes: &[Vec<Piece>],
    ) -> Result<Vec<(Vec<Running<'a>>, Pass)>, LoadError> {
        let mut facts = HashMap::new();
        let mut running = Vec::new();
        for pieces in passes {
            let pass = self.pass_of(sequences, pieces);
            running.push((self.running(&pass, &mut facts), pass.0));
        }
        let all = running.iter().flat_map(|(running, _)| running);
        let looked_at = all.filter(|running| running.like.is_none());
        let workgroups: u64 = looked_at.map(|of| product(of.workgroups)).sum();
        if workgroups > self.most_workgroups {
            return Err(LoadError::Option {
                what: "the workgroups of a step that a sheet follows",
                value: workgroups as usize,
                least: 1,
                most: self.most_workgroups as usize,
            });
        }
        Ok(running)
    }

    /// `times`: milliseconds of dispatches by their index in the plan, for each pass.
    fn step(
        &self,
        sequences: &[StepSequence],
        passes: &[Vec<Piece>],
        times: &[Vec<(usize, f64)>],
    ) -> Result<StepSheet, LoadError> {
        let mut running = self.followed(sequences, passes)?;
        for (running, pass) in &mut running {
            self.touch(running, pass);
        }
        let all = running.iter().flat_map(|(running, _)| running);
        // What is not looked at touches each of its pieces once.
        let asked: u64 = all
            .map(|of| match of.like {
                None => of.touched.asked + of.touched.stored,
                Some(_) => of.touched.needed + of.touched.stored,
            })
            .sum();
        let piece = (asked / MOST_PIECES).next_power_of_two().max(LEAST_PIECE);
        let mut cache = Cache::new(self.device.cache, piece);
        // What the step before has left is there.
        for (running, pass) in &running {
            self.moved(running, pass, &mut cache);
        }
        let mut dispatches = Vec::new();
        for (number, (running, pass)) in running.iter().enumerate() {
            let times = times.get(number).map_or(&[][..], Vec::as_slice);
            let times: HashMap<usize, f64> = times.iter().copied().collect();
            let moved = self.moved(running, pass, &mut cache);
            for (running, moved) in running.iter().zip(moved) {
                let measured = times.get(&running.index).copied();
                dispatches.push(self.dispatch(running, moved, measured));
            }
        }
        let least = traffic::least(self.plan, running.iter().map(|(_, pass)| pass));
        let rows = running.iter().map(|(_, pass)| pass.extent.rows).sum();
        Ok(self.total((rows, running.len()), least, dispatches))
    }

    /// A pass, and what its dispatches come to.
    fn pass_of(&self, sequences: &[StepSequence], pieces: &[Piece]) -> (Pass, Vec<ComputeCost>) {
        let mut words = StepWords::new(self.together);
        let extent = words.fill(sequences, pieces, &mut Vec::new());
        let of_rows = pieces
            .iter()
            .flat_map(|piece| std::iter::repeat_n(piece.sequence, piece.to - piece.from));
        let of_rows: Vec<usize> = of_rows.collect();
        let loads = self.plan.loads(extent, &words.row_contexts);
        let pass = Pass::new(extent, &words.row_contexts, &of_rows, &words.partition);
        (pass, loads)
    }

    /// The dispatches of a pass that run.
    fn running(
        &self,
        (pass, loads): &(Pass, Vec<ComputeCost>),
        facts: &mut HashMap<Kernel, KernelFacts>,
    ) -> Vec<Running<'a>> {
        let mut running: Vec<Running<'a>> = Vec::new();
        let mut known: HashMap<(Option<Likeness>, Likeness), (u32, usize)> = HashMap::new();
        let mut before = None;
        for (index, (dispatch, load)) in self.plan.dispatches().iter().zip(loads).enumerate() {
            let Some(choice) = dispatch.chosen(pass.extent) else {
                continue;
            };
            let workgroups = choice.grid.map(|axis| axis.workgroups(pass.extent));
            let likeness = Likeness {
                kernel: choice.kernel,
                workgroups,
                touches: dispatch.touches.clone(),
            };
            let place = running.len();
            let key = (before.replace(likeness.clone()), likeness);
            let (seen, last) = known.entry(key).or_insert((0, place));
            let like = (*seen >= self.looked_at).then_some(*last);
            if like.is_none() {
                (*seen, *last) = (*seen + 1, place);
            }
            running.push(Running {
                index,
                dispatch,
                choice,
                load: *load,
                count: dispatch.of.of(pass.extent),
                facts: *facts
                    .entry(choice.kernel)
                    .or_insert_with(|| KernelFacts::of(choice.kernel)),
                workgroups,
                like,
                touched: Traffic::default(),
            });
        }
        running
    }

    /// Fills in what the workgroups of a pass touch.
    fn touch(&self, running: &mut [Running<'_>], pass: &Pass) {
        for place in 0..running.len() {
            let of = &running[place];
            running[place].touched = match of.like {
                Some(like) => running[like].touched,
                None => traffic::touched(of.dispatch, of.choice, pass),
            };
        }
    }

    /// What each dispatch of a pass moves.
    fn moved(&self, running: &[Running<'_>], pass: &Pass, cache: &mut Cache) -> Vec<Moved> {
        let alike: HashSet<usize> = running.iter().filter_map(|of| of.like).collect();
        let mut replays: HashMap<usize, Replay> = HashMap::new();
        let mut all = Vec::with_capacity(running.len());
        for (place, of) in running.iter().enumerate() {
            if let Some(replay) = of.like.and_then(|like| replays.get(&like)) {
                all.push(replay.run(of.dispatch, cache));
                continue;
            }
            let side_by_side = self.side_by_side(of.facts.lanes);
            let mut trace = alike.contains(&place).then(Trace::default);
            let (dispatch, choice) = (of.dispatch, of.choice);
            let moved = traffic::moved(dispatch, choice, pass, side_by_side, cache, trace.as_mut());
            all.push(moved);
            if let Some(trace) = trace {
                replays.insert(place, trace.replay());
            }
        }
        all
    }

    /// Workgroups that the device has in flight at once.
    fn side_by_side(&self, lanes: u32) -> usize {
        let each = if self.device.software {
            1
        } else {
            // Vulkan, Metal and DX12 devices all keep at most some 32 workgroups on one multiprocessor.
            (self.device.lanes / lanes.max(1)).clamp(1, 32)
        };
        let all = u64::from(self.device.multiprocessors) * u64::from(each);
        all.min(MOST_SIDE_BY_SIDE) as usize
    }

    fn dispatch(
        &self,
        running: &Running<'_>,
        moved: Moved,
        measured_ms: Option<f64>,
    ) -> DispatchSheet {
        let multiply_adds = running.load.rows.saturating_add(running.load.attention);
        // Where there are fewer workgroups than multiprocessors, the rest have nothing to do.
        let all = product(running.workgroups) as f64;
        let each = all / f64::from(self.device.multiprocessors);
        let memory = (moved.read + moved.written) as f64 / self.device.bandwidth;
        let arithmetic = self.arithmetic(running) / each.min(1.0);
        DispatchSheet {
            kernel: running.choice.kernel.name(),
            workgroups: running.workgroups,
            workgroups_each: each,
            lanes: running.facts.lanes,
            workgroup_memory: running.facts.shared,
            barriers: running.facts.barriers,
            bank_conflicts: running.facts.bank_conflicts,
            needed_bytes: running.touched.needed,
            asked_bytes: running.touched.asked,
            stored_bytes: running.touched.stored,
            read_bytes: moved.read,
            written_bytes: moved.written,
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

    /// Seconds that a dispatch computes at the device's peak rate; none where that is not known.
    fn arithmetic(&self, running: &Running<'_>) -> f64 {
        let load = running.load;
        let all = load.rows.saturating_add(load.attention) as f64;
        let (rate, padding) = match running.choice.kernel.arithmetic() {
            Arithmetic::F32 => (self.device.multiply_adds, 1.0),
            // Whole tiles are multiplied, however few of their rows there are.
            Arithmetic::Matrices { rows } => {
                let whole = f64::from(running.count.next_multiple_of(rows));
                let padding = whole / f64::from(running.count.max(1));
                (self.device.matrix_multiply_adds, padding)
            }
            Arithmetic::Other => (None, 1.0),
        };
        rate.map_or(0.0, |rate| all * padding / rate)
    }

    fn total(
        &self,
        (rows, passes): (u32, usize),
        least_bytes: u64,
        dispatches: Vec<DispatchSheet>,
    ) -> StepSheet {
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
        let measured = dispatches.iter().map(|dispatch| dispatch.measured_ms);
        StepSheet {
            rows,
            passes,
            least_bytes,
            read_bytes: sum(|dispatch| dispatch.read_bytes),
            written_bytes: sum(|dispatch| dispatch.written_bytes),
            multiply_adds: sum(|dispatch| dispatch.multiply_adds),
            seconds,
            measured_ms: measured.sum(),
            dispatches,
        }
    }
}

fn product(workgroups: [u32; 3]) -> u64 {
    let product = |product: u64, axis: u32| product.saturating_mul(u64::from(axis));
    workgroups.into_iter().fold(1, product)
}
