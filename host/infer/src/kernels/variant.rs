//! Which kernels run: what an operator can ask for, and what each part then takes.

use std::fmt;

use crate::load_error::LoadError;

/// Turns that the loops of a kernel take at most on a software adapter: llvmpipe ends them after 65,535 in all, without a word.
pub(crate) const MOST_TURNS: usize = 65_000;

/// Kernels by what they ask of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelVariant {
    /// For GPUs: workgroups that share memory, no optional feature.
    Portable,
    /// For software adapters: no optional feature, and workgroup memory and barriers only where a draw is searched and, without
    /// subgroups, where attention adds up its lanes.
    Software,
    /// As portable, with sums over subgroups of whatever size.
    Subgroup,
    /// As subgroup where there is one, and products in f16 with sums in f32.
    F16,
    /// As subgroup where there is one, and products by cooperative matrices.
    Cooperative,
    /// Products of quantized weights with activations rounded to int8.
    Dot,
}

impl KernelVariant {
    /// Every variant.
    pub const ALL: [KernelVariant; 6] = [
        KernelVariant::Portable,
        KernelVariant::Software,
        KernelVariant::Subgroup,
        KernelVariant::F16,
        KernelVariant::Cooperative,
        KernelVariant::Dot,
    ];

    /// Its name in messages and in `TIDEGATE_KERNELS`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KernelVariant::Portable => "portable",
            KernelVariant::Software => "software",
            KernelVariant::Subgroup => "subgroup",
            KernelVariant::F16 => "f16",
            KernelVariant::Cooperative => "cooperative",
            KernelVariant::Dot => "dot",
        }
    }

    /// The variant of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<KernelVariant> {
        KernelVariant::ALL
            .into_iter()
            .find(|variant| variant.name() == name)
    }
}

impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How kernels that are no products with weights share their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// Lanes of a workgroup, through its memory.
    Portable,
    /// Each lane by itself.
    Software,
    /// Lanes of a subgroup, then of a workgroup.
    Subgroup,
}

impl Base {
    pub(crate) const ALL: [Base; 3] = [Base::Portable, Base::Software, Base::Subgroup];
}

/// The kernels a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelSet {
    /// For norms, heads, attention and sampling.
    pub base: Base,
    /// For products with weights.
    pub matmul: KernelVariant,
    /// Whether every product is summed in one order at any number of rows.
    pub reproducible: bool,
    /// Whether plain arithmetic stands in for cooperative matrices, in the same kernels: for tests on devices without them.
    pub emulated: bool,
}

impl KernelSet {
    /// The set that a variant stands for: `software` says whether the adapter is one, `subgroup` whether the device has
    /// that feature.
    #[must_use]
    pub fn of(variant: KernelVariant, software: bool, subgroup: bool) -> KernelSet {
        let base = match variant {
            KernelVariant::Portable => Base::Portable,
            KernelVariant::Software => Base::Software,
            KernelVariant::Subgroup => Base::Subgroup,
            _ if software => Base::Software,
            _ if subgroup => Base::Subgroup,
            _ => Base::Portable,
        };
        KernelSet {
            base,
            matmul: variant,
            reproducible: false,
            emulated: false,
        }
    }

    /// Refuses what would take more turns than a software adapter makes. `what` takes them, as "to add up 2000000 numbers".
    ///
    /// # Errors
    /// The kernels, the adapter, and both numbers.
    pub(crate) fn check_turns(
        self,
        turns: usize,
        what: impl Fn() -> String,
        adapter: impl Fn() -> String,
    ) -> Result<(), LoadError> {
        if self.base != Base::Software || turns <= MOST_TURNS {
            return Ok(());
        }
        Err(LoadError::Variant {
            variant: self.matmul.name(),
            adapter: adapter(),
            reason: format!(
                "{} takes {turns} turns of a loop, and software adapters end loops after {MOST_TURNS}; ask for `portable` kernels",
                what()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_found_by_its_name_only() {
        for variant in KernelVariant::ALL {
            assert_eq!(KernelVariant::named(variant.name()), Some(variant));
        }
        assert_eq!(KernelVariant::named("Portable"), None);
        assert_eq!(KernelVariant::named(""), None);
    }

    #[test]
    fn products_by_other_means_leave_the_rest_to_what_the_adapter_does_best() {
        use KernelVariant::{Dot, Portable};
        assert_eq!(KernelSet::of(Dot, true, true).base, Base::Software);
        assert_eq!(KernelSet::of(Dot, false, true).base, Base::Subgroup);
        assert_eq!(KernelSet::of(Dot, false, false).base, Base::Portable);
        assert_eq!(KernelSet::of(Portable, true, true).base, Base::Portable);
    }
}
