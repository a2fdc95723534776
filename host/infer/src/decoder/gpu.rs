//! Loading and stepping.

use std::time::{Duration, Instant};

use tidegate_contract::{
    Adjustment, BLOCK, DecodeError, Decoder, DecoderShape, FedToken, Ran, Sampled, Sampling,
    StepSequence,
};
use tidegate_weights::Checkpoint;
use tracing::{debug, info};

use super::fusion::Fusion;
use super::loading::{DecoderLoading, DeviceStepBuffers};
use super::lora::LoraSizes;
use super::passes::{Piece, passes};
use super::scratch::AttentionScratch;
use super::sizes::{DecoderSizes, check_experts, decoder_config, tested, weight_bytes, widened};
use super::{DecoderOptions, MemoryReport, StepWords};
use crate::device::{ComputeCost, DEADLINE, Fault, Gpu, LOAD_DEADLINE, SpeedEstimate};
use crate::held::tell_reencoded;
use crate::kernels::{
    Kernel, KernelSet, Together, choose_kernels, products_by_name, rows_together,
};
use crate::load_error::LoadError;
use crate::matrix::Arrived;
use crate::program::{Extent, Plan, Program, each_fits, submissions};
use crate::sampling::Sampler;
use crate::site::Site;

/// A language model on a device.
#[derive(Debug)]
pub struct GpuDecoder {
    pub(super) gpu: Gpu,
    shape: DecoderShape,
    memory: MemoryReport,
    kernels: KernelSet,
    /// The kernels of its products, by name.
    products: String,
    pub(super) program: Program,
    step_buffers: DeviceStepBuffers,
    sampler: Sampler,
    /// What of the sampler is in `memory`.
    sampler_bytes: u64,
    /// Where logits are read back through; made when first asked for.
    readback: Option<wgpu::Buffer>,
    pub(super) words: StepWords,
    /// Rows and samples of a pass.
    pub(super) pass: [usize; 2],
    pub(super) scratch: AttentionScratch,
    speed: SpeedEstimate,
    /// The pass of the step that was submitted, if it runs by itself.
    begun: Option<BegunPass>,
    /// That of the step after it.
    after: Option<BegunPass>,
    /// Submissions and dispatches of the last step.
    submissions: u32,
    dispatches: u32,
    /// Longest wait for a submission.
    pub(super) deadline: Duration,
    /// When the last step that was collected ran.
    ran: Ran,
    /// The failure after which this decoder is of no more use.
    failed: Option<DecodeError>,
}

/// A pass that the device has, and that is not waited for yet.
#[derive(Debug)]
struct BegunPass {
    extent: Extent,
    load: ComputeCost,
    started: Instant,
    submitted: Vec<wgpu::SubmissionIndex>,
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
enum Wanted<'a> {
    Logits(&'a mut Vec<f32>),
    Tokens(&'a mut Vec<Sampled>),
}

impl GpuDecoder {
    /// Uploads the weights of a model to a device and runs one step of each tiling, so that no request waits for a compiler.
    ///
    /// # Errors
    /// The model is no decoder or not whole, an option is out of range, the model does not fit the adapter, the kernels asked
    /// for do not run there, or the device failed. The device stays of use to others unless it was lost.
    pub fn load(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        options: &DecoderOptions,
    ) -> Result<GpuDecoder, LoadError> {
        GpuDecoder::load_told(gpu, checkpoint, options, &|_, _| {})
    }

    /// The same. `told` is how many bytes of the weights are on the device, and how many there will be.
    ///
    /// # Errors
    /// As [`GpuDecoder::load`].
    pub fn load_told(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        options: &DecoderOptions,
        told: &dyn Fn(u64, u64),
    ) -> Result<GpuDecoder, LoadError> {
        let config = decoder_config(checkpoint)?;
        options.check(config)?;
        let weights = weight_bytes(checkpoint, config, options)?;
        let traits = Site::Device(gpu).traits();
        let tested = |kernels: KernelSet| {
            let fusion = Fusion::of(config, options.kv, kernels, traits);
            tested(checkpoint, config, options, fusion)
        };
        let kernels = choose_kernels(gpu, options.kernels, options.reproducible, &tested)?;
        check_experts(config, kernels, || gpu.adapter().to_string())?;
        let fusion = Fusion::of(config, options.kv, kernels, traits);
        let sizes = DecoderSizes {
            loras: LoraSizes::of(checkpoint, config)?,
            ..DecoderSizes::new(config, options, kernels, fusion)
        };
        let mut memory = sizes.report(weights);
        let loading = DecoderLoading {
            site: Site::Device(gpu),
            checkpoint,
            config,
            sizes: &sizes,
            fusion,
            options,
            kernels,
            total: memory.total(),
            arrived: Arrived::new(weights, told),
        };
        let load = || -> Result<(DeviceStepBuffers, (Program, u64), Sampler), LoadError> {
            let step_buffers = loading.step_buffers()?;
            let (plan, scratch) = loading.plan(&step_buffers)?;
            let program = plan.resolve(gpu, options.checked_shaders)?;
            let sampler = Sampler::load(
                gpu,
                kernels,
                options.checked_shaders,
                [config.vocabulary, sizes.samples],
                [
                    step_buffers.logits.on_device()?,
                    step_buffers.drawn.on_device()?,
                ],
            )?;
            Ok((step_buffers.on_device()?, (program, scratch), sampler))
        };
        let (loaded, fault) = gpu.scoped(load);
        if let Some(fault) = fault {
            return Err(LoadError::from_fault(fault, memory.total()));
        }
        let (step_buffers, (program, scratch), sampler) = loaded?;
        memory.activations += scratch;
        gpu.flush()
            .map_err(|error| LoadError::from_wait(error, memory.total()))?;
        let products = products_by_name(kernels, &tested(kernels)?);
        info!(
            adapter = %gpu.adapter(),
            kernels = products,
            weights_bytes = memory.weights,
            kv_cache_bytes = memory.kv_cache,
            activations_bytes = memory.activations,
            dispatches = program.len(),
            "model loaded"
        );
        tell_reencoded(checkpoint)?;
        widened(checkpoint, config)?.tell();
        let positions = sizes.scratch.positions(sizes.rows, options.context);
        if positions < options.context {
            info!(
                rows = sizes.rows,
                positions,
                scratch_bytes = sizes.scratch.elements * 4,
                "steps of so many rows that see more positions run in several passes"
            );
        }
        let mut decoder = GpuDecoder {
            gpu: gpu.clone(),
            shape: DecoderShape {
                loras: checkpoint.loras().len(),
                ..options.shape(config)
            },
            memory,
            kernels,
            products,
            program,
            step_buffers,
            sampler,
            sampler_bytes: sizes.sampler,
            readback: None,
            words: StepWords::new(rows_together(
                kernels.base,
                [config.heads, config.kv_heads, config.head_dim],
            )),
            pass: [sizes.rows, sizes.samples],
            scratch: sizes.scratch,
            speed: SpeedEstimate::new(gpu.is_software()),
            begun: None,
            after: None,
            submissions: 0,
            dispatches: 0,
            deadline: LOAD_DEADLINE,
            ran: Ran::WhileCollected,
            failed: None,
        };
        decoder.warm_up()?;
        Ok(decoder)
    }

    /// What it takes on the device, by part.
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        self.memory
    }

    /// How its attention takes rows together.
    pub(crate) fn together(&self) -> Together {
        self.words.together()
    }

    /// The dispatches of a pass.
    pub(crate) fn plan(&self) -> &Plan {
        &self.program
    }

    /// The passes of a step by the room that they need, however long they take.
    pub(crate) fn passes(&self, step: &[StepSequence]) -> Vec<Vec<Piece>> {
        self.scratch.passes(step, self.pass)
    }

    /// The kernels of its products, by name.
    pub(crate) fn products(&self) -> &str {
        &self.products
    }

    /// The kernels it runs.
    #[must_use]
    pub fn kernels(&self) -> KernelSet {
        self.kernels
    }

    /// Every kernel that some step may run.
    #[doc(hidden)]
    #[must_use]
    pub fn kernels_in_use(&self) -> Vec<Kernel> {
        let sampling = self.sampler.kernels();
        self.program.kernels().chain(sampling).collect()
    }

    /// How many dispatches the last step took.
    #[must_use]
    pub fn dispatches_last_step(&self) -> u32 {
        self.dispatches
    }

    /// In how many submissions the last step ran.
    #[must_use]
    pub fn submissions_last_step(&self) -> u32 {
        self.submissions
    }

    /// The submissions that a step would run in: for each how many rows its pass has, and its multiply-adds of rows and of
    /// attention, by which its time is guessed.
    #[doc(hidden)]
    pub fn planned(&mut self, step: &[StepSequence]) -> Vec<(u32, [u64; 2])> {
        let mut planned = Vec::new();
        for pass in passes(step, self.pass_rows(step), self.pass[1]) {
            let extent = self.words.fill(step, &pass, &mut Vec::new());
            let loads = self.program.loads(extent, &self.words.row_contexts);
            for range in submissions(&loads, extent.rows, &self.speed) {
                let load: ComputeCost = loads[range].iter().copied().sum();
                planned.push((extent.rows, [load.rows, load.attention]));
            }
        }
        planned
    }

    /// Takes a step for one that took so long, alone in its pass.
    #[doc(hidden)]
    pub fn pretend_took(&mut self, step: &[StepSequence], took: Duration) {
        let extent = self.words.fill_whole(step);
        let loads = self.program.loads(extent, &self.words.row_contexts);
        self.speed.learn(extent.rows, loads.into_iter().sum(), took);
    }

    /// Takes a device for one that nothing is known of.
    #[doc(hidden)]
    pub fn forget_pace(&mut self) {
        self.speed = SpeedEstimate::new(self.gpu.is_software());
    }

    /// Takes a device for one that needs `seconds` for a multiply-add, and caps its submissions at `cap`.
    #[doc(hidden)]
    pub fn pretend_pace(&mut self, seconds: f64, cap: Duration) {
        self.speed = SpeedEstimate::fixed(seconds, cap);
    }

    /// Gives up on a submission after `deadline`.
    #[doc(hidden)]
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Drivers compile at the first dispatch: runs every kernel once, in the first blocks, which no sequence has written yet.
    /// Then one row and several run again, so that the first step of a request is cut by a speed that was measured.
    fn warm_up(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        let room = (self.shape.blocks * BLOCK).min(self.shape.context);
        let most = self.shape.max_rows.min(room).min(9);
        let mut sampled = Vec::new();
        let (plain, every_stage) = (Sampling::default(), self.every_stage());
        // Of all adapters the first: they run the same kernels.
        let adapted = u32::from(self.shape.loras > 0);
        let compiled = [
            (1, &plain, 0),
            (4, &plain, 0),
            (most, &plain, 0),
            (1, &every_stage, 0),
            (1, &plain, adapted),
            (4, &plain, adapted),
            (most, &plain, adapted),
        ];
        let compiled = &compiled[..if adapted > 0 { 7 } else { 4 }];
        let measured = [(1, &plain, 0), (most, &plain, 0)];
        let steps = compiled.iter().copied().chain(measured);
        for (index, (rows, sampling, lora)) in steps.enumerate() {
            if index == compiled.len() {
                // What the steps up to here took was compiling.
                self.speed = SpeedEstimate::new(self.gpu.is_software());
            }
            let rows = rows.min(most);
            let sequence = StepSequence {
                lora,
                position: 0,
                tokens: vec![0; rows],
                blocks: vec![0],
                samples: vec![sampling.clone(); rows.min(self.shape.max_samples)],
            };
            // In one pass, however slow the device is thought to be: the kernels depend on the rows of a pass.
            self.run(&[sequence], rows, Wanted::Tokens(&mut sampled))
                .map_err(|error| LoadError::from_decode(error, self.memory.total()))?;
        }
        self.deadline = DEADLINE;
        debug!(
            seconds = started.elapsed().as_secs_f64(),
            "kernels compiled"
        );
        Ok(())
    }

    /// A draw that takes every kernel there is for one.
    fn every_stage(&self) -> Sampling {
        let adjustment = Adjustment {
            token: 0,
            count: 1,
            seen: true,
            bias: 0.0,
        };
        let words = self.shape.vocabulary.div_ceil(32);
        Sampling {
            temperature: 1.0,
            top_k: 2,
            top_p: 0.9,
            repetition: 1.1,
            adjustments: vec![adjustment],
            allowed: Some(vec![u32::MAX; words].into()),
            logprobs: Some(1),
            ..Sampling::default()
        }
    }

    /// Rows of a pass at most, so that there is scratch for what they see, and every dispatch of this step stays within the cap of
    /// a submission: kernels take any number of rows, but a dispatch is never part of two submissions.
    fn pass_rows(&mut self, step: &[StepSequence]) -> usize {
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

    /// Checks a step and runs it in passes that keep to the cap of a submission.
    fn run_capped(&mut self, step: &[StepSequence], wanted: Wanted<'_>) -> Result<(), DecodeError> {
        self.check(step)?;
        let rows = self.pass_rows(step);
        self.run(step, rows, wanted)
    }

    /// Whether a step can be run; those that were begun before are given up.
    fn check(&mut self, step: &[StepSequence]) -> Result<(), DecodeError> {
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
        let rows = self.pass_rows(step);
        let passes = passes(step, rows, self.pass[1]);
        let [pass] = passes.as_slice() else {
            return Ok(None);
        };
        let begin = |decoder: &mut GpuDecoder| {
            decoder.begin_pass(step, (pass, fed), &mut Vec::new(), Follows::Nothing)
        };
        self.told(begin).map(Some)
    }

    /// Does a part of a step, and says what the device had against it.
    fn told<T>(
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
    fn run(
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

    pub(super) fn upload_words(&self) {
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
        let loads = self.program.loads(extent, &self.words.row_contexts);
        let ranges = submissions(&loads, extent.rows, &self.speed);
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

    fn encoder(&self) -> wgpu::CommandEncoder {
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
        let last = begun.submitted.last();
        let runs = last.is_some_and(|last| !self.gpu.has_ended(last));
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
