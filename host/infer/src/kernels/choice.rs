//! Which kernels a model runs on a device.

use tidegate_contract::SUMS_BY_ROWS;
use tracing::{info, warn};

use super::beside::{COMPILES, test_until_wrong};
use super::self_test::{Tested, Wrong};
use super::{Base, KernelSet, KernelVariant, MOST_SUBGROUP, StorageFormat, Subgroups, Tiling};
use crate::device::{Features, Gpu};
use crate::load_error::{LoadError, WrongNumbers};
use crate::site::{Site, Traits};

/// The environment variable that names kernels where options do not.
const VARIABLE: &str = "TIDEGATE_KERNELS";

/// The kernels for a device: those asked for, those that the environment names, or else the fastest of those that compute in
/// f32 and passed their self-test here, in all that a model runs. What rounds the inputs of products (f16, cooperative, dot)
/// must be asked for. `tested` is what of a set the model runs.
pub(crate) fn choose_kernels(
    gpu: &Gpu,
    asked: Option<KernelVariant>,
    reproducible: bool,
    tested: &dyn Fn(KernelSet) -> Result<Vec<Tested>, LoadError>,
) -> Result<KernelSet, LoadError> {
    let asked = asked_for(asked)?;
    let (has, lanes) = (gpu.features().subgroup, gpu.subgroup_lanes());
    let subgroups = has && are_alike(lanes);
    let set = |variant| KernelSet {
        reproducible,
        ..KernelSet::of(variant, gpu.is_software(), subgroups)
    };
    let only;
    let candidates = match asked {
        Some(variant) => {
            can_run(
                traits(gpu),
                || gpu.adapter().to_string(),
                variant,
                reproducible,
            )?;
            only = [variant];
            &only[..]
        }
        None => {
            if has && !subgroups && !gpu.is_software() {
                let why = unlike_subgroups(lanes);
                info!(adapter = %gpu.adapter(), %why, "kernels do not sum over subgroups");
            }
            candidates(gpu.is_software(), subgroups)
        }
    };
    let mut left = candidates.iter().copied();
    let mut variant = left.next().unwrap_or(KernelVariant::Portable);
    loop {
        let tested = tested(set(variant))?;
        let Some(wrong) = verdict(gpu, set(variant), &tested)? else {
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

fn traits(gpu: &Gpu) -> Traits {
    Site::Device(gpu).traits()
}

/// Refuses kernels that a device with these traits cannot run, or not so that sums have one order.
fn can_run(
    traits: Traits,
    adapter: impl Fn() -> String,
    variant: KernelVariant,
    reproducible: bool,
) -> Result<(), LoadError> {
    has_what_is_needed(traits.features, &adapter, variant)?;
    let most = traits.subgroup_lanes[1];
    if variant == KernelVariant::Cooperative && most > MOST_SUBGROUP {
        return Err(LoadError::Variant {
            variant: variant.name(),
            adapter: adapter(),
            reason: format!(
                "its subgroups have up to {most} lanes, and the workgroups of these kernels have room for {MOST_SUBGROUP}"
            ),
        });
    }
    if reproducible {
        sums_in_one_order(traits.subgroup_lanes, adapter, variant)?;
    }
    Ok(())
}

/// The kernels that a device with these traits would run, if their self-tests pass there. `device` is what it is called. What this
/// machine's environment names is for its own devices, and no matter here.
///
/// # Errors
/// It cannot run those that are asked for.
pub(crate) fn expected_kernels(
    traits: Traits,
    (device, software): (&str, bool),
    asked: Option<KernelVariant>,
    reproducible: bool,
) -> Result<KernelSet, LoadError> {
    if let Some(variant) = asked {
        can_run(traits, || device.to_owned(), variant, reproducible)?;
    }
    let has = traits.features.subgroup;
    let subgroups = has && are_alike(traits.subgroup_lanes);
    let variant = asked
        .or(candidates(software, subgroups).first().copied())
        .unwrap_or(KernelVariant::Portable);
    Ok(KernelSet {
        reproducible,
        ..KernelSet::of(variant, software, subgroups)
    })
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
pub(super) fn has_what_is_needed(
    features: Features,
    adapter: impl Fn() -> String,
    variant: KernelVariant,
) -> Result<(), LoadError> {
    let missing = needs(variant).without(features);
    if missing == Features::NONE {
        return Ok(());
    }
    Err(LoadError::Variant {
        variant: variant.name(),
        adapter: adapter(),
        reason: format!("the device lacks {missing}"),
    })
}

/// Whether no two kernels can have subgroups of different sizes, of so many lanes, least and most: only then is a sum over them
/// the same in all. A driver that reports a range (Metal always does) may choose for each.
fn are_alike([least, most]: [u32; 2]) -> bool {
    least == most
}

/// Why they may not.
fn unlike_subgroups([least, most]: [u32; 2]) -> String {
    format!(
        "its subgroups have {least} to {most} lanes, so two kernels may sum in different orders"
    )
}

/// Refuses a variant whose products are not summed in one order at any number of rows.
fn sums_in_one_order(
    subgroup_lanes: [u32; 2],
    adapter: impl Fn() -> String,
    variant: KernelVariant,
) -> Result<(), LoadError> {
    let why = match variant {
        KernelVariant::F16 => format!("they {SUMS_BY_ROWS}"),
        KernelVariant::Subgroup if !are_alike(subgroup_lanes) => unlike_subgroups(subgroup_lanes),
        _ => return Ok(()),
    };
    Err(LoadError::Variant {
        variant: variant.name(),
        adapter: adapter(),
        reason: format!("{why}; set `reproducible = false`, or ask for other kernels"),
    })
}

/// What a model's products run, by name: with dots, which only integers have, for each format what it runs.
pub(crate) fn products_by_name(set: KernelSet, tested: &[Tested]) -> String {
    let mut kinds: Vec<StorageFormat> = Vec::new();
    for tested in tested {
        match tested {
            Tested::Products(stored, _) | Tested::NormedProducts(stored, _)
                if !kinds.contains(stored) =>
            {
                kinds.push(*stored);
            }
            _ => {}
        }
    }
    let runs = |stored: StorageFormat| {
        let subgroups = Subgroups {
            broadcast: false,
            lanes: 1,
        };
        let tilings = Tiling::of(set, stored, subgroups);
        let dots = |(_, tiling): &(u32, Tiling)| matches!(tiling, Tiling::Dot { .. });
        match (set.matmul, set.base) {
            (KernelVariant::Dot, Base::Subgroup) if !tilings.iter().any(dots) => {
                KernelVariant::Subgroup
            }
            (KernelVariant::Dot, _) if !tilings.iter().any(dots) => KernelVariant::Portable,
            (variant, _) => variant,
        }
    };
    match kinds.split_first() {
        Some((first, others)) if others.iter().any(|kind| runs(*kind) != runs(*first)) => {
            let each = |kind: &StorageFormat| format!("{} for {kind:?}", runs(*kind));
            kinds.iter().map(each).collect::<Vec<_>>().join(", ")
        }
        Some((first, _)) => runs(*first).name().to_owned(),
        None => set.matmul.name().to_owned(),
    }
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
            subgroup: true,
            f16: true,
            cooperative: true,
            ..Features::NONE
        },
    }
}

/// What is wrong with a set of kernels on a device, in what a model runs; each part is tested once.
fn verdict(gpu: &Gpu, set: KernelSet, tested: &[Tested]) -> Result<Option<Wrong>, LoadError> {
    let known = || {
        let mut verdicts = tested.iter().map(|tested| gpu.verdict(set, *tested));
        verdicts.find_map(Option::flatten)
    };
    if let Some(wrong) = known() {
        return Ok(Some(wrong));
    }
    test_until_wrong(gpu, set, tested, COMPILES)?;
    Ok(known())
}

/// The kernels that are asked for of a device of this machine, by options or by the environment.
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
    use crate::kernels::{MatmulKernel, Store};

    #[test]
    fn subgroups_of_a_range_of_sizes_are_no_candidate() {
        use KernelVariant::{Portable, Software, Subgroup};
        for (lanes, software, wanted) in [
            ([32, 32], false, &[Subgroup, Portable][..]),
            // As some of Intel's drivers report it, then as Metal always does.
            ([8, 32], false, &[Portable]),
            ([4, 64], false, &[Portable]),
            ([8, 8], true, &[Software, Portable]),
            ([4, 8], true, &[Software, Portable]),
        ] {
            let subgroups = are_alike(lanes);
            assert_eq!(candidates(software, subgroups), wanted, "{lanes:?}");
        }
        assert_eq!(candidates(false, false), [Portable], "without the feature");
        assert!(unlike_subgroups([4, 64]).contains("4 to 64 lanes"));
    }

    /// A device that has what a variant needs can compile all of its products.
    #[test]
    fn a_variant_needs_what_its_products_need() {
        let subgroups = Subgroups {
            broadcast: false,
            lanes: 32,
        };
        for variant in KernelVariant::ALL {
            let set = KernelSet::of(variant, false, false);
            let mut left = needs(variant);
            for stored in StorageFormat::ALL {
                for (_, tiling) in Tiling::of(set, stored, subgroups) {
                    let kernel = MatmulKernel {
                        tiling,
                        stored,
                        store: Store::Plain,
                        normed: false,
                        routed: false,
                    };
                    let more = kernel.needs();
                    assert!(needs(variant).contains(more), "{variant}: {more}");
                    left = left.without(more);
                }
            }
            // The base of the others sums over subgroups.
            if !matches!(variant, KernelVariant::Subgroup) {
                assert_eq!(left, Features::NONE, "{variant}");
            }
        }
    }

    #[test]
    fn what_cannot_keep_one_order_of_sums_is_refused_where_it_must() {
        use KernelVariant::{F16, Subgroup};
        let refused = |lanes, variant| {
            sums_in_one_order(lanes, || "this adapter".to_owned(), variant)
                .err()
                .map(|error| error.to_string())
        };
        for variant in KernelVariant::ALL {
            let of_alike = refused([32, 32], variant);
            assert_eq!(
                of_alike.is_some(),
                variant == F16,
                "{variant}: {of_alike:?}"
            );
            let of_a_range = refused([8, 32], variant);
            let unlike = matches!(variant, F16 | Subgroup);
            assert_eq!(of_a_range.is_some(), unlike, "{variant}: {of_a_range:?}");
        }
        let error = refused([8, 32], Subgroup).unwrap();
        for part in [
            "subgroup",
            "this adapter",
            "8 to 32 lanes",
            "`reproducible = false`",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn cooperative_matrices_of_too_large_subgroups_are_refused_by_name() {
        let traits = |most| Traits {
            features: Features::ALL,
            subgroup_lanes: [4, most],
            largest_binding: u64::MAX,
            storage_buffers: u32::MAX,
        };
        let asked = |most, variant| {
            let device = ("that device", false);
            expected_kernels(traits(most), device, Some(variant), false).map(|set| set.matmul)
        };
        let (cooperative, portable) = (KernelVariant::Cooperative, KernelVariant::Portable);
        assert_eq!(asked(64, cooperative).unwrap(), cooperative);
        assert_eq!(asked(128, portable).unwrap(), portable);
        let error = asked(128, cooperative).unwrap_err().to_string();
        for part in ["cooperative", "that device", "128 lanes", "room for 64"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn dots_are_named_for_what_they_multiply_only() {
        let of = |variant, base, kinds: &[StorageFormat]| {
            let set = KernelSet {
                base,
                ..KernelSet::of(variant, false, false)
            };
            let products = |stored: &StorageFormat| Tested::Products(*stored, Store::Plain);
            products_by_name(set, &kinds.iter().map(products).collect::<Vec<_>>())
        };
        let (dot, subgroup) = (KernelVariant::Dot, Base::Subgroup);
        assert_eq!(
            of(dot, subgroup, &[StorageFormat::Int8, StorageFormat::Int4]),
            "dot"
        );
        assert_eq!(of(dot, subgroup, &[StorageFormat::F16]), "subgroup");
        assert_eq!(of(dot, Base::Software, &[StorageFormat::Q4K]), "portable");
        assert_eq!(
            of(dot, subgroup, &[StorageFormat::F16, StorageFormat::Int8]),
            "subgroup for F16, dot for Int8"
        );
        let software = of(
            KernelVariant::Software,
            Base::Software,
            &[StorageFormat::F16],
        );
        assert_eq!(software, "software");
    }

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
