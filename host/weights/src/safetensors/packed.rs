//! A quantized matrix by its tensors: numbers, scales, zero points, the order of groups.

use safetensors::tensor::Dtype;

use super::lookup::Weights;
use super::{Store, StoredTensor};
use crate::error::TensorError;
use crate::packed::{
    AWQ_PLACES, Float, Groups, Numbers, PackedFormat, PackedRows, STRAIGHT, Scales, Scheme, Words,
    Zeros,
};

/// How the tensor of a matrix's numbers may end, where a plain one ends in `.weight`.
const ENDINGS: [&str; 3] = [".qweight", ".weight_packed", ".weight"];

/// Finds the parts of one matrix.
struct Parts<'a, 'n> {
    store: &'a Store,
    /// What the names of all of them begin with.
    base: &'n str,
}

impl<'a> Weights {
    /// Whether a matrix is there, plain or quantized.
    pub(super) fn has(&self, name: &str) -> bool {
        let Some(base) = name.strip_suffix(".weight") else {
            return self.store.get(name).is_some();
        };
        let mut endings = ENDINGS.iter();
        endings.any(|ending| self.store.get(&format!("{base}{ending}")).is_some())
    }

    /// The matrix `name` of `rows` rows of `width` elements as `scheme` stores it; nothing if it is stored plainly.
    pub(super) fn packed(
        &'a self,
        name: &str,
        [rows, width]: [usize; 2],
        scheme: Scheme,
    ) -> Result<Option<PackedRows<'a>>, TensorError> {
        let Some(base) = name.strip_suffix(".weight") else {
            return Ok(None);
        };
        let parts = Parts {
            store: &self.store,
            base,
        };
        match scheme {
            Scheme::Gptq {
                bits,
                group,
                zeros_less_one,
            } if parts.has("qweight") => {
                let offset = i16::from(zeros_less_one);
                parts.gptq([rows, width], bits, group, offset).map(Some)
            }
            Scheme::Awq { group } if parts.has("qweight") => {
                parts.awq([rows, width], group).map(Some)
            }
            Scheme::CompressedWords {
                bits,
                group,
                has_zeros,
            } if parts.has("weight_packed") => parts
                .compressed_words([rows, width], bits, group, has_zeros)
                .map(Some),
            Scheme::CompressedBytes { group } if parts.dtype("weight") == Some(Dtype::I8) => {
                parts.compressed_bytes([rows, width], group).map(Some)
            }
            Scheme::Fp8 { block } if parts.dtype("weight") == Some(Dtype::F8_E4M3) => {
                parts.fp8([rows, width], block).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl<'a> Parts<'a, '_> {
    fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.base)
    }

    fn get(&self, part: &str) -> Option<StoredTensor<'a>> {
        self.store.get(&self.name(part))
    }

    fn has(&self, part: &str) -> bool {
        self.get(part).is_some()
    }

    fn dtype(&self, part: &str) -> Option<Dtype> {
        self.get(part).map(|stored| stored.dtype)
    }

    /// A part of this type and shape.
    fn part(&self, part: &str, dtype: Dtype, shape: &[usize]) -> Result<&'a [u8], TensorError> {
        let stored = self.get(part).ok_or_else(|| TensorError::Missing {
            name: self.name(part),
            expected: shape.to_vec(),
        })?;
        if stored.dtype != dtype {
            return Err(self.precision(
                part,
                stored.dtype,
                match dtype {
                    Dtype::I32 => "I32 for the words of quantized weights",
                    _ => "I8 or F8_E4M3 for quantized weights",
                },
            ));
        }
        if stored.shape != shape {
            return Err(self.shape(part, &stored, shape));
        }
        Ok(stored.bytes)
    }

    fn precision(&self, part: &str, found: Dtype, supported: &'static str) -> TensorError {
        TensorError::Precision {
            name: self.name(part),
            found: format!("{found:?}"),
            supported,
        }
    }

    fn shape(&self, part: &str, stored: &StoredTensor<'_>, expected: &[usize]) -> TensorError {
        TensorError::Shape {
            name: self.name(part),
            found: stored.shape.to_vec(),
            expected: expected.to_vec(),
        }
    }

    /// Scales in one of the shapes; also says in which.
    fn scales(
        &self,
        part: &str,
        shapes: &[&[usize]],
    ) -> Result<(&'a [u8], Float, usize), TensorError> {
        let stored = self.get(part).ok_or_else(|| TensorError::Missing {
            name: self.name(part),
            expected: shapes[0].to_vec(),
        })?;
        let float = match stored.dtype {
            Dtype::F32 => Float::F32,
            Dtype::F16 => Float::F16,
            Dtype::BF16 => Float::Bf16,
            other => return Err(self.precision(part, other, "F32, F16, BF16 for scales")),
        };
        match shapes.iter().position(|shape| stored.shape == *shape) {
            Some(shape) => Ok((stored.bytes, float, shape)),
            None => Err(self.shape(part, &stored, shapes[0])),
        }
    }

    /// How elements fall into groups of `size`; `order` names the part that lists them, if there is one.
    fn groups(
        &self,
        order: &str,
        width: usize,
        size: usize,
        groups: usize,
    ) -> Result<Groups, TensorError> {
        if !self.has(order) {
            return Ok(Groups::Even(size));
        }
        let bytes = self.part(order, Dtype::I32, &[width])?;
        let listed = bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b));
        let mut all = Vec::with_capacity(width);
        for (element, group) in listed.enumerate() {
            match u32::try_from(group) {
                Ok(number) if (number as usize) < groups => all.push(number),
                _ => {
                    return Err(TensorError::NoSuchGroup {
                        name: self.name(order),
                        element,
                        group,
                        groups,
                    });
                }
            }
        }
        let even = |(element, group): (usize, &u32)| element / size == *group as usize;
        if all.iter().enumerate().all(even) {
            return Ok(Groups::Even(size));
        }
        Ok(Groups::Listed(all))
    }

    /// Refuses sizes that words of `per` numbers do not divide.
    fn whole_words(&self, part: &str, size: usize, per: usize) -> Result<(), TensorError> {
        if size.is_multiple_of(per) {
            return Ok(());
        }
        Err(TensorError::Precision {
            name: self.name(part),
            found: format!("words of {per} numbers for {size}"),
            supported: "sizes that are multiples of the numbers of a word",
        })
    }

    fn gptq(
        &self,
        [rows, width]: [usize; 2],
        bits: u32,
        group: Option<usize>,
        offset: i16,
    ) -> Result<PackedRows<'a>, TensorError> {
        let per = 32 / bits as usize;
        self.whole_words("qweight", rows, per)?;
        self.whole_words("qweight", width, per)?;
        let size = group.unwrap_or(width);
        let groups = width.div_ceil(size);
        let numbers = self.part("qweight", Dtype::I32, &[width / per, rows])?;
        let zeros = self.part("qzeros", Dtype::I32, &[groups, rows / per])?;
        Ok(PackedRows {
            format: match bits {
                8 => PackedFormat::GptqInt8,
                _ => PackedFormat::GptqInt4,
            },
            rows,
            width,
            numbers: Numbers::Words(Words {
                bytes: numbers,
                bits,
                along_width: true,
                width_step: rows,
                row_step: 1,
                places: &STRAIGHT,
            }),
            zeros: Zeros::Words {
                words: Words {
                    bytes: zeros,
                    bits,
                    along_width: false,
                    width_step: rows / per,
                    row_step: 1,
                    places: &STRAIGHT,
                },
                offset,
            },
            scales: self.scales_by_group(rows, groups)?,
            groups: self.groups("g_idx", width, size, groups)?,
        })
    }

    fn awq(
        &self,
        [rows, width]: [usize; 2],
        group: Option<usize>,
    ) -> Result<PackedRows<'a>, TensorError> {
        let per = 8;
        self.whole_words("qweight", rows, per)?;
        let size = group.unwrap_or(width);
        let groups = width.div_ceil(size);
        let words = |bytes| Words {
            bytes,
            bits: 4,
            along_width: false,
            width_step: rows / per,
            row_step: 1,
            places: &AWQ_PLACES,
        };
        let numbers = self.part("qweight", Dtype::I32, &[width, rows / per])?;
        let zeros = self.part("qzeros", Dtype::I32, &[groups, rows / per])?;
        Ok(PackedRows {
            format: PackedFormat::AwqInt4,
            rows,
            width,
            numbers: Numbers::Words(words(numbers)),
            zeros: Zeros::Words {
                words: words(zeros),
                offset: 0,
            },
            scales: self.scales_by_group(rows, groups)?,
            groups: Groups::Even(size),
        })
    }

    /// Scales of GPTQ and AWQ: for each group those of all rows.
    fn scales_by_group(&self, rows: usize, groups: usize) -> Result<Scales<'a>, TensorError> {
        let (bytes, float, _) = self.scales("scales", &[&[groups, rows]])?;
        Ok(Scales {
            ending: ".scales",
            bytes,
            float,
            rows_of_block: 1,
            row_step: 1,
            group_step: rows,
        })
    }

    /// Scales of a whole matrix, of rows, or of groups of rows.
    fn group_scales(&self, rows: usize, groups: usize) -> Result<Scales<'a>, TensorError> {
        let shapes: [&[usize]; 3] = [&[rows, groups], &[1], &[]];
        let (bytes, float, shape) = self.scales("weight_scale", &shapes)?;
        let of_rows = shape == 0;
        Ok(Scales {
            ending: ".weight_scale",
            bytes,
            float,
            rows_of_block: 1,
            row_step: if of_rows { groups } else { 0 },
            group_step: usize::from(of_rows),
        })
    }

    fn compressed_words(
        &self,
        [rows, width]: [usize; 2],
        bits: u32,
        group: Option<usize>,
        has_zeros: bool,
    ) -> Result<PackedRows<'a>, TensorError> {
        let per = 32 / bits as usize;
        let size = group.unwrap_or(width);
        let groups = width.div_ceil(size);
        let row_words = width.div_ceil(per);
        let numbers = self.part("weight_packed", Dtype::I32, &[rows, row_words])?;
        // Files of symmetric weights have had them too.
        let zeros = if has_zeros || self.has("weight_zero_point") {
            let row_words = rows.div_ceil(per);
            let bytes = self.part("weight_zero_point", Dtype::I32, &[row_words, groups])?;
            Zeros::Words {
                words: Words {
                    bytes,
                    bits,
                    along_width: false,
                    width_step: 1,
                    row_step: groups,
                    places: &STRAIGHT,
                },
                offset: 0,
            }
        } else {
            Zeros::All(1 << (bits - 1))
        };
        Ok(PackedRows {
            format: match bits {
                8 => PackedFormat::CompressedInt8,
                _ => PackedFormat::CompressedInt4,
            },
            rows,
            width,
            numbers: Numbers::Words(Words {
                bytes: numbers,
                bits,
                along_width: true,
                width_step: 1,
                row_step: row_words,
                places: &STRAIGHT,
            }),
            zeros,
            scales: self.group_scales(rows, groups)?,
            groups: self.groups("weight_g_idx", width, size, groups)?,
        })
    }

    fn compressed_bytes(
        &self,
        [rows, width]: [usize; 2],
        group: Option<usize>,
    ) -> Result<PackedRows<'a>, TensorError> {
        // compressed-tensors wrote zeros for symmetric weights until its pull request 59, of May 2024.
        if let Some(stored) = self.get("weight_zero_point")
            && !stored.is_of_zeros()
        {
            let supported = "zeros, where numbers are whole bytes";
            return Err(self.precision("weight_zero_point", stored.dtype, supported));
        }
        let size = group.unwrap_or(width);
        let groups = width.div_ceil(size);
        let numbers = self.part("weight", Dtype::I8, &[rows, width])?;
        Ok(PackedRows {
            format: PackedFormat::CompressedInt8,
            rows,
            width,
            numbers: Numbers::Bytes(numbers),
            zeros: Zeros::All(0),
            scales: self.group_scales(rows, groups)?,
            groups: self.groups("weight_g_idx", width, size, groups)?,
        })
    }

    fn fp8(
        &self,
        [rows, width]: [usize; 2],
        block: Option<[usize; 2]>,
    ) -> Result<PackedRows<'a>, TensorError> {
        let numbers = self.part("weight", Dtype::F8_E4M3, &[rows, width])?;
        let (part, ending) = match self.has("weight_scale_inv") {
            true => ("weight_scale_inv", ".weight_scale_inv"),
            false => ("weight_scale", ".weight_scale"),
        };
        let (scales, groups) = match block {
            Some([high, wide]) => {
                let (down, across) = (rows.div_ceil(high), width.div_ceil(wide));
                let (bytes, float, _) = self.scales(part, &[&[down, across]])?;
                let scales = Scales {
                    ending,
                    bytes,
                    float,
                    rows_of_block: high,
                    row_step: across,
                    group_step: 1,
                };
                (scales, Groups::Even(wide))
            }
            None => {
                let shapes: [&[usize]; 5] = [&[rows, 1], &[rows], &[1], &[], &[1, 1]];
                let (bytes, float, shape) = self.scales(part, &shapes)?;
                let scales = Scales {
                    ending,
                    bytes,
                    float,
                    rows_of_block: 1,
                    row_step: usize::from(shape < 2),
                    group_step: 0,
                };
                (scales, Groups::Even(width))
            }
        };
        Ok(PackedRows {
            format: PackedFormat::Fp8,
            rows,
            width,
            numbers: Numbers::Floats(numbers),
            zeros: Zeros::All(0),
            scales,
            groups,
        })
    }
}
