//! The types of tensors in GGUF files by their numbers.

use crate::format::{Format, StoredFormat};

/// How a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Known(StoredFormat),
    /// One that is not read, by its number.
    Other(u32),
}

/// Those that are read (`enum ggml_type`).
const READ: [(u32, StoredFormat); 17] = [
    (0, StoredFormat::Kept(Format::F32)),
    (1, StoredFormat::Kept(Format::F16)),
    (2, StoredFormat::Kept(Format::Int4)),
    (3, StoredFormat::Q4_1),
    (6, StoredFormat::Q5_0),
    (7, StoredFormat::Q5_1),
    (8, StoredFormat::Kept(Format::Int8)),
    (10, StoredFormat::Q2K),
    (11, StoredFormat::Q3K),
    (12, StoredFormat::Kept(Format::Q4K)),
    (13, StoredFormat::Q5K),
    (14, StoredFormat::Kept(Format::Q6K)),
    (15, StoredFormat::Q8K),
    (20, StoredFormat::Iq4Nl),
    (23, StoredFormat::Iq4Xs),
    (30, StoredFormat::Kept(Format::Bf16)),
    (39, StoredFormat::Mxfp4),
];

/// Those that are not, with the elements and bytes of a block, so that it can be told what a file holds
/// (`GGML_QUANT_SIZES` of the gguf package).
const NOT_READ: [(u32, &str, u64, u64); 17] = [
    (9, "q8_1", 32, 40),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
];

/// The names of all that are read, for messages.
pub(crate) const SUPPORTED: &str = "f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, q3_K, q4_K, q5_K, q6_K, q8_K, iq4_nl, iq4_xs, mxfp4";

impl Kind {
    /// What a number means.
    pub(crate) fn of(number: u32) -> Kind {
        let read = READ.iter().find(|(known, _)| *known == number);
        read.map_or(Kind::Other(number), |(_, format)| Kind::Known(*format))
    }

    /// Its name in GGUF files.
    pub(crate) fn name(self) -> String {
        match self {
            Kind::Known(format) => format.gguf_name().to_owned(),
            Kind::Other(number) => match NOT_READ.iter().find(|(known, ..)| *known == number) {
                Some((_, name, ..)) => (*name).to_owned(),
                None => format!("type number {number}"),
            },
        }
    }

    /// Elements and bytes of a block, if they are known.
    pub(crate) fn block(self) -> Option<(u64, u64)> {
        match self {
            Kind::Known(format) => Some((format.block() as u64, format.block_bytes() as u64)),
            Kind::Other(number) => {
                let found = NOT_READ.iter().find(|(known, ..)| *known == number);
                found.map(|(_, _, elements, bytes)| (*elements, *bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_names_is_that_of_the_formats() {
        let mut names: Vec<&str> = READ.iter().map(|(_, format)| format.gguf_name()).collect();
        let mut supported: Vec<&str> = SUPPORTED.split(", ").collect();
        names.sort_unstable();
        supported.sort_unstable();
        assert_eq!(names, supported);
        for format in StoredFormat::ALL {
            assert!(
                READ.iter().any(|(_, read)| *read == format),
                "{}",
                format.name()
            );
        }
        assert!(
            NOT_READ
                .iter()
                .all(|(number, ..)| Kind::of(*number) == Kind::Other(*number))
        );
        assert_eq!(Kind::of(40).name(), "nvfp4");
        assert_eq!(Kind::of(4).name(), "type number 4");
        assert_eq!(Kind::of(4).block(), None);
    }
}
