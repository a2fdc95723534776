// The types of the harness, which runs an operator in node's tests.

import type { Failure, Operator, RecordId } from "./index.js";

/** Bytes of a field in a test: text becomes its UTF-8. */
export type Given = string | Uint8Array | null;
export type GivenPairs = readonly (readonly [name: string, value: Given])[] | { readonly [name: string]: Given };

/** A record for a test. What is left out is null or empty; the offset is the index in the batch. */
export interface GivenRecord {
  key?: Given;
  value?: Given;
  headers?: GivenPairs;
  attributes?: GivenPairs;
  /** Microseconds since the Unix epoch. */
  eventTime?: number | bigint | null;
  id?: { origin?: "source" | "timer"; source?: number; partition?: number; offset?: number | bigint; emit?: number | bigint };
}

/** A record as it comes out. */
export class TestRecord {
  constructor(given: GivenRecord, index?: number);
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: [string, Uint8Array | null][];
  readonly attributes: [string, Uint8Array | null][];
  readonly eventTime: bigint | null;
  readonly id: RecordId;
  /** The value as text, or null. */
  readonly text: string | null;
  /** The value as JSON. */
  json(): any;
  /** The value of the last header of this name as text, or null. */
  headerText(name: string): string | null;
  attributeText(name: string): string | null;
}

/** The changes of an answer: what is not there stays as it was. */
export interface Patch {
  key?: Uint8Array | null;
  value?: Uint8Array | null;
  headers: [operation: "set" | "add" | "remove", name: string, value?: Uint8Array | null][];
  attributes: [operation: "set" | "add" | "remove", name: string, value?: Uint8Array | null][];
  eventTime?: bigint | null;
}

/** What became of a record, with the record as the next stage sees it. */
export interface Answer {
  kind: "pass" | "drop" | "replace" | "split" | "route" | "retry" | "dead-letter";
  /** Of pass, replace and route. */
  record?: TestRecord;
  /** Of replace and route. */
  patch?: Patch;
  /** Of route: the output, null for the main one. */
  to?: string | null;
  /** Of split. */
  pieces?: { to: string | null; patch: Patch; record: TestRecord }[];
  /** Of retry and dead-letter. */
  reason?: string;
  /** Of retry. */
  afterMs?: number;
}

/** Of a counter the sum, of a gauge the last value, of a histogram count and sum. */
export type MeasuredValue = number | { count: number; sum: number };

/** A lane for a test. What is left out is that of what the first choice of `model` says. */
export interface GivenLane {
  identity?: string;
  model?: string;
  choice?: number;
  kind?: "content" | "reasoning" | "arguments";
  /** Of arguments the index of their call. */
  call?: number;
  attributes?: GivenPairs;
}

/** What went on of a piece, and how the answer ended: null if it did not. */
export interface Through {
  text: string;
  end: "stop" | "filtered" | null;
}

/** A lane under test. */
export class OpenLane {
  /** Gives the next text of the lane. */
  step(text: string, last?: boolean): Through;
  /** Gives all of the text in these pieces, as far as the answer goes: what went on in sum and of each piece. */
  run(pieces: readonly string[]): Through & { each: string[] };
}

/** An operator under test: started as the host does it, and given only the fields that it reads. */
export class Harness {
  /** Starts it. Throws a `Failure` if it refuses its configuration. */
  constructor(operator: Operator, config?: object | string);
  /** The clock of the next batches, microseconds: 1,700,000,000,000,000 at first. */
  clock: number | bigint;
  /** 16 bytes that random numbers are drawn from. */
  seed: Uint8Array;
  /** The lines logged so far: level and text. */
  logLines: [level: string, message: string][];
  /** What the operator says of itself under this configuration. */
  readonly description: { name: string; version: string; configSchema: string; outputs: string[] };
  readonly outputs: string[];
  /** Runs one batch. Throws a `Failure` if the operator fails it, and an `Error` if the host would refuse its answer. */
  run(records: readonly GivenRecord[]): Answer[];
  /** Runs a batch of one record. */
  runOne(record: GivenRecord): Answer;
  /** Opens a lane of an answer. Throws what the operator refuses it with. */
  open(lane?: GivenLane): OpenLane;
  /** Everything that was measured and counts. */
  readonly metrics: { name: string; labels: { [label: string]: string }; value: MeasuredValue }[];
  /** What one metric has under these labels; undefined if it was not measured. */
  measured(name: string, labels?: { [label: string]: string }): MeasuredValue | undefined;
}

/** Registers a test of node:test for each case of these files; those that only the sandbox can run are left out. */
export function runCases(operator: Operator, ...paths: (string | URL)[]): void;
/** The differences in the cases of a file; none if all is as expected. */
export function compareCases(operator: Operator, path: string | URL): string[];

export type { Failure };
