//! The steps of a model on a device: cut to passes, begun, and collected.

use std::ops::Range;
use std::time::Instant;

use tidegate_contract::{
    DecodeError, Decoder, DecoderShape, FedToken, Ran, Sampled, Sampling, StepSequence,
};

use super::super::passes::{Piece, passes};
use super::GpuDecoder;
use crate::device::{ComputeCost, Ended, Fault};
use crate::program::{Extent, each_fits, submissions};

/// A pass that the device has, and that is not waited for yet.
#[derive(Debug)]
pub(super) struct BegunPass {
    extent: Extent,
    load: ComputeCost,
    started: Instant,
    submitted: Vec<wgpu::SubmissionIndex>,
    /// Is told when the last of them has ended.
    ended: Ended,
    dispatches: u32,
    /// Whether what draws its tokens is on its way too.
    drawn: bool,
    /// Whether nothing of it had ended before it was waited for, so that its time is known.
    is_timed: bool,
}

/// What follows the logits of a pass in its last submission.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    Nothing,
    Draw,
    Logits,
}

/// How tokens are drawn, in order, each with the index of its sequence in the step.
type Samplings<'a> = Vec<(usize, &'a Sampling)>;

/// Of a whole step.
fn samplings(step: &[StepSequence]) -> Samplings<'_> {
    let sequences = step.iter().enumerate();
    let each = sequences.flat_map(|(index, sequence)| {
        let samples = sequence.samples.iter();
        samples.map(move |sampling| (index, sampling))
    });
    each.collect()
}

/// What is wanted of the logits of a pass.
pub(super) enum Wanted<'a> {
    Logits(&'a mut Vec<f32>),
    Tokens(&'a mut Vec<Sampled>),
}

impl GpuDecoder {
    /// Rows of a pass at most, so that there is scratch for what they see, and every dispatch of this step stays within the cap of
    /// a submission: kernels take any number of rows, but a dispatch is never part of two submissions.
    pub(super) fn pass_rows(&mut self, step: &[StepSequence]) -> usize {
        let all: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        let end = |sequence: &StepSequence| sequence.position as usize + sequence.tokens.len();
        let positions = step.iter().map(end).max().unwrap_or(0);
        let room = self.scratch.rows(positions);
        let mut rows = self.pass[0].min(all).min(room).max(1);
        loop {
            let passes = passes(step, rows, self.pass[1]);
            let fits = passes.iter().all(|pass| {
                let extent = self.words.fill(step, pass, &mut Vec::new());
                let loads = self.program.loads(extent, &self.words.row_contexts);
                self.scratch.fits(extent) && each_fits(&loads, extent.rows, &self.speed)
            });
            if rows == 1 || fits {
                return rows;
            }
            rows = rows.div_ceil(2);
        }
    }

    /// The passes that a step runs in.
    pub(crate) fn passes(&mut self, step: &[StepSequence]) -> Vec<Vec<Piece>> {
        let rows = self.pass_rows(step);
        passes(step, rows, self.pass[1])
    }

    /// The submissions of the pass that was filled in last, none of which takes longer than the device's display and its watchdog
    /// wait, and what each dispatch comes to. Whatever runs a pass runs it so.
    pub(in crate::decoder) fn submissions_of(
        &self,
        extent: Extent,
    ) -> (Vec<Range<usize>>, Vec<ComputeCost>) {
        let loads = self.program.loads(extent, &self.words.row_contexts);
        let ranges = submissions(&loads, extent.rows, &self.speed);
        (ranges, loads)
    }

    /// Checks a step and runs it in passes that keep to the cap of a submission.
    fn run_capped(&mut self, step: &[StepSequence], wanted: Wanted<'_>) -> Result<(), DecodeError> {
        self.check(step)?;
        let rows = self.pass_rows(step);
        self.run(step, rows, wanted)
    }

    /// Whether a step can be run; those that were begun before are given up.
    pub(in crate::decoder) fn check(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        (self.begun, self.after) = (None, None);
        self.is_of_use()?;
        self.shape.check(step)
    }

    fn is_of_use(&self) -> Result<(), DecodeError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Begins a step of one pass, so that it runs by itself; `None` of several, which share their buffers.
    fn begin(
        &mut self,
        step: &[StepSequence],
        fed: &[FedToken],
    ) -> Result<Option<BegunPass>, DecodeError> {
        let passes = self.passes(step);
        let [pass] = passes.as_slice() else {
            return Ok(None);
        };
        let begin = |decoder: &mut GpuDecoder| {
            decoder.begin_pass(step, (pass, fed), &mut Vec::new(), Follows::Nothing)
        };
        self.told(begin).map(Some)
    }

    /// Does a part of a step, and says what the device had against it.
    pub(in crate::decoder) fn told<T>(
        &mut self,
        part: impl FnOnce(&mut GpuDecoder) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let gpu = self.gpu.clone();
        let (result, fault) = gpu.scoped(|| part(self));
        let result = match fault {
            Some(fault) => Err(fault.into()),
            None => result,
        };
        let result = match result {
            // Until it is waited for, a device that is gone is one that refuses things.
            Err(DecodeError::Device { reason }) => Err(match self.gpu.loss() {
                Some(reason) => DecodeError::DeviceLost { reason },
                None => DecodeError::Device { reason },
            }),
            result => result,
        };
        if let Err(error) = &result
            && error.is_fatal()
        {
            self.failed = Some(error.clone());
        }
        result
    }

    /// Runs a step that was checked, in passes of at most so many rows.
    pub(super) fn run(
        &mut self,
        step: &[StepSequence],
        rows: usize,
        mut wanted: Wanted<'_>,
    ) -> Result<(), DecodeError> {
        match &mut wanted {
            Wanted::Logits(logits) => logits.clear(),
            Wanted::Tokens(tokens) => tokens.clear(),
        }
        (self.submissions, self.dispatches) = (0, 0);
        for pass in passes(step, rows.min(self.pass[0]), self.pass[1]) {
            self.told(|decoder| decoder.run_pass(step, &pass, &mut wanted))?;
        }
        Ok(())
    }

    pub(in crate::decoder) fn upload_words(&self) {
        let queue = &self.gpu.queue;
        queue.write_buffer(
            &self.step_buffers.step,
            0,
            bytemuck::cast_slice(&self.words.step),
        );
        queue.write_buffer(
            &self.step_buffers.tables,
            0,
            bytemuck::cast_slice(&self.words.tables),
        );
        // Where no row has an adapter nobody reads it.
        if let Some(loras) = &self.step_buffers.loras
            && self.words.loras.iter().any(|[lora, _]| *lora > 0)
        {
            queue.write_buffer(loras, 0, bytemuck::cast_slice(&self.words.loras));
        }
    }

    fn run_pass(
        &mut self,
        step: &[StepSequence],
        pass: &[Piece],
        wanted: &mut Wanted<'_>,
    ) -> Result<(), DecodeError> {
        let mut samplings = Vec::new();
        let follows = match wanted {
            Wanted::Tokens(_) => Follows::Draw,
            Wanted::Logits(_) => Follows::Logits,
        };
        let begun = self.begin_pass(step, (pass, &[]), &mut samplings, follows)?;
        self.end_pass(begun, &samplings, wanted, true)
    }

    /// Hands a pass to the device, with its tokens that are fed there. `samplings` is filled with how its tokens are drawn.
    fn begin_pass<'a>(
        &mut self,
        step: &'a [StepSequence],
        (pass, fed): (&[Piece], &[FedToken]),
        samplings: &mut Samplings<'a>,
        follows: Follows,
    ) -> Result<BegunPass, DecodeError> {
        let started = Instant::now();
        let extent = self.words.fill(step, pass, samplings);
        self.words.feed(pass, fed);
        self.upload_words();
        let follows = match extent.samples {
            0 => Follows::Nothing,
            _ => follows,
        };
        if follows == Follows::Draw {
            self.sampler.prepare(samplings)?;
        }
        let (ranges, loads) = self.submissions_of(extent);
        let (last, bytes) = (ranges.len() - 1, self.logit_bytes(extent));
        let mut submitted = Vec::with_capacity(ranges.len());
        let mut dispatches = 0;
        for (index, range) in ranges.into_iter().enumerate() {
            let mut encoder = self.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                dispatches += self.program.encode(&mut pass, range, extent);
                if index == last && follows == Follows::Draw {
                    dispatches += self.sampler.encode(&mut pass);
                }
            }
            match follows {
                Follows::Draw if index == last => self.sampler.copy(&mut encoder),
                Follows::Logits if index == last => {
                    let readback = self.readback.get_or_insert_with(|| {
                        let bytes = self.step_buffers.logits.size();
                        self.gpu.readback("logits", bytes)
                    });
                    let logits = &self.step_buffers.logits;
                    encoder.copy_buffer_to_buffer(logits, 0, readback, 0, bytes);
                }
                _ => {}
            }
            submitted.push(self.gpu.queue.submit([encoder.finish()]));
        }
        Ok(BegunPass {
            extent,
            load: loads.into_iter().sum(),
            started,
            submitted,
            ended: self.gpu.end_of_all(),
            dispatches,
            drawn: follows == Follows::Draw,
            is_timed: true,
        })
    }

    /// Hands the draw from a pass's logits to the device.
    fn draw_from(
        &mut self,
        begun: &mut BegunPass,
        samplings: &[(usize, &Sampling)],
    ) -> Result<(), DecodeError> {
        let submitted = begun.extent.samples as usize;
        if samplings.len() != submitted {
            let drawn = samplings.len();
            return Err(DecodeError::Device {
                reason: format!("a step with {submitted} samplings is drawn from with {drawn}"),
            });
        }
        if begun.drawn || samplings.is_empty() {
            return Ok(());
        }
        self.sampler.prepare(samplings)?;
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            begun.dispatches += self.sampler.encode(&mut pass);
        }
        self.sampler.copy(&mut encoder);
        (begun.submitted).push(self.gpu.queue.submit([encoder.finish()]));
        begun.ended = self.gpu.end_of_all();
        begun.drawn = true;
        Ok(())
    }

    /// Waits for a pass, and reads what is wanted of it. Its time is learnt from if it `is_timed`: if it was waited for from
    /// its beginning to its end.
    fn end_pass(
        &mut self,
        begun: BegunPass,
        samplings: &[(usize, &Sampling)],
        wanted: &mut Wanted<'_>,
        is_timed: bool,
    ) -> Result<(), DecodeError> {
        self.submissions += begun.submitted.len() as u32;
        self.dispatches += begun.dispatches;
        let last = (self.gpu).wait_for_all_but_one(begun.submitted, self.deadline)?;
        let Some(submission) = last else {
            return Ok(());
        };
        let bytes = self.logit_bytes(begun.extent);
        match wanted {
            Wanted::Tokens(tokens) if begun.drawn => {
                self.sampler
                    .read(samplings, submission, self.deadline, tokens)?;
            }
            Wanted::Logits(logits) if bytes > 0 => {
                let missing = || Fault::Refused("logits have no readback buffer".to_owned());
                let readback = self.readback.as_ref().ok_or_else(missing)?;
                let (vocabulary, stride) = (self.shape.vocabulary, self.logit_stride());
                let take = |bytes: &[u8]| {
                    for row in bytes.chunks_exact(stride) {
                        let row = row.as_chunks().0.iter().take(vocabulary);
                        logits.extend(row.map(|b| f32::from_le_bytes(*b)));
                    }
                };
                self.gpu
                    .read(readback, bytes, submission, self.deadline, take)?;
            }
            _ => self.gpu.wait(Some(submission), self.deadline)?,
        }
        if is_timed {
            let took = begun.started.elapsed();
            self.speed.learn(begun.extent.rows, begun.load, took);
        }
        Ok(())
    }

    pub(in crate::decoder) fn encoder(&self) -> wgpu::CommandEncoder {
        let descriptor = wgpu::CommandEncoderDescriptor::default();
        self.gpu.device.create_command_encoder(&descriptor)
    }

    /// Bytes of a row of logits.
    fn logit_stride(&self) -> usize {
        self.shape.vocabulary.next_multiple_of(4) * 4
    }

    /// Bytes of all logits of a pass.
    fn logit_bytes(&self, extent: Extent) -> u64 {
        (extent.samples as usize * self.logit_stride()) as u64
    }
}

impl Decoder for GpuDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn memory(&self) -> u64 {
        self.memory.total() + self.sampler.bytes_now().saturating_sub(self.sampler_bytes)
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.run_capped(step, Wanted::Tokens(sampled))
    }

    /// A step of one pass runs by itself; one of several, which share their buffers, when it is collected.
    fn submit(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        let gives_up = self.begun.is_some() || self.after.is_some();
        self.check(step)?;
        // What was given up may run on, and nobody hears when it ends.
        let waits = gives_up && !self.gpu.is_idle();
        self.begun = self.begin(step, &[])?;
        if let Some(begun) = &mut self.begun {
            begun.is_timed = !waits;
        }
        Ok(())
    }

    /// A software adapter works on the host's cores: what it would begin while the host does something, it would take from that.
    fn runs_ahead(&self) -> bool {
        !self.gpu.is_software()
    }

    /// Where either of the two steps has several passes, the second runs when it is collected.
    fn submit_after(&mut self, step: &[StepSequence], fed: &[FedToken]) -> Result<(), DecodeError> {
        self.is_of_use()?;
        self.after = None;
        let Some(before) = &self.begun else {
            return self.shape.check(step);
        };
        self.shape
            .check_after(step, fed, before.extent.samples as usize)?;
        // Logits that are not drawn from yet would be written over.
        if before.drawn || before.extent.samples == 0 {
            self.after = self.begin(step, fed)?;
        }
        Ok(())
    }

    fn draw(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
        let Some(mut begun) = self.begun.take() else {
            return Ok(());
        };
        self.shape.check(step)?;
        // What waits for its draws has ended nobody knows when.
        begun.is_timed &= !self.gpu.is_idle();
        self.told(|decoder| decoder.draw_from(&mut begun, &samplings(step)))?;
        self.begun = Some(begun);
        Ok(())
    }

    fn collect(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        let Some(mut begun) = self.begun.take() else {
            self.ran = Ran::WhileCollected;
            return self.run_capped(step, Wanted::Tokens(sampled));
        };
        let after = self.after.take();
        sampled.clear();
        (self.submissions, self.dispatches) = (0, 0);
        // What has ended while nobody waited has ended nobody knows when.
        let runs = !self.gpu.has_ended(&begun.ended);
        let is_timed = begun.is_timed && runs;
        self.ran = if is_timed {
            Ran::SinceSubmitted
        } else {
            Ran::Unknown
        };
        self.told(|decoder| {
            let samplings = samplings(step);
            decoder.draw_from(&mut begun, &samplings)?;
            decoder.end_pass(begun, &samplings, &mut Wanted::Tokens(sampled), is_timed)
        })?;
        // The device is at the step after it from now on, if it was not before.
        self.begun = after.map(|after| BegunPass {
            started: Instant::now(),
            is_timed: runs,
            ..after
        });
        Ok(())
    }

    fn ran(&self) -> Ran {
        self.ran
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        self.run_capped(step, Wanted::Logits(logits))
    }
}
