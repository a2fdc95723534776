//! Standard input and output. Neither can be read or written again, so a pipeline over them is at least once.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use tidegate_codec::{DecoderOptions, Encoder, encode_dead_letter};
use tidegate_contract::{
    Assigned, DeadLetter, HostHeaders, Partition, Sink, SinkError, SinkPosition, Source,
    SourceError, SourceEvent,
};
use tidegate_record::PublicRecord;

use crate::lines::{Gathered, Lines, Stopped};
use crate::{encode_error, now_micros};

/// Bytes of one read.
const READ: usize = 64 << 10;
/// Reads of one poll before it returns, whether they gave a record or not.
const READS: usize = 64;
/// Reads that wait for the worker; with them the reader thread stands still.
const READS_AHEAD: usize = 8;

/// Standard input as a source of one partition. Offsets are byte positions from the start of this run.
pub struct StandardSource {
    partition: Partition,
    place: &'static str,
    lines: Lines,
    reads: Receiver<io::Result<Vec<u8>>>,
    assigned: bool,
    ended: bool,
    end_reported: bool,
    paused: bool,
}

impl fmt::Debug for StandardSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.lines.cutter.position();
        f.debug_struct("StandardSource")
            .field("position", &position)
            .finish_non_exhaustive()
    }
}

impl StandardSource {
    /// Reads this process's standard input. `source` is the index of the source in the pipeline.
    pub fn stdin(source: u16, decoder: DecoderOptions) -> Result<StandardSource, SourceError> {
        StandardSource::new(source, decoder, io::stdin())
    }

    /// Reads any stream, on a thread of its own that ends with the stream or with this source.
    pub fn new(
        source: u16,
        decoder: DecoderOptions,
        mut input: impl Read + Send + 'static,
    ) -> Result<StandardSource, SourceError> {
        let place = "standard input";
        let read_error = |why: String| SourceError::Read {
            place: place.into(),
            why,
        };
        let partition = Partition { source, number: 0 };
        let lines =
            Lines::new(partition, decoder).map_err(|error| read_error(error.to_string()))?;
        let (sender, reads) = bounded(READS_AHEAD);
        let read_on = move || loop {
            let mut bytes = vec![0; READ];
            let read = match input.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
                Ok(count) => {
                    bytes.truncate(count);
                    Ok(bytes)
                }
            };
            let last = !matches!(&read, Ok(bytes) if !bytes.is_empty());
            if sender.send(read).is_err() || last {
                return;
            }
        };
        thread::Builder::new()
            .name("standard-input".into())
            .spawn(read_on)
            .map_err(|error| read_error(error.to_string()))?;
        Ok(StandardSource {
            partition,
            place,
            lines,
            reads,
            assigned: false,
            ended: false,
            end_reported: false,
            paused: false,
        })
    }

    fn read_error(&self, why: impl ToString) -> SourceError {
        SourceError::Read {
            place: format!("{} at byte {}", self.place, self.lines.cutter.position()),
            why: why.to_string(),
        }
    }

    /// Takes one read if it comes by then; false if none came.
    fn fill(&mut self, deadline: Option<Instant>) -> Result<bool, SourceError> {
        let read = match deadline {
            None => match self.reads.try_recv() {
                Ok(read) => read,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => Ok(Vec::new()),
            },
            Some(deadline) => match self.reads.recv_deadline(deadline) {
                Ok(read) => read,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => Ok(Vec::new()),
            },
        };
        let bytes = read.map_err(|error| self.read_error(error))?;
        self.ended = bytes.is_empty();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let space = self.lines.cutter.space();
            let count = rest.len().min(space.len());
            space[..count].copy_from_slice(&rest[..count]);
            self.lines.cutter.filled(count);
            rest = &rest[count..];
        }
        Ok(true)
    }
}

impl Source for StandardSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if !self.assigned {
            self.assigned = true;
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: self.partition,
                kept: None,
            }]));
        }
        let deadline = Instant::now() + wait;
        if self.paused || self.end_reported {
            thread::sleep(wait);
            return Ok(SourceEvent::Idle);
        }
        let mut gathered = Gathered::with_capacity(0);
        let mut reads = 0;
        loop {
            let header = self.lines.take_header(self.ended);
            let header_taken = header.map_err(|malformed| self.read_error(malformed))?;
            if header_taken
                && self.lines.gather(&mut gathered, records, bytes, self.ended) == Stopped::Full
            {
                break;
            }
            // What is there goes on at once; only an empty batch waits.
            let wait_until = (gathered.len() == 0).then_some(deadline);
            if self.ended || reads == READS || !self.fill(wait_until)? {
                break;
            }
            reads += 1;
        }
        if gathered.len() > 0 {
            let Gathered {
                batch, rejected, ..
            } = gathered;
            return Ok(SourceEvent::Records {
                partition: self.partition,
                batch: batch.finish(now_micros()),
                rejected,
                next: self.lines.cutter.position(),
            });
        }
        if self.ended {
            self.end_reported = true;
            return Ok(SourceEvent::End(self.partition));
        }
        Ok(SourceEvent::Idle)
    }

    fn seek(&mut self, _partition: Partition, position: u64) -> Result<(), SourceError> {
        if position == self.lines.cutter.position() {
            return Ok(());
        }
        Err(SourceError::Position {
            place: self.place.into(),
            position,
            why: "what went by cannot be read again".into(),
        })
    }

    fn pause(&mut self, _partition: Partition) -> Result<(), SourceError> {
        self.paused = true;
        Ok(())
    }

    fn resume(&mut self, _partition: Partition) -> Result<(), SourceError> {
        self.paused = false;
        Ok(())
    }
}

/// Standard output as a sink.
pub struct StandardSink {
    place: &'static str,
    /// Shared with siblings, which write in turns.
    stream: Arc<Mutex<Stream>>,
    encoder: Encoder,
    pending: Vec<u8>,
    /// The header is written even if no record comes; this one of the siblings sees to that.
    eldest: bool,
}

struct Stream {
    output: Box<dyn Write + Send>,
    /// What stands first in the output, until someone writes it.
    header: Vec<u8>,
}

impl fmt::Debug for StandardSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.pending.len();
        f.debug_struct("StandardSink")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

impl StandardSink {
    /// Writes to this process's standard output.
    pub fn stdout(encoder: Encoder) -> StandardSink {
        StandardSink::new(encoder, io::stdout())
    }

    /// Writes to any stream.
    pub fn new(encoder: Encoder, output: impl Write + Send + 'static) -> StandardSink {
        let mut header = Vec::new();
        encoder.write_header(&mut header);
        let output = Box::new(output);
        StandardSink {
            place: "standard output",
            stream: Arc::new(Mutex::new(Stream { output, header })),
            encoder,
            pending: Vec::new(),
            eldest: true,
        }
    }

    /// Another handle of the same stream, for another worker: it collects its own output and writes in turn. Whoever is
    /// first writes the header row.
    pub fn sibling(&self) -> StandardSink {
        StandardSink {
            place: self.place,
            stream: self.stream.clone(),
            encoder: self.encoder.clone(),
            pending: Vec::new(),
            eldest: false,
        }
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for StandardSink {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        self.encoder
            .encode(record, &mut self.pending)
            .map_err(encode_error)
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        encode_dead_letter(&mut self.pending, letter);
        self.pending.push(b'\n');
        Ok(())
    }

    fn pending(&self) -> usize {
        let header = if self.eldest {
            self.stream().header.len()
        } else {
            0
        };
        self.pending.len() + header
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        let mut stream = self.stream();
        let header = std::mem::take(&mut stream.header);
        let written = stream
            .output
            .write_all(&header)
            .and_then(|()| stream.output.write_all(&self.pending))
            .and_then(|()| stream.output.flush());
        drop(stream);
        self.pending.clear();
        match written {
            Ok(()) => Ok(None),
            Err(error) => Err(SinkError::Write {
                place: self.place.into(),
                why: match error.kind() {
                    io::ErrorKind::BrokenPipe => "its reader has gone (broken pipe)".into(),
                    _ => error.to_string(),
                },
            }),
        }
    }

    fn discard(&mut self) {
        self.pending.clear();
    }

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}
