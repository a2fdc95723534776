//! A model on a device: how it gets there, and what it tells of itself.

mod steps;

use std::time::{Duration, Instant};

use tidegate_contract::{
    Adjustment, BLOCK, DecodeError, DecoderShape, Ran, Sampling, StepSequence,
};
use tidegate_weights::Checkpoint;
use tracing::{debug, info};

use self::steps::{BegunPass, Wanted};
use super::fusion::Fusion;
use super::loading::{DecoderLoading, DeviceStepBuffers};
use super::lora::LoraSizes;
use super::scratch::AttentionScratch;
use super::sizes::{DecoderSizes, check_turns, decoder_config, tested, weight_bytes, widened};
use super::{DecoderOptions, MemoryReport, StepWords};
use crate::device::{ComputeCost, DEADLINE, Gpu, LOAD_DEADLINE, SpeedEstimate};
use crate::held::tell_reencoded;
use crate::kernels::{
    Kernel, KernelSet, Together, choose_kernels, products_by_name, rows_together,
};
use crate::load_error::LoadError;
use crate::matrix::Arrived;
use crate::program::{Plan, Program};
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
    pub(super) submissions: u32,
    pub(super) dispatches: u32,
    /// Longest wait for a submission.
    pub(super) deadline: Duration,
    /// When the last step that was collected ran.
    ran: Ran,
    /// The failure after which this decoder is of no more use.
    failed: Option<DecodeError>,
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
        check_turns(config, options, kernels, || gpu.adapter().to_string())?;
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
        for pass in self.passes(step) {
            let extent = self.words.fill(step, &pass, &mut Vec::new());
            let (ranges, loads) = self.submissions_of(extent);
            for range in ranges {
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

    /// Drivers compile at the first dispatch: runs every kernel of a step of a few rows once, in the first blocks, which no sequence has
    /// written yet. Those that take many rows have run in the self-test.
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
}
