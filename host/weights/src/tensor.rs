//! The rows of a tensor, whatever it is stored in.

use std::borrow::Cow;

use crate::error::TensorError;
use crate::format::{self, Format, RowParts, StoredFormat};
use crate::packed::{PackedRows, Stored};
use crate::random::RandomRows;
use crate::reencoding::Losses;
use crate::safetensors::SCALE_SUFFIX;

/// One tensor of a checkpoint, in the orientation and order of the transformers library.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    pub(crate) name: String,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) format: Format,
    pub(crate) layout: Layout<'a>,
    pub(crate) order: Order,
}

/// Where the rows of a tensor lie.
#[derive(Clone, Debug)]
pub(crate) enum Layout<'a> {
    /// Row after row, each as its format says; `bytes` holds all rows of the stored tensor.
    Rows { bytes: &'a [u8] },
    /// A matrix of floats with its rows and columns the other way round: `bytes` holds `[width, columns]`, and rows of the tensor
    /// are columns of that.
    Turned { bytes: &'a [u8], columns: usize },
    /// Values and scales in two tensors, row after row: this project's int8 and int4.
    Apart { values: &'a [u8], scales: &'a [u8] },
    /// Made on demand.
    Random(RandomRows),
    /// Encoded on demand from the rows of another, which are in its order already.
    Encoded(Box<Tensor<'a>>),
    /// Row after row in a format that rows are not handed on in, encoded on demand.
    Reencoded {
        /// All rows of the stored tensor.
        bytes: &'a [u8],
        stored: StoredFormat,
        /// Where it is counted what rows lose by that.
        losses: Option<&'a Losses>,
    },
    /// Numbers, scales and zero points in tensors of their own, encoded on demand.
    Packed {
        rows: Box<PackedRows<'a>>,
        /// Where it is counted what rows lose by that.
        losses: &'a Losses,
    },
}

/// Rows of a fused tensor.
pub(crate) struct Slice {
    pub(crate) rows: usize,
    pub(crate) first: usize,
    /// From one row to the next.
    pub(crate) step: usize,
}

impl Slice {
    pub(crate) fn order(&self) -> Order {
        Order {
            first: self.first,
            step: self.step,
            interleaved_head: None,
        }
    }
}

/// Which stored row is row `r` of the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Stored rows before the first: the tensor is a slice of a fused one.
    pub(crate) first: usize,
    /// Stored rows from one to the next: 2 where the rows of two tensors come in turn.
    pub(crate) step: usize,
    /// Width of a head whose rows (or elements of a bias) are stored with the two halves interleaved, as GGUF files of
    /// the llama architecture do.
    pub(crate) interleaved_head: Option<usize>,
}

impl Order {
    pub(crate) const STRAIGHT: Order = Order {
        first: 0,
        step: 1,
        interleaved_head: None,
    };

    /// The stored index of row (or element) `index`.
    ///
    /// llama.cpp's converter stores row `half · head/2 + i` of a head at `2 · i + half` (`LlamaModel.permute` in
    /// `convert_hf_to_gguf.py`).
    fn stored(self, index: usize) -> usize {
        let straight = match self.interleaved_head {
            None => index,
            Some(head) => {
                let (before, within, half) = (index / head * head, index % head, head / 2);
                before + 2 * (within % half) + within / half
            }
        };
        self.first + straight * self.step
    }
}

impl<'a> Tensor<'a> {
    /// A tensor of no file: `rows` rows of `width` elements, stored one after another as `format` says. `None` where the width
    /// is no multiple of the format's block or the bytes are not so many.
    #[must_use]
    pub fn in_memory(
        name: &str,
        format: Format,
        rows: usize,
        width: usize,
        bytes: &'a [u8],
    ) -> Option<Tensor<'a>> {
        let whole = width.is_multiple_of(format.block());
        (whole && rows.checked_mul(format.row_bytes(width))? == bytes.len()).then(|| Tensor {
            name: name.to_owned(),
            rows,
            width,
            format,
            layout: Layout::Rows { bytes },
            order: Order::STRAIGHT,
        })
    }
}

impl<'a> Tensor<'a> {
    /// As [`Tensor::in_memory`], of rows that are stored in any format that is read.
    #[must_use]
    pub fn stored_in_memory(
        name: &str,
        stored: StoredFormat,
        rows: usize,
        width: usize,
        bytes: &'a [u8],
    ) -> Option<Tensor<'a>> {
        let whole = width.is_multiple_of(stored.block());
        (whole && rows.checked_mul(stored.row_bytes(width))? == bytes.len()).then(|| Tensor {
            name: name.to_owned(),
            rows,
            width,
            format: stored.handed_on(),
            layout: Layout::of_rows(bytes, stored, None),
            order: Order::STRAIGHT,
        })
    }
}

impl<'a> Tensor<'a> {
    /// A matrix that another tool quantized, or some rows of it.
    pub(crate) fn packed(
        name: String,
        packed: PackedRows<'a>,
        slice: Option<Slice>,
        losses: &'a Losses,
    ) -> Tensor<'a> {
        let slice = slice.unwrap_or(Slice {
            rows: packed.rows,
            first: 0,
            step: 1,
        });
        Tensor {
            name,
            rows: slice.rows,
            width: packed.width,
            format: packed.handed_on(),
            layout: Layout::Packed {
                rows: Box::new(packed),
                losses,
            },
            order: slice.order(),
        }
    }
}

impl<'a> Layout<'a> {
    /// Rows one after another.
    pub(crate) fn of_rows(
        bytes: &'a [u8],
        stored: StoredFormat,
        losses: Option<&'a Losses>,
    ) -> Layout<'a> {
        match stored {
            StoredFormat::Kept(_) => Layout::Rows { bytes },
            stored => Layout::Reencoded {
                bytes,
                stored,
                losses,
            },
        }
    }
}

impl<'a> Tensor<'a> {
    /// The same rows with nothing lost: what is not handed on as it is stored becomes f32.
    pub(crate) fn exact(self) -> Tensor<'a> {
        match self.layout {
            Layout::Reencoded { .. } | Layout::Packed { .. } => Tensor {
                format: Format::F32,
                ..self
            },
            _ => self,
        }
    }

    /// The same rows in `format`, one of those that rows can be encoded to ([`Format::F32`], [`Format::F16`],
    /// [`Format::Int8`] or [`Format::Int4`]); the tensor itself if it is stored so. The width must be a multiple of the
    /// format's block. Rows are encoded when they are read, each time anew.
    pub(crate) fn encoded(self, format: Format) -> Tensor<'a> {
        if self.format == format {
            return self;
        }
        let exact = self.exact();
        if exact.format == format {
            return exact;
        }
        Tensor {
            name: exact.name.clone(),
            rows: exact.rows,
            width: exact.width,
            format,
            layout: Layout::Encoded(Box::new(exact)),
            order: Order::STRAIGHT,
        }
    }
}

impl Tensor<'_> {
    /// The name it has in its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of all tensors of its files that its rows are made from.
    pub(crate) fn names(&self) -> Vec<String> {
        match &self.layout {
            Layout::Encoded(source) => source.names(),
            Layout::Apart { .. } => {
                vec![self.name.clone(), format!("{}{SCALE_SUFFIX}", self.name)]
            }
            Layout::Packed { rows, .. } => {
                let ends = [".weight", "_blocks"];
                let base = ends.iter().find_map(|end| self.name.strip_suffix(end));
                let base = base.unwrap_or(&self.name);
                let endings = rows.endings();
                endings.map(|ending| format!("{base}{ending}")).collect()
            }
            Layout::Rows { .. }
            | Layout::Turned { .. }
            | Layout::Random(_)
            | Layout::Reencoded { .. } => vec![self.name.clone()],
        }
    }

    /// Rows; 1 for a tensor of one dimension.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// What rows are handed on in; where they are stored otherwise they are encoded when they are read.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// How the elements lie in the file.
    #[must_use]
    pub fn stored(&self) -> Stored {
        match &self.layout {
            Layout::Reencoded { stored, .. } => Stored::Blocks(*stored),
            Layout::Encoded(source) => source.stored(),
            Layout::Packed { rows, .. } => Stored::Packed(rows.format),
            Layout::Rows { .. }
            | Layout::Turned { .. }
            | Layout::Apart { .. }
            | Layout::Random(_) => Stored::Blocks(StoredFormat::Kept(self.format)),
        }
    }

    /// Bytes of all rows as they are handed on, scales included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows as u64 * self.format.row_bytes(self.width) as u64
    }

    /// Bytes of all rows as they are stored, scales included.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        match &self.layout {
            Layout::Packed { rows, .. } => {
                rows.bytes() * self.rows as u64 / rows.rows.max(1) as u64
            }
            Layout::Encoded(source) => source.stored_bytes(),
            Layout::Reencoded { stored, .. } => {
                self.rows as u64 * stored.row_bytes(self.width) as u64
            }
            Layout::Rows { .. }
            | Layout::Turned { .. }
            | Layout::Apart { .. }
            | Layout::Random(_) => self.bytes(),
        }
    }

    /// Row `row`, dequantized into `out` (`[width]`), which is cleared first.
    ///
    /// # Errors
    /// There is no such row, or an element (or the scale it is made with) is not finite.
    pub fn read_row(&self, row: usize, out: &mut Vec<f32>) -> Result<(), TensorError> {
        out.clear();
        match self.stored_row(row)? {
            Row::Whole(bytes) => format::decode(self.format, &bytes, out),
            Row::Apart { values, scales } => {
                format::decode_apart(self.format, &values, &scales, out)
            }
        }
        if let Some(element) = out.iter().position(|value| !value.is_finite()) {
            return Err(self.not_finite(row, element, out[element]));
        }
        if self.elements_are_interleaved() {
            let stored = out.clone();
            for (index, element) in out.iter_mut().enumerate() {
                *element = stored[self.order.stored(index)];
            }
        }
        Ok(())
    }

    /// The stored numbers of row `row`, each kind apart, into `parts`, which is cleared first.
    ///
    /// # Errors
    /// As [`Tensor::read_row`].
    pub fn row_parts(&self, row: usize, parts: &mut RowParts) -> Result<(), TensorError> {
        parts.clear();
        match self.stored_row(row)? {
            Row::Whole(bytes) => format::split(self.format, &bytes, parts),
            Row::Apart { values, scales } => {
                parts.values.extend_from_slice(&values);
                parts.scales.extend_from_slice(&scales);
            }
        }
        if let Some((element, value)) = format::not_finite(self.format, parts) {
            return Err(self.not_finite(row, element, value));
        }
        if self.elements_are_interleaved() {
            let size = self.format.row_bytes(1);
            let stored = parts.values.clone();
            for (index, element) in parts.values.chunks_exact_mut(size).enumerate() {
                let from = self.order.stored(index) * size;
                element.copy_from_slice(&stored[from..from + size]);
            }
        }
        Ok(())
    }

    /// Reads every row once and finds the first element that is not finite.
    ///
    /// # Errors
    /// As [`Tensor::read_row`].
    pub fn check_finite(&self) -> Result<(), TensorError> {
        let mut row = Vec::with_capacity(self.width);
        (0..self.rows).try_for_each(|index| self.read_row(index, &mut row))
    }

    /// All elements, `[rows, width]`, dequantized.
    ///
    /// # Errors
    /// As [`Tensor::read_row`].
    pub fn to_f32(&self) -> Result<Vec<f32>, TensorError> {
        let mut all = Vec::with_capacity(self.rows * self.width);
        let mut row = Vec::with_capacity(self.width);
        for index in 0..self.rows {
            self.read_row(index, &mut row)?;
            all.extend_from_slice(&row);
        }
        Ok(all)
    }

    fn stored_row(&self, row: usize) -> Result<Row<'_>, TensorError> {
        let beyond = || TensorError::NoSuchRow {
            name: self.name.clone(),
            row,
            rows: self.rows,
        };
        if row >= self.rows {
            return Err(beyond());
        }
        let stored = if self.rows == 1 {
            self.order.first
        } else {
            self.order.stored(row)
        };
        let slice = |bytes: &'_ [u8], size: usize| -> Option<std::ops::Range<usize>> {
            let start = stored.checked_mul(size)?;
            let end = start.checked_add(size)?;
            (end <= bytes.len()).then_some(start..end)
        };
        match &self.layout {
            Layout::Rows { bytes } => {
                let range = slice(bytes, self.format.row_bytes(self.width)).ok_or_else(beyond)?;
                Ok(Row::Whole(Cow::Borrowed(&bytes[range])))
            }
            Layout::Turned { bytes, columns } => {
                let size = self.format.row_bytes(1);
                let elements = bytes.chunks_exact(size).skip(stored).step_by(*columns);
                let gathered: Vec<u8> = elements.take(self.width).flatten().copied().collect();
                if stored >= *columns || gathered.len() != self.width * size {
                    return Err(beyond());
                }
                Ok(Row::Whole(Cow::Owned(gathered)))
            }
            Layout::Apart { values, scales } => {
                let (value_bytes, scale_bytes) = self.format.apart_bytes(self.width);
                Ok(Row::Apart {
                    values: Cow::Borrowed(&values[slice(values, value_bytes).ok_or_else(beyond)?]),
                    scales: Cow::Borrowed(&scales[slice(scales, scale_bytes).ok_or_else(beyond)?]),
                })
            }
            Layout::Random(random) => {
                let bytes = random.stored(self.format, stored, self.width);
                Ok(Row::Whole(Cow::Owned(bytes)))
            }
            Layout::Encoded(source) => {
                let mut floats = Vec::with_capacity(self.width);
                source.read_row(row, &mut floats)?;
                Ok(self.encode(&floats))
            }
            Layout::Reencoded {
                bytes,
                stored: format,
                losses,
            } => {
                let range = slice(bytes, format.row_bytes(self.width)).ok_or_else(beyond)?;
                let row_bytes = &bytes[range];
                let mut floats = Vec::with_capacity(self.width);
                format::decode_stored(*format, row_bytes, &mut floats);
                if let Some(element) = floats.iter().position(|value| !value.is_finite()) {
                    return Err(self.not_finite(row, element, floats[element]));
                }
                if self.format.is_float() {
                    return Ok(self.encode(&floats));
                }
                let (mut values, mut scales) = (Vec::new(), Vec::new());
                format::reencode(*format, row_bytes, &floats, &mut values, &mut scales);
                if let Some(losses) = losses {
                    let mut after = Vec::with_capacity(self.width);
                    format::decode_apart(self.format, &values, &scales, &mut after);
                    let way = (Stored::Blocks(*format), self.format);
                    losses.add(way, &self.name, &floats, &after);
                }
                Ok(Row::Apart {
                    values: Cow::Owned(values),
                    scales: Cow::Owned(scales),
                })
            }
            Layout::Packed { rows, losses } => {
                if stored >= rows.rows {
                    return Err(beyond());
                }
                let (mut floats, mut numbers) = (Vec::with_capacity(self.width), Vec::new());
                rows.decode(stored, &mut floats, &mut numbers);
                if let Some(element) = floats.iter().position(|value| !value.is_finite()) {
                    return Err(self.not_finite(row, element, floats[element]));
                }
                if self.format.is_float() {
                    return Ok(self.encode(&floats));
                }
                let (mut values, mut scales) = (Vec::new(), Vec::new());
                let decoded = (floats.as_slice(), numbers.as_slice());
                rows.encode(self.format, stored, decoded, &mut values, &mut scales);
                let mut after = Vec::with_capacity(self.width);
                format::decode_apart(self.format, &values, &scales, &mut after);
                losses.add((self.stored(), self.format), &self.name, &floats, &after);
                Ok(Row::Apart {
                    values: Cow::Owned(values),
                    scales: Cow::Owned(scales),
                })
            }
        }
    }

    /// A row of floats in this tensor's format.
    fn encode(&self, floats: &[f32]) -> Row<'static> {
        if self.format.is_float() {
            let mut bytes = Vec::with_capacity(self.format.row_bytes(self.width));
            format::encode_floats(self.format, floats, &mut bytes);
            return Row::Whole(Cow::Owned(bytes));
        }
        let (mut values, mut scales) = (Vec::new(), Vec::new());
        format::encode_groups(self.format, floats, &mut values, &mut scales);
        Row::Apart {
            values: Cow::Owned(values),
            scales: Cow::Owned(scales),
        }
    }

    /// A bias of one dimension has its elements where a matrix has its rows.
    fn elements_are_interleaved(&self) -> bool {
        self.rows == 1 && self.order.interleaved_head.is_some()
    }

    /// `row` as it was asked for and `element` as it is stored, told as they are in the file.
    fn not_finite(&self, row: usize, element: usize, value: f32) -> TensorError {
        TensorError::NotFinite {
            name: self.name.clone(),
            row: if self.rows == 1 {
                0
            } else {
                self.order.stored(row)
            },
            element,
            value,
        }
    }
}

/// A stored row.
enum Row<'a> {
    Whole(Cow<'a, [u8]>),
    Apart {
        values: Cow<'a, [u8]>,
        scales: Cow<'a, [u8]>,
    },
}
