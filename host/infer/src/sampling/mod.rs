//! Draws tokens from logits on the device, so that a step reads back token ids.
//!
//! The definition is that of [`Sampling`]. A row's result depends on its own logits and sampling alone, to the bit: rows
//! are cut into the same chunks whatever the batch, and every sum has one order.
//!
//! Where exactness ends: probabilities, penalties and noise are f32. A border of `top_p` or `min_p` that is closer to a
//! token's probability than a few units in the last place may fall on its other side, and of two tokens whose scores are
//! as close either may win. `top_k`, greedy tokens and the order of the likeliest are exact. A logit beyond 1.7e38 is taken
//! for that where differences are formed, one of infinity for the greatest finite number.

mod adjustments;
pub mod lab;
mod rows;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_contract::{DecodeError, MOST_LOGPROBS, Sampled, Sampling};

use crate::device::{Gpu, WaitError};
use crate::kernels::{Base, Kernel, KernelSet, Pipeline, SamplingKernel, SamplingStage, bind};
use crate::load_error::LoadError;
use adjustments::{Adjustments, entries, room_at_first};
use rows::{ROW, levels, row_words};

/// Likeliest tokens of a row that there is room for.
const TOP: usize = MOST_LOGPROBS as usize;

/// Least logits of a chunk / 4.
const LEAST_CHUNK4: usize = 128;

/// Most logits of a chunk / 4 on a software adapter: llvmpipe ends a kernel's loops after 65,535 iterations in all. The likeliest are
/// found by a pass for each of them, with some passes beside, and each of four tokens may have an adjustment that is searched for: some
/// 65 iterations for every four.
const MOST_CHUNK4: usize = 900;

/// Tokens that a chunk lists at most for the search: `LISTED` in `shaders/sampling/sampling.wgsl`.
const LISTED: usize = 128;

/// Adjustments that there is ever room for, 64 MiB.
const MOST_ADJUSTMENTS: usize = 4 << 20;

/// How rows of logits are cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    vocabulary: usize,
    /// A row / 4, padded.
    stride4: usize,
    chunks: usize,
    /// Logits of a chunk / 4.
    chunk4: usize,
}

impl Cut {
    /// Few chunks on a software adapter, where a lane does one, and goes through what all others have found by itself.
    fn new(kernels: KernelSet, vocabulary: usize) -> Cut {
        let stride4 = vocabulary.div_ceil(4);
        let most = if kernels.base == Base::Software {
            stride4.div_ceil(MOST_CHUNK4).max(16)
        } else {
            32
        };
        let chunk4 = stride4.div_ceil(most).max(LEAST_CHUNK4);
        Cut {
            vocabulary,
            stride4,
            chunks: stride4.div_ceil(chunk4),
            chunk4,
        }
    }

    /// Bytes of a row's scratch memory: `row_scratch` in `shaders/sampling/sampling_chunks.wgsl`.
    fn scratch(self) -> usize {
        self.chunks * (4 + TOP + LISTED) * 8
    }
}

/// What the samplings of a step ask for together.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    samples: u32,
    draws: bool,
    searches: bool,
    top: bool,
}

/// Draws tokens from the logits of a decoder.
#[derive(Debug)]
pub(crate) struct Sampler {
    gpu: Gpu,
    cut: Cut,
    max_samples: usize,
    logits: wgpu::Buffer,
    rows: wgpu::Buffer,
    scratch: wgpu::Buffer,
    results: wgpu::Buffer,
    readback: wgpu::Buffer,
    parameters: wgpu::Buffer,
    pipelines: Pipelines,
    bindings: StageBindings,
    /// Made when first asked for, and made anew when more is.
    masks: Option<wgpu::Buffer>,
    /// What of the adjustments is on the device, and the buffer that they are in, which is made anew when more is asked for.
    adjustments: Adjustments,
    lists: wgpu::Buffer,
    asked: Asked,
    words: Vec<u32>,
}

/// The kernels of the stages.
#[derive(Debug)]
struct Pipelines {
    scan: Pipeline,
    draw: Pipeline,
    finish: Pipeline,
    search: Pipeline,
}

/// What the stages bind; the last two bind the same.
#[derive(Debug)]
struct StageBindings {
    scan: wgpu::BindGroup,
    draw: wgpu::BindGroup,
    finish: wgpu::BindGroup,
}

impl Sampler {
    /// Bytes it takes on a device before a step has masks or adjustments.
    pub(crate) fn bytes(kernels: KernelSet, vocabulary: usize, max_samples: usize) -> u64 {
        let cut = Cut::new(kernels, vocabulary);
        let lists = room_at_first(max_samples, MOST_ADJUSTMENTS) * 16;
        (lists + max_samples * (cut.scratch() + ROW * 4 + 2 * result_words(1) * 4)) as u64
    }

    /// Bytes of what it leaves of so many rows on the device, a part of [`Sampler::bytes`].
    pub(crate) fn result_bytes_of(max_samples: usize) -> u64 {
        (result_words(max_samples) * 4) as u64
    }

    /// Makes its buffers. `logits` is `[max_samples, vocabulary padded to 4]` f32; a draw changes them in place, and leaves what it
    /// draws in `results`, [`Sampler::result_bytes_of`] them.
    pub(crate) fn load(
        gpu: &Gpu,
        kernels: KernelSet,
        checked: bool,
        [vocabulary, max_samples]: [usize; 2],
        [logits, results]: [&wgpu::Buffer; 2],
    ) -> Result<Sampler, LoadError> {
        let cut = Cut::new(kernels, vocabulary);
        let bytes = (max_samples * cut.scratch()) as u64;
        if bytes > gpu.largest_binding {
            return Err(LoadError::BufferTooLarge {
                what: "scratch memory of sampling",
                bytes,
                limit: gpu.largest_binding,
                remedy: "lower max_samples",
            });
        }
        let rows = gpu.storage("rows to sample", (max_samples * ROW * 4) as u64);
        let scratch = gpu.storage("scratch memory of sampling", bytes);
        let words = [
            cut.vocabulary,
            cut.stride4,
            cut.chunks,
            cut.chunk4,
            max_samples,
            0,
            0,
            0,
        ];
        let parameters = gpu.uniform("sampling parameters", &words.map(|word| word as u32));
        let get = |stage| {
            let kernel = SamplingKernel::of(stage, kernels.base);
            gpu.pipeline(Kernel::Sampling(kernel), checked)
        };
        let pipelines = Pipelines {
            scan: get(SamplingStage::Scan)?,
            draw: get(SamplingStage::Draw)?,
            finish: get(SamplingStage::Finish)?,
            search: get(SamplingStage::Search)?,
        };
        let draw = [&rows, logits, &scratch, &parameters];
        let finish = [&rows, logits, &scratch, results, &parameters];
        let most = (gpu.largest_binding as usize / 16).min(MOST_ADJUSTMENTS);
        let lists = gpu.storage(
            "adjustments",
            (room_at_first(max_samples, most) * 16) as u64,
        );
        // Nobody reads masks while there are none.
        let scan = [&rows, logits, &scratch, &parameters, &rows, &lists];
        let bindings = StageBindings {
            scan: bindings_of(gpu, &pipelines.scan, &scan),
            draw: bindings_of(gpu, &pipelines.draw, &draw),
            finish: bindings_of(gpu, &pipelines.finish, &finish),
        };
        Ok(Sampler {
            gpu: gpu.clone(),
            cut,
            max_samples,
            logits: logits.clone(),
            rows,
            scratch,
            results: results.clone(),
            readback: gpu.readback("sampled tokens for the host", results.size()),
            parameters,
            pipelines,
            bindings,
            masks: None,
            adjustments: Adjustments::new(max_samples, most),
            lists,
            asked: Asked::default(),
            words: Vec::new(),
        })
    }

    /// Bytes it takes on the device now.
    pub(crate) fn bytes_now(&self) -> u64 {
        let fixed = [&self.rows, &self.scratch, &self.results, &self.readback];
        let all = fixed.into_iter().chain([&self.lists]).chain(&self.masks);
        all.map(wgpu::Buffer::size).sum()
    }

    /// Uploads how the rows of logits are drawn from, in their order, each with the index of its sequence in the step.
    /// They have been checked by the decoder's shape.
    ///
    /// # Errors
    /// More adjustments than there can be room for, or no memory for more of them.
    pub(crate) fn prepare(&mut self, samplings: &[(usize, &Sampling)]) -> Result<(), DecodeError> {
        self.asked = Asked::default();
        let mut asked = Asked {
            samples: samplings.len() as u32,
            ..Asked::default()
        };
        let mut adjustments = Vec::with_capacity(samplings.len());
        let mut count = 0;
        for (sequence, sampling) in samplings {
            let entries = entries(sampling);
            count += entries.len();
            if count > self.adjustments.most() {
                return Err(DecodeError::Refused {
                    sequence: *sequence,
                    what: "adjustments of the step up to here",
                    value: count.to_string(),
                    limit: format!("at most {}", self.adjustments.most()),
                });
            }
            adjustments.push(entries);
        }
        let places = self.keep(&adjustments)?;
        let mut rows = std::mem::take(&mut self.words);
        rows.clear();
        let (mut masks, mut mask) = (Vec::new(), 0);
        for ((_, sampling), place) in samplings.iter().zip(places) {
            if let Some(allowed) = &sampling.allowed {
                mask += 1;
                masks.extend_from_slice(allowed);
            }
            let own = if sampling.allowed.is_some() { mask } else { 0 };
            let levels = levels(sampling, self.cut.vocabulary);
            rows.extend(row_words(sampling, own, levels, place));
            asked.draws |= sampling.temperature > 0.0;
            asked.searches |= levels > 0;
            asked.top |= sampling.logprobs.unwrap_or(0) > 0;
        }
        self.gpu
            .queue
            .write_buffer(&self.rows, 0, bytemuck::cast_slice(&rows));
        self.words = rows;
        if mask > 0 {
            let bytes = (masks.len() * 4) as u64;
            if self.masks.as_ref().is_none_or(|had| had.size() < bytes) {
                self.masks = Some(self.greater("masks", bytes)?);
                self.bind_scan();
            }
            if let Some(buffer) = &self.masks {
                self.gpu
                    .queue
                    .write_buffer(buffer, 0, bytemuck::cast_slice(&masks));
            }
        }
        self.asked = asked;
        Ok(())
    }

    /// Sends what of the adjustments is not on the device, and says where those of each row are.
    fn keep(&mut self, adjustments: &[Vec<[u32; 4]>]) -> Result<Vec<[u32; 4]>, DecodeError> {
        let placed = self.adjustments.place(adjustments);
        let bytes = (placed.room * 16) as u64;
        if self.lists.size() < bytes {
            match self.greater("adjustments", bytes) {
                Ok(lists) => self.lists = lists,
                Err(error) => {
                    self.adjustments.forget();
                    return Err(error);
                }
            }
            self.bind_scan();
        }
        for (first, entries) in placed.writes {
            let words = bytemuck::cast_slice(&entries);
            let at = first as u64 * 16;
            self.gpu.queue.write_buffer(&self.lists, at, words);
        }
        Ok(placed.rows)
    }

    /// A buffer of so many bytes, or of a few more, so that the next is not soon asked for.
    fn greater(&self, label: &str, bytes: u64) -> Result<wgpu::Buffer, DecodeError> {
        let room = bytes
            .next_power_of_two()
            .min(self.gpu.largest_binding.max(bytes));
        match self.gpu.scoped(|| self.gpu.storage(label, room)) {
            (_, Some(fault)) => Err(fault.into()),
            (buffer, None) => Ok(buffer),
        }
    }

    /// Binds the buffers that there are now to the kernel that reads masks and adjustments.
    fn bind_scan(&mut self) {
        let masks = self.masks.as_ref().unwrap_or(&self.rows);
        let (logits, scratch) = (&self.logits, &self.scratch);
        let buffers = [
            &self.rows,
            logits,
            scratch,
            &self.parameters,
            masks,
            &self.lists,
        ];
        self.bindings.scan = bindings_of(&self.gpu, &self.pipelines.scan, &buffers);
    }

    /// The dispatches of what [`Sampler::prepare`] has prepared, in order, each with its workgroups: two where every token is
    /// greedy, else three.
    fn dispatches(&self) -> Vec<(&Pipeline, &wgpu::BindGroup, [u32; 2])> {
        let Asked { samples, .. } = self.asked;
        let mut dispatches = Vec::new();
        if samples == 0 {
            return dispatches;
        }
        let (pipelines, bindings) = (&self.pipelines, &self.bindings);
        let chunks = [workgroups(&pipelines.scan, self.cut.chunks as u32), samples];
        dispatches.push((&pipelines.scan, &bindings.scan, chunks));
        if self.asked.draws {
            dispatches.push((&pipelines.draw, &bindings.draw, chunks));
        }
        let last = if self.asked.searches {
            &pipelines.search
        } else {
            &pipelines.finish
        };
        dispatches.push((last, &bindings.finish, [workgroups(last, samples), 1]));
        dispatches
    }

    /// Encodes what [`Sampler::prepare`] has prepared, and says how many dispatches it takes.
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) -> u32 {
        let dispatches = self.dispatches();
        for (pipeline, bindings, [x, y]) in &dispatches {
            pass.set_pipeline(&pipeline.compiled);
            pass.set_bind_group(0, *bindings, &[]);
            pass.dispatch_workgroups(*x, *y, 1);
        }
        dispatches.len() as u32
    }

    /// The kernels of what [`Sampler::prepare`] has prepared, in order.
    pub(crate) fn kernels_prepared(&self) -> impl Iterator<Item = Kernel> {
        let dispatches = self.dispatches().into_iter();
        dispatches.map(|(pipeline, ..)| pipeline.kernel)
    }

    /// Every kernel that a draw may take.
    pub(crate) fn kernels(&self) -> [Kernel; 4] {
        let of = &self.pipelines;
        [&of.scan, &of.draw, &of.finish, &of.search].map(|pipeline| pipeline.kernel)
    }

    /// Copies the results to where the host can read them.
    pub(crate) fn copy(&self, encoder: &mut wgpu::CommandEncoder) {
        let bytes = self.result_bytes();
        if bytes > 0 {
            encoder.copy_buffer_to_buffer(&self.results, 0, &self.readback, 0, bytes);
        }
    }

    fn result_bytes(&self) -> u64 {
        let samples = self.asked.samples as usize;
        let words = if self.asked.top {
            2 * self.max_samples + 2 * TOP * samples
        } else {
            2 * samples
        };
        (words * 4) as u64
    }

    /// Reads what `submission` has copied, and appends it to `sampled`; `samplings` are those of [`Sampler::prepare`].
    pub(crate) fn read(
        &self,
        samplings: &[(usize, &Sampling)],
        submission: wgpu::SubmissionIndex,
        deadline: Duration,
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), WaitError> {
        let bytes = self.result_bytes();
        if bytes == 0 {
            return Ok(());
        }
        self.gpu
            .read(&self.readback, bytes, submission, deadline, |bytes| {
                let pair = |index: usize| {
                    let word = |at: usize| {
                        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
                        u32::from_le_bytes(bytes.copied().unwrap_or([u8::MAX; 4]))
                    };
                    (word(8 * index), f32::from_bits(word(8 * index + 4)))
                };
                for (row, (_, sampling)) in samplings.iter().enumerate() {
                    let (token, logprob) = pair(row);
                    if token == u32::MAX {
                        sampled.push(Sampled::default());
                        continue;
                    }
                    let first = self.max_samples + row * TOP;
                    let wanted = usize::from(sampling.logprobs.unwrap_or(0));
                    let top = (first..first + wanted).map(pair);
                    sampled.push(Sampled {
                        token: Some(token),
                        logprob,
                        top: top.filter(|(token, _)| *token != u32::MAX).collect(),
                    });
                }
            })
    }
}

/// Words of the results of so many rows.
fn result_words(rows: usize) -> usize {
    rows * 2 * (1 + TOP)
}

/// Workgroups of a kernel of the draw for so many tasks.
fn workgroups(pipeline: &Pipeline, tasks: u32) -> u32 {
    match pipeline.kernel {
        Kernel::Sampling(kernel) => kernel.workgroups(tasks),
        _ => tasks,
    }
}

fn bindings_of(gpu: &Gpu, pipeline: &Pipeline, buffers: &[&wgpu::Buffer]) -> wgpu::BindGroup {
    bind(
        &gpu.device,
        &pipeline.layout,
        &pipeline.kernel.bindings(),
        buffers,
    )
}
