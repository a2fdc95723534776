//! `tidegate model`.

mod admin;
mod bench;
mod convert;
mod info;

pub(crate) use admin::{line, list, load, unload};
pub(crate) use bench::bench;
pub(crate) use convert::{ConvertOptions, convert};
pub(crate) use info::{InfoOptions, info};

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / (1 << 20) as f64;
    if mebibytes >= 1024.0 {
        format!("{:.2} GiB", mebibytes / 1024.0)
    } else {
        format!("{mebibytes:.2} MiB")
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(size(3 << 19), "1.50 MiB");
        assert_eq!(size(5 << 29), "2.50 GiB");
    }
}
