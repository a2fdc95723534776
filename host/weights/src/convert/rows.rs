//! The bytes of a converted tensor, some rows at a time.

use super::plan::{Kind, Planned};
use crate::error::TensorError;
use crate::format::{RowParts, encode_floats, encode_groups};
use crate::tensor::Tensor;

/// Elements that a thread converts at once.
const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// Hands the bytes of `planned`, whose parts are `tensors`, to `write`, in order.
pub(super) fn convert<E: From<TensorError>>(
    tensors: &[Tensor<'_>],
    planned: &Planned,
    write: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    // A sixteenth of the values or less: they are kept until all values are written.
    let mut scales = Vec::new();
    for tensor in tensors {
        convert_part(tensor, planned, &mut scales, write)?;
    }
    write(&scales)
}

/// The same of one part, whose scales are kept.
fn convert_part<E: From<TensorError>>(
    tensor: &Tensor<'_>,
    planned: &Planned,
    scales: &mut Vec<u8>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows_each = (ELEMENTS_AT_ONCE / tensor.width().max(1)).max(1);
    let mut first = 0;
    while first < tensor.rows() {
        let starts = (0..threads)
            .map(|i| first + i * rows_each)
            .filter(|start| *start < tensor.rows());
        let converted: Vec<Result<Rows, TensorError>> = std::thread::scope(|scope| {
            let work = |start: usize| {
                let end = (start + rows_each).min(tensor.rows());
                scope.spawn(move || {
                    let mut rows = Rows::default();
                    (start..end).try_for_each(|row| rows.add(tensor, planned.kind, row))?;
                    Ok(rows)
                })
            };
            let threads: Vec<_> = starts.map(work).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(rows) => rows,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        for rows in converted {
            let rows = rows?;
            write(&rows.values)?;
            scales.extend(rows.scales);
        }
        first += threads * rows_each;
    }
    Ok(())
}

/// Some rows, converted.
#[derive(Default)]
struct Rows {
    /// Floats, or the quantized numbers.
    values: Vec<u8>,
    /// The scales of the numbers.
    scales: Vec<u8>,
    /// Room for a row as it is stored, used again for the next.
    parts: RowParts,
    /// Room for a row's floats.
    floats: Vec<f32>,
}

impl Rows {
    fn add(&mut self, tensor: &Tensor<'_>, kind: Kind, row: usize) -> Result<(), TensorError> {
        match kind {
            // What is stored so already is not rounded again.
            Kind::Quantized(format) if format == tensor.format() => {
                tensor.row_parts(row, &mut self.parts)?;
                self.values.extend(&self.parts.values);
                self.scales.extend(&self.parts.scales);
            }
            Kind::Quantized(format) => {
                tensor.read_row(row, &mut self.floats)?;
                encode_groups(format, &self.floats, &mut self.values, &mut self.scales);
            }
            Kind::Floats { format, less_one } => {
                tensor.read_row(row, &mut self.floats)?;
                if less_one {
                    self.floats.iter_mut().for_each(|x| *x -= 1.0);
                }
                encode_floats(format, &self.floats, &mut self.values);
            }
        }
        Ok(())
    }
}
