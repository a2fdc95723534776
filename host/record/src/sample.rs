//! What an operator measured, by record: a section of its answer.

use crate::reader::{Malformed, Reader};

/// Bytes of the longest value of a label.
pub const MAX_LABEL: usize = 256;
/// Most measurements of one record.
pub const MAX_SAMPLES: usize = 256;

/// One measurement. It counts if the outcome of its record does.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// Index of the record in its batch.
    pub record: u32,
    /// Index of the metric among those that the operator describes.
    pub metric: u16,
    /// The amount of a counter, or the bits of the value (f64) of a gauge or a histogram.
    pub bits: u64,
    labels: Reader<'a>,
    count: u16,
}

impl<'a> Sample<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Sample<'a>, Malformed> {
        let (record, metric, count) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let bits = reader.u64()?;
        let labels = *reader;
        for _ in 0..count {
            label(reader)?;
        }
        Ok(Sample {
            record,
            metric,
            bits,
            labels,
            count,
        })
    }

    /// The values of its labels, in the order in which the metric declares them.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        let mut reader = self.labels;
        (0..usize::from(self.count)).map(move |_| label(&mut reader).unwrap_or_default())
    }
}

fn label<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = reader.u16()?;
    reader.text(usize::from(length))
}

/// Appends a sample to a section. Labels longer than 65,535 bytes are cut at a character border.
pub(crate) fn write(section: &mut Vec<u8>, record: u32, metric: u16, bits: u64, labels: &[&str]) {
    let count = labels.len().min(usize::from(u16::MAX));
    section.extend_from_slice(&record.to_le_bytes());
    section.extend_from_slice(&metric.to_le_bytes());
    section.extend_from_slice(&(count as u16).to_le_bytes());
    section.extend_from_slice(&bits.to_le_bytes());
    for label in &labels[..count] {
        let length = label.floor_char_boundary(usize::from(u16::MAX));
        section.extend_from_slice(&(length as u16).to_le_bytes());
        section.extend_from_slice(&label.as_bytes()[..length]);
    }
}
