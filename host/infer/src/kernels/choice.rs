//! Which kernels a model runs on a device.

use tracing::warn;

use super::self_test::{Tested, Wrong, self_test};
use super::{KernelSet, KernelVariant};
use crate::device::{Features, Gpu};
use crate::load_error::{LoadError, WrongNumbers};

/// The environment variable that names kernels where options do not.
const VARIABLE: &str = "TIDEGATE_KERNELS";

/// The kernels for a device: those asked for, those that the environment names, or else the fastest of those that compute in
/// f32 and passed their self-test here, in all that a model runs. What rounds the inputs of products (f16, cooperative, dot)
/// must be asked for.
pub(crate) fn choose_kernels(
    gpu: &Gpu,
    asked: Option<KernelVariant>,
    reproducible: bool,
    tested: &[Tested],
) -> Result<KernelSet, LoadError> {
    let asked = asked_for(asked)?;
    let subgroups = sums_over_subgroups(gpu, reproducible);
    let set = |variant| KernelSet {
        reproducible,
        ..KernelSet::of(variant, gpu.is_software(), subgroups)
    };
    let only;
    let candidates = match asked {
        Some(variant) => {
            has_what_is_needed(gpu, variant)?;
            if reproducible {
                sums_in_one_order(gpu, variant)?;
            }
            only = [variant];
            &only[..]
        }
        None => candidates(gpu.is_software(), subgroups),
    };
    let mut left = candidates.iter().copied();
    let mut variant = left.next().unwrap_or(KernelVariant::Portable);
    loop {
        let Some(wrong) = verdict(gpu, set(variant), tested)? else {
            return Ok(set(variant));
        };
        let error = wrong.on(gpu, variant);
        let Some(next) = left.next() else {
            return Err(error);
        };
        let (kernels, instead) = (variant.name(), next.name());
        warn!(kernels, instead, %error, "kernels failed their self-test");
        variant = next;
    }
}

impl Wrong {
    /// What is wrong, as the error of a model that was to run these kernels.
    fn on(self, gpu: &Gpu, variant: KernelVariant) -> LoadError {
        let (variant, adapter) = (variant.name(), gpu.adapter().to_string());
        match self {
            Wrong::Numbers {
                kernel,
                case,
                expected,
                found,
            } => LoadError::WrongNumbers(Box::new(WrongNumbers {
                variant,
                adapter,
                kernel,
                case,
                expected,
                found,
            })),
            Wrong::Refused { kernel, reason } => LoadError::Kernel { kernel, reason },
        }
    }
}

/// Variants to try, the fastest first; the last needs nothing.
fn candidates(software: bool, subgroups: bool) -> &'static [KernelVariant] {
    use KernelVariant::{Portable, Software, Subgroup};
    if software {
        &[Software, Portable]
    } else if subgroups {
        &[Subgroup, Portable]
    } else {
        &[Portable]
    }
}

/// Refuses a variant that needs what the device lacks.
pub(super) fn has_what_is_needed(gpu: &Gpu, variant: KernelVariant) -> Result<(), LoadError> {
    let missing = needs(variant).without(gpu.features());
    if missing == Features::NONE {
        return Ok(());
    }
    Err(LoadError::Variant {
        variant: variant.name(),
        adapter: gpu.adapter().to_string(),
        reason: format!("the device lacks {missing}"),
    })
}

/// Whether kernels may sum over subgroups: where sums must have one order, only if no two kernels can have subgroups of
/// different sizes.
fn sums_over_subgroups(gpu: &Gpu, reproducible: bool) -> bool {
    match reproducible {
        true => gpu.has_even_subgroups(),
        false => gpu.features().subgroup,
    }
}

/// Refuses a variant whose products are not summed in one order at any number of rows.
fn sums_in_one_order(gpu: &Gpu, variant: KernelVariant) -> Result<(), LoadError> {
    let why = match variant {
        KernelVariant::F16 | KernelVariant::Cooperative => {
            "they sum in other orders for many rows than for few".to_owned()
        }
        KernelVariant::Subgroup if !gpu.has_even_subgroups() => {
            let [least, most] = gpu.subgroup_lanes();
            format!(
                "its subgroups have {least} to {most} lanes, so two kernels may sum in different orders"
            )
        }
        _ => return Ok(()),
    };
    Err(LoadError::Variant {
        variant: variant.name(),
        adapter: gpu.adapter().to_string(),
        reason: format!("{why}; set `reproducible = false`, or ask for other kernels"),
    })
}

/// What a variant cannot do without.
fn needs(variant: KernelVariant) -> Features {
    match variant {
        KernelVariant::Portable | KernelVariant::Software | KernelVariant::Dot => Features::NONE,
        KernelVariant::Subgroup => Features::SUBGROUP,
        KernelVariant::F16 => Features {
            f16: true,
            ..Features::NONE
        },
        KernelVariant::Cooperative => Features {
            f16: true,
            cooperative: true,
            ..Features::NONE
        },
    }
}

/// What is wrong with a set of kernels on a device, in what a model runs; each part is tested once.
fn verdict(gpu: &Gpu, set: KernelSet, tested: &[Tested]) -> Result<Option<Wrong>, LoadError> {
    for &tested in tested {
        let found = match gpu.verdict(set, tested) {
            Some(known) => known,
            None => {
                let found = self_test(gpu, set, tested)?;
                gpu.keep_verdict(set, tested, found.clone());
                found
            }
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The kernels that are asked for, by options or by the environment.
pub(crate) fn asked_for(
    options: Option<KernelVariant>,
) -> Result<Option<KernelVariant>, LoadError> {
    match options {
        Some(variant) => Ok(Some(variant)),
        None => from_environment(std::env::var(VARIABLE).ok()),
    }
}

fn from_environment(value: Option<String>) -> Result<Option<KernelVariant>, LoadError> {
    match value {
        None => Ok(None),
        // As a pipeline file says it.
        Some(value) if value.is_empty() || value == "auto" => Ok(None),
        Some(value) => match KernelVariant::named(&value) {
            Some(variant) => Ok(Some(variant)),
            None => Err(LoadError::Kernels { value }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_kernels_or_is_refused() {
        let from = |value: &str| from_environment(Some(value.to_owned()));
        assert_eq!(from_environment(None).unwrap(), None);
        assert_eq!(from("").unwrap(), None);
        assert_eq!(from("auto").unwrap(), None);
        assert_eq!(from("dot").unwrap(), Some(KernelVariant::Dot));
        let error = from("cuda").unwrap_err().to_string();
        assert!(error.contains("TIDEGATE_KERNELS is `cuda`"), "{error}");
    }
}
