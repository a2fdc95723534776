//! The rows of a matrix whose numbers, scales and zero points lie in tensors of their own.

use half::{bf16, f16};

use super::PackedFormat;
use crate::format::{Format, GROUP, encode_multiples};

/// A quantized matrix, its tensors checked against each other.
#[derive(Clone, Debug)]
pub(crate) struct PackedRows<'a> {
    pub(crate) format: PackedFormat,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) numbers: Numbers<'a>,
    pub(crate) zeros: Zeros<'a>,
    pub(crate) scales: Scales<'a>,
    pub(crate) groups: Groups,
}

impl PackedRows<'_> {
    /// What the names of its tensors end in, where that of a plain matrix ends in `.weight`. `.weight_shape` is not
    /// looked at: the configuration says the same.
    pub(crate) fn endings(&self) -> impl Iterator<Item = &'static str> {
        let others: &[&str] = match (self.format, &self.numbers) {
            (PackedFormat::GptqInt4 | PackedFormat::GptqInt8, _) => {
                &[".qweight", ".qzeros", ".g_idx"]
            }
            (PackedFormat::AwqInt4, _) => &[".qweight", ".qzeros"],
            (PackedFormat::CompressedInt4 | PackedFormat::CompressedInt8, Numbers::Bytes(_)) => {
                &[".weight", ".weight_g_idx"]
            }
            (PackedFormat::CompressedInt4 | PackedFormat::CompressedInt8, _) => &[
                ".weight_packed",
                ".weight_zero_point",
                ".weight_g_idx",
                ".weight_shape",
            ],
            (PackedFormat::Fp8, _) => &[".weight"],
            (PackedFormat::Mxfp4, _) => &["_blocks"],
        };
        others.iter().copied().chain([self.scales.ending])
    }
}

/// The number of each element.
#[derive(Clone, Debug)]
pub(crate) enum Numbers<'a> {
    /// Several to a word.
    Words(Words<'a>),
    /// `[rows, width]` i8.
    Bytes(&'a [u8]),
    /// `[rows, width]` E4M3.
    Floats(&'a [u8]),
    /// `[rows, width / 2]` pairs of E2M1, the first in the lower bits.
    HalfFloats(&'a [u8]),
}

/// What is taken from each number.
#[derive(Clone, Debug)]
pub(crate) enum Zeros<'a> {
    /// The same everywhere.
    All(i16),
    /// For each group of a row, less `offset`.
    Words { words: Words<'a>, offset: i16 },
}

/// Whole numbers of `bits` bits, little-endian words of 32 bits of them.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) bits: u32,
    /// What a word holds several of: elements of a row (or its groups), else rows.
    pub(crate) along_width: bool,
    /// Words from one element (or word of elements) to the next.
    pub(crate) width_step: usize,
    /// Words from one row (or word of rows) to the next.
    pub(crate) row_step: usize,
    /// Place in a word of the first, second ... that it holds; [`STRAIGHT`] but for AWQ.
    pub(crate) places: &'static [u8; 8],
}

/// The first in the lowest bits.
pub(crate) const STRAIGHT: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Where AWQ puts eight columns in a word (`AWQ_REVERSE_ORDER` in autoawq's `packing_utils.py`).
pub(crate) const AWQ_PLACES: [u8; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

impl Words<'_> {
    fn per_word(&self) -> usize {
        32 / self.bits as usize
    }

    /// A word; 0 beyond the last, which the shapes rule out.
    fn word(&self, index: usize) -> u32 {
        let bytes = self.bytes.get(index * 4..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// What a word holds at a place.
    fn number(&self, word: u32, place: usize) -> i16 {
        let place = u32::from(self.places[place]);
        ((word >> (self.bits * place)) & ((1 << self.bits) - 1)) as i16
    }

    /// The number of an element (or group) of a row.
    fn at(&self, row: usize, element: usize) -> i16 {
        let per = self.per_word();
        let (element, row, place) = if self.along_width {
            (element / per, row, element % per)
        } else {
            (element, row / per, row % per)
        };
        self.number(
            self.word(element * self.width_step + row * self.row_step),
            place,
        )
    }

    /// Appends the numbers of the first `width` elements of a row.
    fn row(&self, row: usize, width: usize, numbers: &mut Vec<i16>) {
        let per = self.per_word();
        if self.along_width {
            for first in (0..width).step_by(per) {
                let word = self.word(first / per * self.width_step + row * self.row_step);
                numbers.extend((0..per.min(width - first)).map(|place| self.number(word, place)));
            }
        } else {
            let first = row / per * self.row_step;
            numbers.extend((0..width).map(|element| {
                let word = self.word(first + element * self.width_step);
                self.number(word, row % per)
            }));
        }
    }
}

/// What a number is multiplied by.
#[derive(Clone, Debug)]
pub(crate) struct Scales<'a> {
    /// What the name of their tensor ends in: 8-bit floats may have them by one of two names.
    pub(crate) ending: &'static str,
    pub(crate) bytes: &'a [u8],
    pub(crate) float: Float,
    /// Rows that share their scales.
    pub(crate) rows_of_block: usize,
    /// Scales from one such block of rows to the next.
    pub(crate) row_step: usize,
    /// Scales from one group to the next.
    pub(crate) group_step: usize,
}

/// A float format of scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    F32,
    F16,
    Bf16,
    /// A power of two, OCP's E8M0; 255 is no number.
    E8m0,
}

impl Float {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::Bf16 => 2,
            Float::E8m0 => 1,
        }
    }
}

impl Scales<'_> {
    fn at(&self, row: usize, group: usize) -> f32 {
        let index = row / self.rows_of_block * self.row_step + group * self.group_step;
        let bytes = self.bytes.get(index * self.float.bytes()..);
        let scale = bytes.and_then(|bytes| match self.float {
            Float::F32 => bytes.first_chunk().map(|b| f32::from_le_bytes(*b)),
            Float::F16 => bytes.first_chunk().map(|b| f16::from_le_bytes(*b).to_f32()),
            Float::Bf16 => bytes
                .first_chunk()
                .map(|b| bf16::from_le_bytes(*b).to_f32()),
            Float::E8m0 => bytes.first().map(|exponent| e8m0(*exponent)),
        });
        // Shapes rule it out.
        scale.unwrap_or(f32::NAN)
    }
}

/// Which group each element of a row is of.
#[derive(Clone, Debug)]
pub(crate) enum Groups {
    /// So many neighbours each.
    Even(usize),
    /// As it is listed, `[width]`: GPTQ that took columns in the order of their weight.
    Listed(Vec<u32>),
}

impl Groups {
    fn of(&self, element: usize) -> usize {
        match self {
            Groups::Even(size) => element / size,
            Groups::Listed(groups) => groups.get(element).map_or(0, |group| *group as usize),
        }
    }

    /// Calls with each group and how many neighbours are of it, in order, over a row.
    fn runs(&self, width: usize, mut of: impl FnMut(usize, usize)) {
        match self {
            Groups::Even(size) => {
                for first in (0..width).step_by(*size) {
                    of(first / size, (*size).min(width - first));
                }
            }
            Groups::Listed(groups) => groups.iter().for_each(|group| of(*group as usize, 1)),
        }
    }

    /// Whether 32 neighbours, from a multiple of 32 on, are always of one group.
    fn hold_whole_groups(&self) -> bool {
        matches!(self, Groups::Even(size) if size.is_multiple_of(GROUP))
    }
}

/// What is taken from a number of four bits in int4.
const MIDDLE: i16 = 8;

impl PackedRows<'_> {
    /// What rows are handed on in: int4 where that says the same, or else int8; f32 where rows are not whole groups of 32.
    pub(crate) fn handed_on(&self) -> Format {
        if !self.width.is_multiple_of(GROUP) {
            return Format::F32;
        }
        let four_bits = matches!(&self.numbers, Numbers::Words(words) if words.bits == 4);
        match self.groups {
            Groups::Even(size) if four_bits && size.is_multiple_of(GROUP) => {
                let groups = self.width.div_ceil(size);
                let is_middle = |row| (0..groups).all(|group| self.zero(row, group) == MIDDLE);
                match self.has_middle_words() || (0..self.rows).all(is_middle) {
                    true => Format::Int4,
                    false => Format::Int8,
                }
            }
            _ => Format::Int8,
        }
    }

    /// Whether the middle is taken from all numbers of four bits, as whole words say: this is asked each time that a tensor is, and
    /// there may be a million zeros. Words with places of no row or group may say otherwise.
    fn has_middle_words(&self) -> bool {
        match &self.zeros {
            Zeros::All(zero) => *zero == MIDDLE,
            Zeros::Words { words, offset } => {
                let middle = u32::from(((MIDDLE - offset) & 15).unsigned_abs()) * 0x1111_1111;
                let mut zeros = words.bytes.as_chunks().0.iter();
                words.bits == 4 && zeros.all(|word| u32::from_le_bytes(*word) == middle)
            }
        }
    }

    fn zero(&self, row: usize, group: usize) -> i16 {
        match &self.zeros {
            Zeros::All(zero) => *zero,
            // AutoGPTQ stores one less and takes the sum for a number of as many bits.
            Zeros::Words { words, offset } => {
                (words.at(row, group) + offset) & ((1 << words.bits) - 1)
            }
        }
    }

    /// Bytes of all tensors of it.
    pub(crate) fn bytes(&self) -> u64 {
        let numbers = match &self.numbers {
            Numbers::Words(words) => words.bytes.len(),
            Numbers::Bytes(bytes) | Numbers::Floats(bytes) | Numbers::HalfFloats(bytes) => {
                bytes.len()
            }
        };
        let zeros = match &self.zeros {
            Zeros::All(_) => 0,
            Zeros::Words { words, .. } => words.bytes.len(),
        };
        (numbers + zeros + self.scales.bytes.len()) as u64
    }

    /// What the whole multiples of a group are multiples of: its scale, or half of it where numbers are halves.
    fn unit(&self, row: usize, group: usize) -> f32 {
        let scale = self.scales.at(row, group);
        match self.numbers {
            Numbers::HalfFloats(_) => scale / 2.0,
            _ => scale,
        }
    }

    /// Row `row` in f32, into `floats`, which is cleared; and where its numbers are whole, or halves, these (or their doubles)
    /// less their zeros, into `numbers`.
    pub(crate) fn decode(&self, row: usize, floats: &mut Vec<f32>, numbers: &mut Vec<i16>) {
        floats.clear();
        numbers.clear();
        let here = row * self.width..(row + 1) * self.width;
        match &self.numbers {
            Numbers::Words(words) => words.row(row, self.width, numbers),
            Numbers::Bytes(bytes) => {
                let bytes = bytes.get(here).unwrap_or_default().iter();
                numbers.extend(bytes.map(|q| i16::from(*q as i8)));
            }
            Numbers::Floats(bytes) => {
                let bytes = bytes.get(here).unwrap_or_default().iter();
                floats.extend(bytes.map(|x| e4m3(*x)));
                let mut each = floats.iter_mut();
                self.groups.runs(self.width, |group, length| {
                    let scale = self.scales.at(row, group);
                    each.by_ref().take(length).for_each(|x| *x *= scale);
                });
                return;
            }
            Numbers::HalfFloats(bytes) => {
                let here = row * self.width / 2..(row + 1) * self.width / 2;
                let pairs = bytes.get(here).unwrap_or_default().iter();
                let halves = pairs.flat_map(|pair| [pair & 15, pair >> 4]);
                numbers.extend(halves.clone().map(doubled_e2m1));
                floats.extend(halves.map(e2m1));
                let mut each = floats.iter_mut();
                self.groups.runs(self.width, |group, length| {
                    let scale = self.scales.at(row, group);
                    each.by_ref().take(length).for_each(|x| *x *= scale);
                });
                return;
            }
        }
        let mut each = numbers.iter_mut();
        self.groups.runs(self.width, |group, length| {
            let (scale, zero) = (self.scales.at(row, group), self.zero(row, group));
            for number in each.by_ref().take(length) {
                *number -= zero;
                floats.push(f32::from(*number) * scale);
            }
        });
    }

    /// Appends a row in int4, if that is what [`PackedRows::handed_on`] says, or else int8. `floats` and `numbers` are what
    /// [`PackedRows::decode`] makes of it.
    ///
    /// What is whole multiples of one scale stays that, and loses nothing where the scale is an f16 and the multiples are
    /// within 127.
    pub(crate) fn encode(
        &self,
        format: Format,
        row: usize,
        (floats, numbers): (&[f32], &[i16]),
        values: &mut Vec<u8>,
        scales: &mut Vec<u8>,
    ) {
        let multiples = numbers.len() == floats.len() && self.groups.hold_whole_groups();
        let groups = floats.as_chunks::<GROUP>().0.iter().enumerate();
        if format == Format::Int4 {
            for (group, numbers) in numbers.as_chunks::<GROUP>().0.iter().enumerate() {
                let scale = self.scales.at(row, self.groups.of(group * GROUP));
                scales.extend(f16::from_f32(scale).to_le_bytes());
                let pairs = numbers.as_chunks::<2>().0.iter();
                values.extend(pairs.map(|[low, high]| (low + 8) as u8 | ((high + 8) as u8) << 4));
            }
            return;
        }
        for (group, floats) in groups {
            let multiples = match numbers.get(group * GROUP..).and_then(<[i16]>::first_chunk) {
                Some(numbers) if multiples => {
                    let unit = self.unit(row, self.groups.of(group * GROUP));
                    Some((unit, *numbers))
                }
                _ => None,
            };
            encode_multiples(floats, multiples, values, scales);
        }
    }
}

/// An 8-bit float: a sign, four bits of exponent (bias 7), three of fraction; all ones is no number (OCP 8-bit Floating
/// Point Specification, E4M3).
fn e4m3(bits: u8) -> f32 {
    let (sign, exponent, fraction) = (bits >> 7, (bits >> 3) & 15, bits & 7);
    let magnitude = match (exponent, fraction) {
        (15, 7) => f32::NAN,
        (0, _) => f32::from(fraction) / 512.0,
        // As an f32, whose bias is 127.
        _ => f32::from_bits((u32::from(exponent) + 120) << 23 | u32::from(fraction) << 20),
    };
    if sign == 0 { magnitude } else { -magnitude }
}

/// What a 4-bit float stands for, twice: a sign, two bits of exponent (bias 1), one of fraction (E2M1).
fn doubled_e2m1(bits: u8) -> i16 {
    let magnitude = [0, 1, 2, 3, 4, 6, 8, 12][usize::from(bits & 7)];
    if bits & 8 == 0 { magnitude } else { -magnitude }
}

/// The same once; the sign of a zero is kept.
fn e2m1(bits: u8) -> f32 {
    let magnitude = f32::from(doubled_e2m1(bits & 7)) / 2.0;
    if bits & 8 == 0 { magnitude } else { -magnitude }
}

/// A power of two with a bias of 127; 255 is no number (E8M0).
fn e8m0(exponent: u8) -> f32 {
    match exponent {
        255 => f32::NAN,
        // Below the least normal number.
        0 => f32::from_bits(1 << 22),
        _ => f32::from_bits(u32::from(exponent) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float_of_4_bits_and_every_power_of_two_is_what_its_definition_says() {
        for bits in 0..16u8 {
            let (exponent, fraction) = (i32::from((bits >> 1) & 3), f64::from(bits & 1));
            let magnitude = match exponent {
                0 => fraction / 2.0,
                _ => (1.0 + fraction / 2.0) * f64::powi(2.0, exponent - 1),
            };
            let expected = if bits & 8 == 0 { magnitude } else { -magnitude };
            let found = f64::from(e2m1(bits));
            assert_eq!(found.to_bits(), expected.to_bits(), "{bits:#x}");
            assert_eq!(f64::from(doubled_e2m1(bits)), 2.0 * expected, "{bits:#x}");
        }
        for exponent in 0..255u8 {
            let expected = f64::powi(2.0, i32::from(exponent) - 127);
            assert_eq!(f64::from(e8m0(exponent)), expected, "{exponent}");
        }
        assert!(e8m0(255).is_nan());
    }

    #[test]
    fn every_float_of_8_bits_is_what_its_definition_says() {
        for bits in 0..=255u8 {
            let (exponent, fraction) = (i32::from((bits >> 3) & 15), f64::from(bits & 7));
            let magnitude = match exponent {
                0 => fraction / 8.0 * f64::powi(2.0, -6),
                _ => (1.0 + fraction / 8.0) * f64::powi(2.0, exponent - 7),
            };
            let expected = if bits >> 7 == 0 {
                magnitude
            } else {
                -magnitude
            };
            let found = f64::from(e4m3(bits));
            match bits & 0x7f {
                0x7f => assert!(found.is_nan()),
                _ => assert_eq!(found.to_bits(), expected.to_bits(), "{bits:#x}"),
            }
        }
        assert_eq!(
            (e4m3(0x7e), e4m3(0x38), e4m3(0x01)),
            (448.0, 1.0, 1.0 / 512.0)
        );
    }
}
