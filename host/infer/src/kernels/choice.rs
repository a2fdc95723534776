//! Which kernels a model runs on a device.

use super::{KernelSet, KernelVariant};
use crate::device::Gpu;
use crate::load_error::LoadError;

/// The environment variable that names kernels where options do not.
const VARIABLE: &str = "TIDEGATE_KERNELS";

/// The kernels for a device: those asked for, those that the environment names, or the best of those that are right here.
pub(crate) fn choose_kernels(
    gpu: &Gpu,
    asked: Option<KernelVariant>,
) -> Result<KernelSet, LoadError> {
    let asked = match asked {
        Some(variant) => Some(variant),
        None => from_environment(std::env::var(VARIABLE).ok())?,
    };
    let set = |variant| KernelSet::of(variant, gpu.is_software(), gpu.features().subgroup);
    if let Some(variant) = asked {
        return Ok(set(variant));
    }
    let plain = if gpu.is_software() {
        KernelVariant::Software
    } else {
        KernelVariant::Portable
    };
    Ok(set(plain))
}

fn from_environment(value: Option<String>) -> Result<Option<KernelVariant>, LoadError> {
    match value {
        Some(value) if !value.is_empty() => match KernelVariant::named(&value) {
            Some(variant) => Ok(Some(variant)),
            None => Err(LoadError::Kernels { value }),
        },
        _ => Ok(None),
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
        assert_eq!(from("dot").unwrap(), Some(KernelVariant::Dot));
        let error = from("cuda").unwrap_err().to_string();
        assert!(error.contains("TIDEGATE_KERNELS is `cuda`"), "{error}");
    }
}
