//! What an operator is given of a batch: the fields that it reads and no others, written straight into its memory.

use crate::batch::BatchView;
use crate::builder::{Parts, header};
use crate::layout::{BATCH_HEADER, ENTRY, Fields, NULL};
use crate::version1;

/// The layouts of the contracts that were released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// That of 0.1.0.
    Version1,
    /// That of 1.0.0.
    Version2,
}

impl Layout {
    const fn header(self) -> usize {
        match self {
            Layout::Version1 => version1::BATCH_HEADER,
            Layout::Version2 => BATCH_HEADER,
        }
    }

    const fn entry(self) -> usize {
        match self {
            Layout::Version1 => version1::ENTRY,
            Layout::Version2 => ENTRY,
        }
    }
}

/// A batch with some fields of its records, in a layout; nothing is copied until it is written.
#[derive(Clone, Copy)]
pub struct Excerpt<'a> {
    view: BatchView<'a>,
    fields: Fields,
    layout: Layout,
    seed: [u8; 16],
    /// Where the record table begins.
    table: usize,
    length: usize,
}

impl<'a> Excerpt<'a> {
    /// These fields of a batch of the host's own, with a random seed for those who read it.
    pub fn new(view: BatchView<'a>, fields: Fields, layout: Layout, seed: [u8; 16]) -> Excerpt<'a> {
        let mut excerpt = Excerpt {
            view,
            fields,
            layout,
            seed,
            table: 0,
            length: view.end(),
        };
        if !excerpt.is_whole() {
            let heap: usize = view
                .records()
                .map(|record| Parts::of(&record, fields).heap())
                .sum();
            excerpt.table = (layout.header() + heap).next_multiple_of(8);
            excerpt.length = excerpt.table + view.len() * layout.entry();
        }
        excerpt
    }

    /// Whether it is the batch as it lies there.
    fn is_whole(&self) -> bool {
        self.fields == Fields::ALL && self.layout == Layout::Version2
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Writes it to memory of exactly its length.
    pub fn write(&self, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.length);
        if self.is_whole() {
            out.copy_from_slice(&self.view.as_bytes()[..self.length]);
            if self.view.has_notes() {
                self.without_notes(out);
            }
        } else {
            let (heap, table) = out.split_at_mut(self.table);
            let (total, records) = (self.length as u32, self.view.len() as u32);
            let (at, clock) = (self.table as u32, self.view.clock());
            let end = match self.layout {
                Layout::Version1 => {
                    heap[..version1::BATCH_HEADER]
                        .copy_from_slice(&version1::header(total, records, at, clock));
                    self.write_records1(heap, table)
                }
                Layout::Version2 => {
                    heap[..BATCH_HEADER].copy_from_slice(&header(total, records, at, clock));
                    self.write_records(heap, table)
                }
            };
            // Up to the table, which begins at a multiple of eight.
            heap[end..].fill(0);
        }
        if self.layout == Layout::Version2 {
            out[48..64].copy_from_slice(&self.seed);
        }
    }

    /// Takes away every sign of what the host has noted.
    fn without_notes(&self, out: &mut [u8]) {
        out[4..8].copy_from_slice(&(self.length as u32).to_le_bytes());
        let (table, stride) = self.view.table();
        for entry in out[table..].chunks_exact_mut(stride) {
            entry[36..40].fill(0);
        }
    }

    /// Writes the records, and returns where what they have ends in the heap.
    fn write_records(&self, heap: &mut [u8], table: &mut [u8]) -> usize {
        let mut at = BATCH_HEADER;
        for (record, place) in self.view.records().zip(table.chunks_exact_mut(ENTRY)) {
            at = record.write(self.fields, heap, at, place);
        }
        at
    }

    /// The same in layout 1.
    fn write_records1(&self, heap: &mut [u8], table: &mut [u8]) -> usize {
        let mut at = version1::BATCH_HEADER;
        let mut field = |bytes: Option<&[u8]>| {
            let offset = at as u32;
            let Some(bytes) = bytes else {
                return (offset, NULL);
            };
            heap[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
            (offset, bytes.len() as u32)
        };
        let places = table.chunks_exact_mut(version1::ENTRY);
        for (record, place) in self.view.records().zip(places) {
            let parts = Parts::of(&record, self.fields);
            let spans = [
                // What is left out has no place: it is null, or without a pair.
                self.span(Fields::KEY, parts.key, NULL, &mut field),
                self.span(Fields::VALUE, parts.value, NULL, &mut field),
                self.span(Fields::HEADERS, Some(parts.headers), 0, &mut field),
                self.span(Fields::ATTRIBUTES, Some(parts.attributes), 0, &mut field),
            ];
            place.copy_from_slice(&version1::entry(&parts.entry(spans)));
        }
        at
    }

    fn span(
        &self,
        field: Fields,
        bytes: Option<&[u8]>,
        none: u32,
        write: &mut impl FnMut(Option<&[u8]>) -> (u32, u32),
    ) -> (u32, u32) {
        match self.fields.contains(field) {
            true => write(bytes),
            false => (0, none),
        }
    }
}
