// The packed arena, layout 2: where things lie in a batch and in an answer. The rules stand in wit/README.md.

/** The length that stands for null, as a signed number: arenas are read as those. */
export const NULL = -1;

/** "TGB", "TGO" and the layout, as the first word. */
export const BATCH_MAGIC = 0x02424754;
export const ANSWER_MAGIC = 0x024f4754;

/** A batch's header, in words of four bytes. */
export const HEADER = { magic: 0, length: 1, own: 2, flags: 3, records: 4, stride: 5, table: 6, sections: 7, sectionTable: 8, clock: 10, seed: 12 };
export const HEADER_BYTES = 64;

/** An entry of the record table, in words of four bytes. */
export const ENTRY = { time: 0, offset: 2, emit: 4, partition: 6, origin: 7, counts: 8, key: 10, value: 12, headers: 14, attributes: 16 };
export const ENTRY_BYTES = 72;

/** An entry of the section table, bytes. */
export const SECTION_BYTES = 16;

/** Bits of the fields that an entry has, and of what a patch changes. */
export const KEY = 1;
export const VALUE = 2;
export const HEADERS = 4;
export const ATTRIBUTES = 8;
export const EVENT_TIME = 16;

/** Flags, and kinds of sections, that a reader must know. */
export const CRITICAL_FLAGS = 0xffff0000;
export const CRITICAL_KIND = 0x80000000;

/** No event time: the smallest number. */
export const NO_TIME = -(2n ** 63n);

export const PASS = 0;
export const DROP = 1;
export const REPLACE = 2;
export const SPLIT = 3;
export const ROUTE = 4;
export const RETRY = 5;
export const DEAD_LETTER = 6;

export const SET = 0;
export const ADD = 1;
export const REMOVE = 2;

/** An answer's header, bytes. */
export const ANSWER_HEADER = 40;
/** The kind of the section of samples. */
export const SAMPLES = 1;

export const MAX_PIECES = 4095;
export const MAX_PAIRS = 65535;
export const MAX_NAME = 65535;
export const MAX_LABEL = 256;
export const MAX_SAMPLES = 256;
