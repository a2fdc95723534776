//! Whether kernels compute the right numbers on an adapter: small cases of odd shapes against float64 on the host, before
//! any model runs on them. Drivers differ in what subgroups are, in rounding, and in bugs.
//!
//! A model says which groups of kernels it runs ([`Tested`]); each is tried once on a device, with the very parameters that
//! are compiled in, so that nothing is compiled that the model does not need anyway.

mod attention;
mod encoder;
mod experts;
mod lora;
mod products;
mod rows;
mod sampling;
mod turned;

use std::collections::HashMap;

use products::Product;

use super::lab::{Experiment, Lab};
use super::{CombinedWith, HeadCut, KernelSet, KvPrecision, NormStore, StorageFormat, Store};
use crate::device::Gpu;
use crate::load_error::LoadError;

/// What of a set of kernels is tested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tested {
    /// Products with weights that are so stored, and what becomes of their sums.
    Products(StorageFormat, Store),
    /// The same of rows whose norm is done by the product.
    NormedProducts(StorageFormat, Store),
    /// The same of products whose sums decide something.
    Decision(StorageFormat, Store),
    /// The same of pairs of rows and experts, with the weights of experts.
    ExpertProducts(StorageFormat, Store),
    /// Which experts rows go through, and which rows experts have.
    Routing,
    /// What gpt-oss has between gate and up of experts and down.
    Activate,
    /// The sum of the outputs of experts, with what there is beside them.
    Combine(NormStore, CombinedWith),
    /// Rows through A of low-rank adapters, before their norm or not.
    Shrink(bool),
    /// The same through B, and where that goes.
    Expand(Store),
    /// Rows that have no adapter beside rows that have one, of a product with weights that are so stored, and what becomes of
    /// their sums; whether their norm is done by the product.
    Unadapted(StorageFormat, Store, bool),
    /// Rows of a table that is so stored.
    Embedding(StorageFormat),
    /// RMSNorm.
    Norm(NormStore),
    /// Biases.
    Bias(NormStore),
    /// The cap of logits.
    Softcap,
    /// What is done to heads, with keys and values so kept.
    Heads(KvPrecision),
    /// Attention over KV blocks, so many query heads at a time, with keys and values so read and kept.
    Attention(u32, HeadCut, KvPrecision),
    /// Everything that draws tokens.
    Sampling,
    /// A sum and its LayerNorm.
    LayerNorm,
    /// The same with the norm beside the sum.
    LayerNormApart,
    /// Norms of the heads of an encoder's texts.
    TextHeadNorms,
    /// Rotary positions of an encoder's texts.
    TurnedTexts,
    /// Attention of an encoder.
    TextAttention,
    /// A row for each text.
    Pool,
    /// tanh of an encoder's head.
    Tanh,
    /// What is above 0 of an encoder's head.
    Relu,
}

/// What is wrong with kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// They compute other numbers.
    Numbers {
        /// The kernels that ran, by name.
        kernel: String,
        /// Which numbers of which case.
        case: String,
        expected: String,
        found: String,
    },
    /// The driver does not compile one, or refuses to run it.
    Refused { kernel: String, reason: String },
}

/// What was found out about sets of kernels on a device, with rows of which widths ([`widths`]): nothing wrong, or what.
pub(crate) type Verdicts = HashMap<(KernelSet, Tested, Vec<usize>), Option<Wrong>>;

/// The widths of rows that products are tested with by one who may bind so much; of anything else none, as it is tested with
/// the same for everybody.
pub(crate) fn widths(gpu: &Gpu, tested: Tested) -> Vec<usize> {
    match tested {
        Tested::Products(stored, _)
        | Tested::NormedProducts(stored, _)
        | Tested::Decision(stored, _)
        | Tested::ExpertProducts(stored, _) => products::bound(gpu, stored),
        _ => Vec::new(),
    }
}

/// Why a test did not end well.
enum Failure {
    Wrong(Wrong),
    Device(LoadError),
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::Device(error)
    }
}

/// Says what is wrong with kernels of `set`, or nothing.
///
/// # Errors
/// The device failed altogether.
pub(crate) fn self_test(
    gpu: &Gpu,
    set: KernelSet,
    tested: Tested,
) -> Result<Option<Wrong>, LoadError> {
    let lab = Lab {
        gpu: gpu.clone(),
        kernels: set,
        checked: false,
    };
    let (result, fault) = gpu.scoped(|| match tested {
        Tested::Products(stored, Store::Heads(kv)) => {
            turned::heads(&lab, stored, kv, [false, false])
        }
        Tested::NormedProducts(stored, Store::Heads(kv)) => {
            turned::heads(&lab, stored, kv, [true, false])
        }
        Tested::Products(stored, store) => products::products(&lab, stored, store, Product::Plain),
        Tested::NormedProducts(stored, store) => {
            products::products(&lab, stored, store, Product::Normed)
        }
        Tested::Decision(stored, store) => {
            products::products(&lab, stored, store, Product::Decision)
        }
        Tested::ExpertProducts(stored, store) => experts::products(&lab, stored, store),
        Tested::Routing => experts::routing(&lab),
        Tested::Activate => experts::activate(&lab),
        Tested::Combine(store, with) => experts::combine(&lab, store, with),
        Tested::Shrink(normed) => lora::shrink(&lab, normed),
        Tested::Expand(Store::Heads(kv)) => turned::adapted_heads(&lab, kv),
        Tested::Expand(store) => lora::expand(&lab, store),
        Tested::Unadapted(stored, Store::Heads(kv), normed) => {
            turned::unadapted_heads(&lab, stored, kv, normed)
        }
        Tested::Unadapted(stored, store, normed) => {
            lora::unadapted_gates(&lab, stored, store, normed)
        }
        Tested::Embedding(stored) => products::embedding(&lab, stored),
        Tested::Norm(store) => rows::norm(&lab, store),
        Tested::Bias(store) => rows::bias(&lab, store),
        Tested::Softcap => rows::softcap(&lab),
        Tested::Heads(kv) => rows::heads(&lab, kv),
        Tested::Attention(unit, cut, kv) => attention::attention(&lab, unit, cut, kv),
        Tested::Sampling => sampling::sampling(&lab),
        Tested::LayerNorm => encoder::layer_norm(&lab, false),
        Tested::LayerNormApart => encoder::layer_norm(&lab, true),
        Tested::TextHeadNorms => encoder::head_norms(&lab),
        Tested::TurnedTexts => encoder::turned(&lab),
        Tested::TextAttention => encoder::attention(&lab),
        Tested::Pool => encoder::pool(&lab),
        Tested::Tanh => encoder::tanh(&lab),
        Tested::Relu => encoder::relu(&lab),
    });
    if let Some(fault) = fault {
        return Err(LoadError::from_fault(fault, 0));
    }
    match result {
        Ok(()) => Ok(None),
        Err(Failure::Wrong(wrong)) => Ok(Some(wrong)),
        Err(Failure::Device(LoadError::Kernel { kernel, reason })) => {
            Ok(Some(Wrong::Refused { kernel, reason }))
        }
        Err(Failure::Device(LoadError::Device { reason })) => Ok(Some(Wrong::Refused {
            kernel: format!("{tested:?}"),
            reason,
        })),
        Err(Failure::Device(error)) => Err(error),
    }
}

/// What a case ran, and what came of it.
struct CaseRun {
    /// Names of the kernels.
    kernel: String,
    found: Vec<f32>,
}

/// Runs an experiment once and reads an output of it, rows of `width` without their padding.
fn outcome(
    lab: &Lab,
    experiment: &Experiment,
    index: usize,
    width: usize,
) -> Result<CaseRun, Failure> {
    lab.run(experiment, 1)?;
    beside(lab, experiment, index, width)
}

/// Another output of an experiment that has run.
fn beside(
    lab: &Lab,
    experiment: &Experiment,
    index: usize,
    width: usize,
) -> Result<CaseRun, Failure> {
    let mut names: Vec<&str> = Vec::new();
    for kernel in experiment.kernels() {
        lab.gpu.note_tried(kernel);
        if !names.contains(&kernel.name()) {
            names.push(kernel.name());
        }
    }
    Ok(CaseRun {
        kernel: names.join(", "),
        found: lab.output_of(experiment, index, width)?,
    })
}

impl CaseRun {
    /// Rows of `width` from row `first` on have the bits that they have in `whole`.
    fn same_bits(
        &self,
        case: &str,
        whole: &CaseRun,
        first: usize,
        width: usize,
    ) -> Result<(), Failure> {
        let rows = whole.found.get(first * width..).unwrap_or_default();
        for (index, (found, expected)) in self.found.iter().zip(rows).enumerate() {
            if found.to_bits() != expected.to_bits() {
                return Err(Failure::Wrong(Wrong::Numbers {
                    kernel: self.kernel.clone(),
                    case: format!("{case}, element {index}"),
                    expected: format!(
                        "{expected:?} as beside other rows, since `reproducible` is set"
                    ),
                    found: format!("{found:?}"),
                }));
            }
        }
        Ok(())
    }

    /// Every number within its bound of what it must be.
    fn compare(&self, case: &str, expected: &[(f64, f64)]) -> Result<(), Failure> {
        let wrong = |case: String, expected: String, found: String| {
            Err(Failure::Wrong(Wrong::Numbers {
                kernel: self.kernel.clone(),
                case,
                expected,
                found,
            }))
        };
        if self.found.len() != expected.len() {
            let [expected, found] = [expected.len(), self.found.len()];
            return wrong(
                case.to_owned(),
                format!("{expected} numbers"),
                format!("{found}"),
            );
        }
        for (index, (found, (expected, bound))) in self.found.iter().zip(expected).enumerate() {
            // A number that is none is not within the bound.
            let right = (f64::from(*found) - expected).abs() <= *bound;
            if !right {
                return wrong(
                    format!("{case}, element {index}"),
                    format!("{expected} within {bound:.1e}"),
                    found.to_string(),
                );
            }
        }
        Ok(())
    }
}

/// Deterministic numbers in -1..1.
struct Numbers(u32);

impl Numbers {
    /// 32 bits, the upper ones good enough to tell kernels apart: Numerical Recipes' linear congruence.
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }

    /// A multiple of 1/64, which every float format holds. Sums of products of two such numbers are exact, in whatever order.
    fn next(&mut self) -> f32 {
        (self.bits() >> 25) as f32 / 64.0 - 1.0
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }

    /// A number of all the bits that f32 has: a sum of such numbers is rounded, and tells in which order it was made.
    fn full(&mut self) -> f32 {
        (self.bits() >> 7) as f32 / (1 << 24) as f32 - 1.0
    }

    fn take_full(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.full()).collect()
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Softmax of scores.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}
