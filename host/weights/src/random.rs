//! Weights that are made up, row by row, for benches and tests: the same seed makes the same model, and nothing but the
//! row that is asked for is held in memory.

use half::{bf16, f16};

use crate::format::{Format, GROUP, SUPER_BLOCK};

/// The rows of one made-up tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomRows {
    /// Of the model.
    pub(crate) seed: u64,
    /// Tells the tensors of a model apart.
    pub(crate) tensor: u64,
    /// Mean of the elements.
    pub(crate) mean: f32,
    /// Standard deviation of the elements.
    pub(crate) deviation: f32,
}

impl RandomRows {
    /// The stored bytes of row `row`, `width` elements in `format`.
    ///
    /// Floats are uniform about the mean. Quantized numbers are uniform over their range (an end of it left out where
    /// the mean would not be 0) under one scale, and their mean is 0 whatever was asked.
    pub(crate) fn stored(&self, format: Format, row: usize, width: usize) -> Vec<u8> {
        let mut bits = Bits::new(self.seed, self.tensor, row as u64);
        let mut bytes = Vec::with_capacity(format.row_bytes(width));
        // A uniform number in -1..1 has the deviation 1/sqrt(3).
        let spread = self.deviation * 3f32.sqrt();
        let mut float = || {
            let unit = (bits.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            self.mean + spread * unit
        };
        match format {
            Format::F32 => (0..width).for_each(|_| bytes.extend(float().to_le_bytes())),
            Format::F16 => {
                (0..width).for_each(|_| bytes.extend(f16::from_f32(float()).to_le_bytes()))
            }
            Format::Bf16 => {
                (0..width).for_each(|_| bytes.extend(bf16::from_f32(float()).to_le_bytes()))
            }
            // q uniform in -127..=127 has the deviation sqrt((255² - 1) / 12) = 73.6.
            Format::Int8 => {
                let scale = f16::from_f32(self.deviation / 73.6).to_le_bytes();
                for _ in 0..width / GROUP {
                    bytes.extend(scale);
                    bits.bytes(GROUP, &mut bytes, |b| if b == 0x80 { 0 } else { b });
                }
            }
            // q - 8 in -7..=7, 0 twice as often as the others, has the deviation sqrt(2 · 140 / 16) = 4.18.
            Format::Int4 => {
                let scale = f16::from_f32(self.deviation / 4.18).to_le_bytes();
                for _ in 0..width / GROUP {
                    bytes.extend(scale);
                    bits.bytes(GROUP / 2, &mut bytes, |b| {
                        let low = if b & 0x0f == 0 { b | 0x08 } else { b };
                        if low & 0xf0 == 0 { low | 0x80 } else { low }
                    });
                }
            }
            // q - 7.5 uniform over 16 values has the deviation sqrt((16² - 1) / 12) = 4.61; all s are 32 and all m 60.
            Format::Q4K => {
                const S: u8 = 32;
                const M: u8 = 60;
                let d = self.deviation / (4.61 * f32::from(S));
                let minimum = d * f32::from(S) * 7.5 / f32::from(M);
                for _ in 0..width / SUPER_BLOCK {
                    bytes.extend(f16::from_f32(d).to_le_bytes());
                    bytes.extend(f16::from_f32(minimum).to_le_bytes());
                    // s and m of groups 0..4 are whole bytes; of groups 4..8 the low four bits stand in the last four
                    // bytes and the upper two above those of groups 0..4.
                    bytes.extend([S | ((S >> 4) << 6); 4]);
                    bytes.extend([M | ((M >> 4) << 6); 4]);
                    bytes.extend([(S & 15) | ((M & 15) << 4); 4]);
                    bits.bytes(SUPER_BLOCK / 2, &mut bytes, |b| b);
                }
            }
            // q - 32 uniform over 64 values has the deviation sqrt((64² - 1) / 12) = 18.5; all s are 64.
            Format::Q6K => {
                for _ in 0..width / SUPER_BLOCK {
                    bits.bytes(SUPER_BLOCK * 3 / 4, &mut bytes, |b| b);
                    bytes.extend([64; SUPER_BLOCK / 16]);
                    bytes.extend(f16::from_f32(self.deviation / (18.5 * 64.0)).to_le_bytes());
                }
            }
        }
        bytes
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Bits(u64);

impl Bits {
    fn new(seed: u64, tensor: u64, row: u64) -> Bits {
        let mut bits = Bits(seed);
        for part in [tensor, row] {
            bits.0 = bits.next() ^ part;
        }
        bits.0 = bits.next();
        bits
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Appends `count` bytes, a multiple of 8, each changed by `change`.
    fn bytes(&mut self, count: usize, out: &mut Vec<u8>, change: impl Fn(u8) -> u8) {
        for _ in 0..count / 8 {
            out.extend(self.next().to_le_bytes().map(&change));
        }
    }
}
