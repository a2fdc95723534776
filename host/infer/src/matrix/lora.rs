//! Low-rank adapters of a matrix on the device: those of all slots one after another, and products with them.

use tidegate_weights::{LayerTensor, Lora, LowRank, TensorError};

use super::{BeforeNorm, HeadsOutput, Packing, padded, squares_of};
use crate::buffer::Buffer;
use crate::kernels::{Kernel, KvBuffers, LoraKernel, Store};
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::site::Site;
use crate::touch::{Area, Touch};

/// Matrices that are multiplied together at most.
const MOST_TOGETHER: usize = 3;

/// Words of a slot: `shaders/lora/slots.wgsl`.
const SLOT_WORDS: usize = 8;

/// The adapters of a matrix, to be packed: of each slot the ranks of what is multiplied together.
pub(crate) struct LoraPacking<'a> {
    loras: &'a [Lora],
    layer: usize,
    parts: &'a [LayerTensor],
    /// Whether the rows of two come in turn.
    in_turn: bool,
    columns: usize,
    width: usize,
    /// Columns where each ends, if they lie beside each other.
    ends: [usize; MOST_TOGETHER],
}

/// The same on the device.
#[derive(Debug)]
pub(crate) struct LoraMatrix {
    a: Buffer,
    b: Buffer,
    slots: Buffer,
    columns: usize,
    width: usize,
    ends: [usize; MOST_TOGETHER],
    in_turn: bool,
    /// Numbers of A x at most.
    pub(crate) most: usize,
}

impl LoraMatrix {
    /// Of buffers that are as [`LoraPacking::read`] leaves them: `[A, B, slots]`, `[width, columns]`, where matrices end and
    /// whether they come in turn, and numbers of A x at most.
    pub(crate) fn of_buffers(
        [a, b, slots]: [Buffer; 3],
        [width, columns]: [usize; 2],
        (ends, in_turn): ([usize; MOST_TOGETHER], bool),
        most: usize,
    ) -> LoraMatrix {
        LoraMatrix {
            a,
            b,
            slots,
            columns,
            width,
            ends,
            in_turn,
            most,
        }
    }
}

impl<'a> LoraPacking<'a> {
    /// Adapters of what `matrix` is packed of: `parts`, in the order of its tensors. None where no adapter has any of them.
    pub(crate) fn of(
        loras: &'a [Lora],
        layer: usize,
        parts: &'a [LayerTensor],
        matrix: &Packing<'_>,
    ) -> Option<LoraPacking<'a>> {
        let adapts = |lora: &Lora| parts.iter().any(|part| lora.rank(layer, *part) > 0);
        if !loras.iter().any(adapts) {
            return None;
        }
        let in_turn = matches!(parts, [LayerTensor::Gate, LayerTensor::Up]);
        let columns = matrix.columns();
        let mut ends = [columns; MOST_TOGETHER];
        if !in_turn {
            for column in 0..columns {
                if let Some((tensor, _)) = matrix.place(column) {
                    ends[tensor..].fill((column + 1).next_multiple_of(4));
                }
            }
        }
        Some(LoraPacking {
            loras,
            layer,
            parts,
            in_turn,
            columns,
            width: matrix.width(),
            ends,
        })
    }

    /// The ranks that a slot has of what is multiplied together.
    fn ranks(&self, lora: &Lora) -> [usize; MOST_TOGETHER] {
        let mut ranks = [0; MOST_TOGETHER];
        for (rank, part) in ranks.iter_mut().zip(self.parts) {
            *rank = lora.rank(self.layer, *part);
        }
        if self.in_turn {
            let most = ranks[0].max(ranks[1]);
            ranks = [most, most, 0];
        }
        ranks
    }

    /// Columns of each of what lies beside each other; of two in turn all columns are the first's.
    fn columns_of(&self, place: usize) -> usize {
        match place {
            0 => self.ends[0],
            _ => self.ends[place] - self.ends[place - 1],
        }
    }

    /// Numbers of A x at most.
    pub(crate) fn most(&self) -> usize {
        let all = |lora| self.ranks(lora).iter().sum();
        self.loras.iter().map(all).max().unwrap_or(0)
    }

    /// Columns of the matrix.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Elements of a slot's A and B.
    fn elements(&self, lora: &Lora) -> [usize; 2] {
        let ranks = self.ranks(lora);
        let b = match self.in_turn {
            true => ranks[0] * self.columns,
            false => (0..MOST_TOGETHER)
                .map(|of| ranks[of] * self.columns_of(of))
                .sum(),
        };
        [ranks.iter().sum::<usize>() * self.width, b]
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let elements: usize = self.loras.iter().flat_map(|lora| self.elements(lora)).sum();
        ((elements + self.loras.len() * SLOT_WORDS) * 4) as u64
    }

    /// Bytes of the largest buffer.
    pub(crate) fn largest(&self) -> u64 {
        let of = |which: usize| {
            self.loras
                .iter()
                .map(|lora| self.elements(lora)[which])
                .sum()
        };
        let largest: usize = [of(0), of(1)].into_iter().max().unwrap_or(0);
        (largest * 4) as u64
    }

    /// Reads and uploads them for a matrix that is packed so. `bytes` is the size of the whole model, for errors.
    pub(crate) fn upload(
        &self,
        site: Site<'_>,
        matrix: &Packing<'_>,
        bytes: u64,
    ) -> Result<LoraMatrix, LoadError> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut slots = Vec::new();
        let mut places = [0, 0];
        for lora in self.loras {
            let ranks = self.ranks(lora);
            let rank: usize = ranks.iter().sum();
            let starts = places.map(|elements| (elements / 4) as u32);
            slots.extend([starts[0], starts[1], rank as u32, 0]);
            slots.extend(ranks.map(|rank| rank as u32));
            slots.push(0);
            let elements = self.elements(lora);
            if let Site::Device(_) = site {
                a.resize(places[0] + elements[0], 0.0);
                b.resize(places[1] + elements[1], 0.0);
                self.read(lora, matrix, (&mut a[places[0]..], &mut b[places[1]..]))?;
            }
            places = [places[0] + elements[0], places[1] + elements[1]];
        }
        let filled = |what: &str, values: &[f32], elements: usize| -> Result<Buffer, LoadError> {
            match site {
                Site::Device(_) => site
                    .filled(what, bytemuck::cast_slice(values))
                    .map_err(|error| LoadError::from_wait(error, bytes)),
                Site::Paper(_) => Ok(Buffer::planned(what, (elements * 4) as u64)),
            }
        };
        let slots = site
            .filled("slots of adapters", bytemuck::cast_slice(&slots))
            .map_err(|error| LoadError::from_wait(error, bytes))?;
        Ok(LoraMatrix {
            a: filled("A of adapters", &a, places[0])?,
            b: filled("B of adapters", &b, places[1])?,
            slots,
            columns: self.columns,
            width: self.width,
            ends: self.ends,
            in_turn: self.in_turn,
            most: self.most(),
        })
    }

    /// Puts what a slot has where kernels read it: A as `[width / 4, rank]` of four elements, with the padding of the matrix's
    /// input; B times the scale as `[rank, columns / 4]` of four columns of each matrix, in the order of the matrix's columns.
    fn read(
        &self,
        lora: &Lora,
        matrix: &Packing<'_>,
        (a, b): (&mut [f32], &mut [f32]),
    ) -> Result<(), LoadError> {
        let wrong = |source| LoadError::Lora {
            path: lora.path().to_owned(),
            source,
        };
        let ranks = self.ranks(lora);
        let rank: usize = ranks.iter().sum();
        let block = matrix.block().max(1);
        let (mut row, mut low_before, mut b_before, mut column_before) = (Vec::new(), 0, 0, 0);
        for (of, part) in self.parts.iter().enumerate() {
            let columns = match self.in_turn {
                true => self.columns,
                false => self.columns_of(of),
            };
            if let Some(pair) = lora.low_rank(self.layer, *part).map_err(wrong)? {
                let LowRank {
                    a: of_a,
                    b: of_b,
                    scale,
                } = &pair;
                for place in 0..of_a.rows() {
                    of_a.read_row(place, &mut row).map_err(wrong)?;
                    for (index, value) in row.iter().enumerate() {
                        let at = index / block * padded(block) + index % block;
                        a[((at / 4) * rank + low_before + place) * 4 + at % 4] = *value;
                    }
                }
                for column in column_before..column_before + columns {
                    let Some((_, from)) = matrix.place(column).filter(|(tensor, _)| *tensor == of)
                    else {
                        continue;
                    };
                    of_b.read_row(from, &mut row).map_err(wrong)?;
                    let at = column - column_before;
                    for (place, value) in row.iter().enumerate() {
                        let scaled = (f64::from(*value) * scale) as f32;
                        if !scaled.is_finite() {
                            return Err(wrong(TensorError::NotFinite {
                                name: format!("{} times {scale}", of_b.name()),
                                row: from,
                                element: place,
                                value: scaled,
                            }));
                        }
                        b[b_before + (place * (columns / 4) + at / 4) * 4 + at % 4] = scaled;
                    }
                }
            }
            low_before += ranks[of];
            if !self.in_turn {
                b_before += ranks[of] * columns;
                column_before += columns;
            }
        }
        Ok(())
    }
}

/// The buffers that products with adapters share.
#[derive(Debug)]
pub(crate) struct LoraRows {
    /// Which adapter rows have: `[rows, 2]`, as `shaders/lora/slots.wgsl` says.
    pub(crate) adapted: Buffer,
    /// A x: `[rows, stride]`.
    pub(crate) low: Buffer,
    /// Numbers of a row of that.
    pub(crate) stride: usize,
    /// Sums of a product that are gated, or become heads, behind it.
    pub(crate) raw: Option<Buffer>,
}

/// Where what an adapter makes goes.
#[derive(Clone, Copy)]
pub(crate) enum LoraOutput<'a> {
    /// It is added to what is there: `[rows, columns]`.
    Sums(&'a Buffer),
    /// It is added to the stream; the weights of the norm that is next, and what is left of that.
    Stream(&'a Buffer, (&'a Buffer, BeforeNorm<'a>)),
    /// It and raw sums are gated.
    Gated(&'a Buffer, Store, &'a Buffer),
    /// It and raw sums are heads.
    Heads(HeadsOutput<'a>, &'a Buffer),
}

impl Builder<'_> {
    /// A x of rows that have an adapter. The input may be before a norm, whose true width and epsilon are given.
    pub(crate) fn shrink(
        &mut self,
        of: &LoraMatrix,
        rows: &LoraRows,
        input: &Buffer,
        squares: Option<(&Buffer, (usize, f64))>,
    ) -> Result<(), LoadError> {
        let kernel = LoraKernel::shrink(self.kernels.base, squares.is_some());
        let (norm_width, epsilon) = squares.map_or((0, 0.0), |(_, of_norm)| of_norm);
        let norm = [norm_width as f32, epsilon as f32].map(f32::to_bits);
        let parameters = [(of.width / 4) as u32, rows.stride as u32, norm[0], norm[1]];
        let parameters = self.uniform("shrink", &parameters);
        let count = Count::Adapted;
        let grid = [
            Axis::Columns((of.most as u32).div_ceil(kernel.across())),
            Axis::Per { of: count, each: 1 },
            Axis::Fixed(1),
        ];
        let mut buffers = vec![
            &of.a,
            input,
            &rows.low,
            &parameters,
            &rows.adapted,
            &of.slots,
        ];
        buffers.extend(squares.map(|(squares, _)| squares));
        let row = (of.width * 4) as u64;
        // How many slots a step has is not known: each is taken to be read once.
        let mut touches = vec![
            Touch::read(0, Area::Columns(of.a.size())),
            Touch::read(1, Area::Rows(row)),
            Touch::write(2, Area::Cells((of.most * 4) as u64)),
            Touch::read(4, Area::Rows(16)),
            Touch::read(5, Area::All(of.slots.size())),
        ];
        if squares.is_some() {
            let row = (squares_of(of.width) * 4) as u64;
            touches.push(Touch::read(6, Area::Rows(row)));
        }
        let work = Work::Rows((of.most * of.width) as u64);
        let choice = SizedKernel::always(Kernel::Lora(kernel), grid);
        self.dispatch(count, &[choice], &buffers, work, &touches)
    }

    /// B (A x) of rows that have an adapter, behind the product that it adapts.
    pub(crate) fn expand(
        &mut self,
        of: &LoraMatrix,
        rows: &LoraRows,
        output: LoraOutput<'_>,
    ) -> Result<(), LoadError> {
        let (mut next, mut heads) = (None, None);
        let (to, store, raw) = match output {
            LoraOutput::Sums(sums) => (sums, Store::Residual, None),
            LoraOutput::Stream(stream, of) => {
                next = Some(of);
                (stream, Store::Stream, None)
            }
            LoraOutput::Gated(to, store, raw) => (to, store, Some(raw)),
            LoraOutput::Heads(of, raw) => {
                heads = Some(of);
                (of.queries, Store::Heads(of.heads.kv), Some(raw))
            }
        };
        // Raw sums are those of all rows.
        let count = match raw {
            Some(_) => Count::Mixed,
            None => Count::Adapted,
        };
        let columns4 = (of.columns / 4) as u32;
        let ends = of.ends.map(|end| (end / 4) as u32);
        let parameters = [
            columns4,
            columns4,
            0,
            rows.stride as u32,
            ends[0],
            ends[1],
            ends[2],
            u32::from(of.in_turn),
        ];
        let parameters = self.uniform("expand", &parameters);
        let kernel = LoraKernel::Expand { store };
        let grid = [
            Axis::Columns(columns4.div_ceil(kernel.across())),
            Axis::Per { of: count, each: 1 },
            Axis::Fixed(1),
        ];
        let mut buffers = vec![&of.b, &rows.low, to, &parameters, &rows.adapted, &of.slots];
        buffers.extend(raw);
        if let Some((weights, next)) = next {
            buffers.extend([weights, next.weighted, next.squares]);
        }
        let of_heads = heads.map(|of| self.uniform("heads", &of.parameters()));
        if let (Some(of), Some(parameters)) = (heads, &of_heads) {
            let KvBuffers {
                tables,
                keys,
                values,
            } = of.cache;
            buffers.extend([
                self.step, parameters, tables, of.angles, keys, values, of.extras,
            ]);
        }
        let cells = (of.columns * 4) as u64;
        let mut touches = vec![
            Touch::read(0, Area::Columns(of.b.size())),
            Touch::read(1, Area::Rows((of.most * 4) as u64)),
            match heads {
                None => store.touch(2, [of.columns, 0, of.columns]),
                Some(heads) => {
                    let queries = heads.heads.heads * heads.heads.stride4() * 16;
                    Touch::write(2, Area::Cells(u64::from(queries)))
                }
            },
            Touch::read(4, Area::Rows(16)),
            Touch::read(5, Area::All(of.slots.size())),
        ];
        if raw.is_some() {
            touches.push(Touch::read(6, Area::Cells(cells)));
        }
        if let Some(heads) = heads {
            let own = Area::OwnPosition {
                kv_heads: heads.heads.kv_heads,
                bytes: heads.heads.kv_bytes(),
            };
            touches.push(Touch::read(10, Area::Rows(u64::from(heads.heads.half) * 8)));
            touches.extend([11, 12].map(|cache| Touch::write(cache, own)));
        }
        if next.is_some() {
            touches.push(Touch::read(6, Area::Columns(cells)));
            touches.push(Touch::write(7, Area::Cells(cells)));
            touches.push(Touch::write(8, Area::Cells(of.columns as u64)));
        }
        let work = Work::Rows((of.most * of.columns) as u64);
        let choice = SizedKernel::always(Kernel::Lora(kernel), grid);
        self.dispatch(count, &[choice], &buffers, work, &touches)
    }
}
