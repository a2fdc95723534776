//! The sink of an output.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::{Encoder, Format, encode_dead_letter};
use tidegate_contract::{DeadLetter, HostHeaders, Sink, SinkError, SinkPosition};
use tidegate_record::PublicRecord;

use super::log::OutputLog;

/// A worker's sink of an output. What it collects is seen when it is flushed.
#[derive(Debug)]
pub struct OutputSink {
    log: Arc<OutputLog>,
    encoder: Encoder,
    pending: Vec<Bytes>,
    bytes: usize,
}

impl OutputSink {
    /// Records go to this log, as JSON. None if the encoder writes another format.
    pub fn new(log: Arc<OutputLog>, encoder: Encoder) -> Option<OutputSink> {
        (encoder.options().format == Format::Json).then_some(OutputSink {
            log,
            encoder,
            pending: Vec::new(),
            bytes: 0,
        })
    }

    /// The same for another worker.
    pub fn sibling(&self) -> OutputSink {
        OutputSink {
            log: self.log.clone(),
            encoder: self.encoder.clone(),
            pending: Vec::new(),
            bytes: 0,
        }
    }

    fn collect(&mut self, record: Vec<u8>) -> Result<(), SinkError> {
        let limit = self.log.limits().bytes;
        if record.len() > limit {
            return Err(SinkError::Encode {
                format: Format::Json.name(),
                why: format!(
                    "{} bytes exceed the {limit} bytes that the output keeps",
                    record.len()
                ),
            });
        }
        self.bytes += record.len();
        self.pending.push(Bytes::from(record));
        Ok(())
    }
}

impl Sink for OutputSink {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        let mut line = Vec::new();
        let encoded = self.encoder.encode(record, &mut line);
        encoded.map_err(|error| SinkError::Encode {
            format: error.format,
            why: error.why,
        })?;
        // The line end.
        line.pop();
        self.collect(line)
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let mut line = Vec::new();
        encode_dead_letter(&mut line, letter);
        self.collect(line)
    }

    fn pending(&self) -> usize {
        self.bytes
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        if !self.pending.is_empty() {
            self.log.publish(self.pending.drain(..));
            self.bytes = 0;
        }
        Ok(None)
    }

    fn discard(&mut self) {
        self.pending.clear();
        self.bytes = 0;
    }

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        self.discard();
        Ok(())
    }
}
