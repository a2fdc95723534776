//! Draws tokens from logits on the device, so that a step reads back token ids.
//!
//! The definition is that of [`Sampling`]. A row's result depends on its own logits and sampling alone, to the bit: rows
//! are cut into the same chunks whatever the batch, and every sum has one order.
//!
//! Where exactness ends: probabilities, penalties and noise are f32. A border of `top_p` or `min_p` that is closer to a
//! token's probability than a few units in the last place may fall on its other side, and of two tokens whose scores are
//! as close either may win. `top_k`, greedy tokens and the order of the likeliest are exact. A logit beyond 1.7e38 is taken
//! for that where differences are formed, one of infinity for the greatest finite number.

pub mod lab;
mod rows;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_contract::{DecodeError, MOST_LOGPROBS, Sampled, Sampling};

use crate::device::{Gpu, WaitError};
use crate::kernels::{Base, Kernel, KernelSet, Pipeline, SamplingKernel, SamplingStage, bind};
use crate::load_error::LoadError;
use rows::{ROW, adjustment_words, row_words};

/// Likeliest tokens of a row that there is room for.
const TOP: usize = MOST_LOGPROBS as usize;

/// Least logits of a chunk / 4.
const LEAST_CHUNK4: usize = 128;

/// Adjustments of a step that there is ever room for: what fits the workgroups of an axis, 64 MiB.
const MOST_ADJUSTMENTS: usize = 64 * 65_535;

/// Levels of the search that find one border.
const LEVELS: u32 = 8;

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
    /// Few chunks on a software adapter, where each of them goes through the sums of all others by itself.
    fn new(kernels: KernelSet, vocabulary: usize) -> Cut {
        let most = if kernels.base == Base::Software {
            16
        } else {
            32
        };
        let stride4 = vocabulary.div_ceil(4);
        let chunk4 = stride4.div_ceil(most).next_power_of_two().max(LEAST_CHUNK4);
        Cut {
            vocabulary,
            stride4,
            chunks: stride4.div_ceil(chunk4),
            chunk4,
        }
    }

    /// Bytes of a row's scratch memory: `row_scratch` in `shaders/sampling/sampling_chunks.wgsl`.
    fn scratch(self) -> usize {
        (self.chunks * (18 + TOP / 2) + 4) * 16
    }
}

/// What the samplings of a step ask for together.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    samples: u32,
    adjustments: u32,
    masks: u32,
    levels: u32,
    draws: bool,
    top: bool,
}

/// A buffer that grows when more is asked of it, with the bindings of the kernel that reads it.
#[derive(Debug)]
struct Growing {
    buffer: wgpu::Buffer,
    bindings: wgpu::BindGroup,
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
    /// For the first level of a search, for odd ones, for even ones: which half of its scratch memory is written.
    parameters: [wgpu::Buffer; 3],
    /// Bindings of the kernels that are not in place, for each of the parameters.
    bindings: [wgpu::BindGroup; 3],
    pipelines: Pipelines,
    adjustments: Option<Growing>,
    masks: Option<Growing>,
    asked: Asked,
    words: Vec<u32>,
}

/// The kernels of the stages.
#[derive(Debug)]
struct Pipelines {
    adjust: Pipeline,
    mask: Pipeline,
    scan: Pipeline,
    search: Pipeline,
    draw: Pipeline,
    top: Pipeline,
    finish: Pipeline,
}

impl Sampler {
    /// Bytes it takes on a device before a step has masks or adjustments.
    pub(crate) fn bytes(kernels: KernelSet, vocabulary: usize, max_samples: usize) -> u64 {
        let cut = Cut::new(kernels, vocabulary);
        (max_samples * (cut.scratch() + ROW * 4 + 2 * result_words(1) * 4)) as u64
    }

    /// Makes its buffers. `logits` is `[max_samples, vocabulary padded to 4]` f32; a draw changes them in place.
    pub(crate) fn load(
        gpu: &Gpu,
        kernels: KernelSet,
        checked: bool,
        vocabulary: usize,
        max_samples: usize,
        logits: &wgpu::Buffer,
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
        let result_bytes = (result_words(max_samples) * 4) as u64;
        let results = gpu.storage("sampled tokens", result_bytes);
        let parameters = [(0, 1), (1, 0), (0, 0)].map(|(parity, begins)| {
            let words = [
                cut.vocabulary,
                cut.stride4,
                cut.chunks,
                cut.chunk4,
                max_samples,
            ];
            let mut words: Vec<u32> = words.into_iter().map(|word| word as u32).collect();
            words.extend([parity, begins, 0]);
            gpu.uniform("sampling parameters", &words)
        });
        let get = |stage| {
            let kernel = SamplingKernel::of(stage, kernels.base);
            gpu.pipeline(Kernel::Sampling(kernel), checked)
        };
        let pipelines = Pipelines {
            adjust: get(SamplingStage::Adjust)?,
            mask: get(SamplingStage::Mask)?,
            scan: get(SamplingStage::Scan)?,
            search: get(SamplingStage::Search)?,
            draw: get(SamplingStage::Draw)?,
            top: get(SamplingStage::Top)?,
            finish: get(SamplingStage::Finish)?,
        };
        let bindings = parameters.each_ref().map(|parameters| {
            let buffers = [&rows, logits, &scratch, &results, parameters];
            bindings_of(gpu, &pipelines.scan, &buffers)
        });
        Ok(Sampler {
            gpu: gpu.clone(),
            cut,
            max_samples,
            logits: logits.clone(),
            rows,
            scratch,
            results,
            readback: gpu.readback("sampled tokens for the host", result_bytes),
            parameters,
            bindings,
            pipelines,
            adjustments: None,
            masks: None,
            asked: Asked::default(),
            words: Vec::new(),
        })
    }

    /// Bytes it takes on the device now.
    pub(crate) fn bytes_now(&self) -> u64 {
        let grown = [&self.adjustments, &self.masks];
        let grown = grown.into_iter().flatten().map(|grown| grown.buffer.size());
        let fixed = [&self.rows, &self.scratch, &self.results, &self.readback];
        fixed.into_iter().map(wgpu::Buffer::size).sum::<u64>() + grown.sum::<u64>()
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
        let mut rows = std::mem::take(&mut self.words);
        rows.clear();
        let (mut adjustments, mut masks) = (Vec::new(), Vec::new());
        for (row, (sequence, sampling)) in samplings.iter().enumerate() {
            let first = (row * self.cut.stride4 * 4) as u32;
            adjustment_words(sampling, first, row as u32, &mut adjustments);
            let count = adjustments.len() / 4;
            if count > self.most_adjustments() {
                return Err(DecodeError::Refused {
                    sequence: *sequence,
                    what: "adjustments of the step up to here",
                    value: count.to_string(),
                    limit: format!("at most {}", self.most_adjustments()),
                });
            }
            if let Some(allowed) = &sampling.allowed {
                asked.masks += 1;
                masks.extend_from_slice(allowed);
            }
            let mask = if sampling.allowed.is_some() {
                asked.masks
            } else {
                0
            };
            rows.extend(row_words(sampling, mask));
            if sampling.temperature > 0.0 {
                let top_k = (1..self.cut.vocabulary as u32).contains(&sampling.top_k);
                let borders = u32::from(top_k) + u32::from(sampling.top_p < 1.0);
                asked.levels = asked.levels.max(borders * LEVELS);
                asked.draws = true;
            }
            asked.top |= sampling.logprobs.unwrap_or(0) > 0;
        }
        asked.adjustments = (adjustments.len() / 4) as u32;
        self.gpu
            .queue
            .write_buffer(&self.rows, 0, bytemuck::cast_slice(&rows));
        self.words = rows;
        if asked.adjustments > 0 {
            let mut words = vec![asked.adjustments, 0, 0, 0];
            words.append(&mut adjustments);
            let grown = self.adjustments.take();
            self.adjustments =
                Some(self.grow("adjustments", grown, &self.pipelines.adjust, &words)?);
        }
        if asked.masks > 0 {
            let grown = self.masks.take();
            self.masks = Some(self.grow("masks", grown, &self.pipelines.mask, &masks)?);
        }
        self.asked = asked;
        Ok(())
    }

    fn most_adjustments(&self) -> usize {
        let bindable = self.gpu.largest_binding as usize / 16 - 1;
        (self.max_samples * self.cut.vocabulary)
            .min(MOST_ADJUSTMENTS)
            .min(bindable)
    }

    /// Uploads `words` to a buffer of the kernel's, to a greater one where they do not fit.
    fn grow(
        &self,
        label: &str,
        grown: Option<Growing>,
        pipeline: &Pipeline,
        words: &[u32],
    ) -> Result<Growing, DecodeError> {
        let bytes = (words.len() * 4) as u64;
        let grown = match grown.filter(|grown| grown.buffer.size() >= bytes) {
            Some(grown) => grown,
            None => {
                let room = bytes
                    .next_power_of_two()
                    .min(self.gpu.largest_binding.max(bytes));
                let make = || {
                    let buffer = self.gpu.storage(label, room);
                    let buffers = [&self.rows, &buffer, &self.logits, &self.parameters[0]];
                    let bindings = bindings_of(&self.gpu, pipeline, &buffers);
                    Growing { buffer, bindings }
                };
                let (made, fault) = self.gpu.scoped(make);
                if let Some(fault) = fault {
                    return Err(fault.into());
                }
                made
            }
        };
        self.gpu
            .queue
            .write_buffer(&grown.buffer, 0, bytemuck::cast_slice(words));
        Ok(grown)
    }

    /// The dispatches of what [`Sampler::prepare`] has prepared, in order, each with its workgroups: two where every token is
    /// greedy, unmasked and without penalties.
    fn dispatches(&self) -> Vec<(&Pipeline, &wgpu::BindGroup, [u32; 2])> {
        let Asked { samples, .. } = self.asked;
        let mut dispatches = Vec::new();
        if samples == 0 {
            return dispatches;
        }
        let pipelines = &self.pipelines;
        if let Some(adjustments) = self
            .adjustments
            .as_ref()
            .filter(|_| self.asked.adjustments > 0)
        {
            let x = workgroups(&pipelines.adjust, self.asked.adjustments);
            dispatches.push((&pipelines.adjust, &adjustments.bindings, [x, 1]));
        }
        if let Some(masks) = self.masks.as_ref().filter(|_| self.asked.masks > 0) {
            let x = workgroups(&pipelines.mask, self.cut.vocabulary.div_ceil(32) as u32);
            dispatches.push((&pipelines.mask, &masks.bindings, [x, samples]));
        }
        let [begin, odd, even] = &self.bindings;
        let chunks = [workgroups(&pipelines.scan, self.cut.chunks as u32), samples];
        dispatches.push((&pipelines.scan, begin, chunks));
        for level in 0..self.asked.levels {
            let bindings = match level {
                0 => begin,
                level if level % 2 == 1 => odd,
                _ => even,
            };
            dispatches.push((&pipelines.search, bindings, chunks));
        }
        if self.asked.draws {
            let after = if self.asked.levels == 0 { begin } else { even };
            dispatches.push((&pipelines.draw, after, chunks));
        }
        if self.asked.top {
            dispatches.push((&pipelines.top, begin, chunks));
        }
        let x = workgroups(&pipelines.finish, samples);
        dispatches.push((&pipelines.finish, begin, [x, 1]));
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
    pub(crate) fn kernels(&self) -> [Kernel; 7] {
        let of = &self.pipelines;
        let pipelines = [
            &of.adjust, &of.mask, &of.scan, &of.search, &of.draw, &of.top, &of.finish,
        ];
        pipelines.map(|pipeline| pipeline.kernel)
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
        pipeline.kernel.bindings(),
        buffers,
    )
}
