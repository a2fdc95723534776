// The types of the SDK: what an operator is declared with, what it sees, and what it can answer.

/** A field that `reads` can name. */
export type Field = "key" | "value" | "headers" | "attributes";

/** What bytes can be given as: text becomes its UTF-8. */
export type Bytes = string | Uint8Array;

/** A header or private attribute: its name, and its value or null. */
export type Pair = [name: string, value: Uint8Array | null];

/** Where a record comes from. The same after a restart, and no other record of the pipeline has it. */
export interface RecordId {
  readonly origin: "source" | "timer";
  /** Index of the source in the pipeline. */
  readonly source: number;
  readonly partition: number;
  /** Offset in the partition. */
  readonly offset: bigint;
  /** 0 for a record as it was read, another number for each piece of a split. Do not compute with it. */
  readonly emit: bigint;
}

/**
 * The record that `process` is asked about. Each field is read when it is asked for, and only fields that `reads` names
 * are there; the others look like null or empty. It is one object for all records: keep what it gave, not itself.
 * Bytes are views: do not write to them.
 */
export interface Record {
  /** The key, or null. */
  readonly key: Uint8Array | null;
  /** The value, or null (a tombstone). */
  readonly value: Uint8Array | null;
  /** The value as text. A value that is null or not UTF-8 throws a `FieldError`. */
  readonly text: string;
  /** The value read as JSON. A value that is none, or nested more than 128 deep, throws a `FieldError`. */
  json<T = unknown>(): T;
  /** The value of the last header of this name; null if there is none, or its value is null. */
  header(name: string): Uint8Array | null;
  /** The same as text; null if it is not UTF-8. */
  headerText(name: string): string | null;
  /** All headers in order; a name may repeat. */
  readonly headers: IterableIterator<Pair>;
  readonly headerCount: number;
  /** The value of the last private attribute of this name; null if there is none, or its value is null. */
  attribute(name: string): Uint8Array | null;
  /** The same as text; null if it is not UTF-8. */
  attributeText(name: string): string | null;
  /** All private attributes in order: later operators see them, no sink does. */
  readonly attributes: IterableIterator<Pair>;
  readonly attributeCount: number;
  readonly id: RecordId;
  /** When it happened, microseconds since the Unix epoch, exact to the year 2255; null if that is not known. */
  readonly eventTime: number | null;
  /** The same, exact for all 64 bits. */
  readonly exactEventTime: bigint | null;
  /** The batch's clock, microseconds since the Unix epoch: the one time an operator sees. */
  readonly now: number;
  /** The same, exact for all 64 bits. */
  readonly exactNow: bigint;
  /** Random numbers, the same whenever this record comes to this slot. */
  random(): Random;
}

/** Random numbers of one record. Not for secrets. */
export interface Random {
  /** 64 bits. */
  bits(): bigint;
  /** A number from 0 to 1, without 1. */
  unit(): number;
  /** A whole number below this; 0 below 0. */
  below(end: number): number;
  /** Whether something happens that has this probability. */
  chance(probability: number): boolean;
}

/** A change of headers or attributes: `set`, `add`, `remove`. */
export interface PairChange {
  readonly operation: number;
  readonly name: string;
  readonly value: Bytes | null;
}

/** Replaces all of the name by this one. */
export function set(name: string, value: Bytes | null): PairChange;
/** Appends one; others of the name stay. */
export function add(name: string, value: Bytes | null): PairChange;
/** Removes all of the name. */
export function remove(name: string): PairChange;

/** Changes of headers or attributes, made one after the other; an object sets each of its members. */
export type PairChanges = readonly PairChange[] | { readonly [name: string]: Bytes | null };

/** How a record changes. What is not mentioned stays as it was; null makes it null. */
export interface Changes {
  readonly key?: Bytes | null;
  readonly value?: Bytes | null;
  readonly headers?: PairChanges;
  /** Private attributes. */
  readonly attributes?: PairChanges;
  /** Microseconds since the Unix epoch, or a Date; null for none. */
  readonly eventTime?: number | bigint | Date | null;
}

/** A part of a split: its changes against the record, and the named output it goes to; none is the main one. */
export interface Piece<Outputs extends string = string> extends Changes {
  readonly to?: Outputs | null;
}

declare const outputs: unique symbol;

/** What becomes of a record. `Outputs` are the named outputs that it can go to. */
export interface Outcome<Outputs extends string = never> {
  readonly [outputs]?: Outputs;
}

/** The record goes on as it is. */
export const pass: Outcome;
/** The record ends here. */
export const drop: Outcome;
/** The record goes on with these changes. Without any it passes. */
export function replace(changes: Changes): Outcome;
/** The record becomes these, at most 4,095; none is the same as `drop`. */
export function split<Outputs extends string = never>(pieces: Iterable<Piece<Outputs>>): Outcome<Outputs>;
/** The record goes to a named output, with these changes. */
export function route<Outputs extends string>(output: Outputs, changes?: Changes): Outcome<Outputs>;
/** The record comes again after so many milliseconds, of which 10 minutes count, as often as the stage's `retries`. */
export function retry(afterMs: number, reason: string): Outcome;
/** The record goes to the dead letters. */
export function deadLetter(reason: string): Outcome;

/** Whether something failed for good. */
export type FailureClass = "transient" | "permanent" | "bad-configuration";

/** Why an operator cannot start, or cannot answer a batch: thrown in `start`, and in `process` for the whole batch. */
export class Failure extends Error {
  constructor(kind: FailureClass, code: string, message: string);
  readonly class: FailureClass;
  /** A short name that does not change: `[a-z][a-z0-9-]*`, at most 64 bytes. */
  readonly code: string;
}

/** The same call may succeed later: the records wait and come again. */
export function transient(code: string, message: string): Failure;
/** The same call fails again: records come again in smaller batches, until one fails by itself and is a dead letter. */
export function permanent(code: string, message: string): Failure;
/** Only another configuration helps. */
export function badConfiguration(code: string, message: string): Failure;

/**
 * A field of a record cannot be read as it was asked for. One that `process` does not catch is a dead letter with its
 * message alone: the record is at fault, not a line of code.
 */
export class FieldError extends Error {}

/** UTF-8 of a text. */
export function encodeText(text: string): Uint8Array;
/** The text of UTF-8. Throws a `FieldError`; `what` names the bytes in it. */
export function decodeText(bytes: Uint8Array, what?: string): string;

/** Lines of the host's log. Without `log` among the grants of operator.toml they are dropped. */
export const log: {
  trace(message: string): void;
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
};

/** Values of a metric's labels. */
export type Labels<Names extends string> = { readonly [name in Names]: string };
type LabelArguments<Names extends string> = [Names] extends [never] ? [] : [labels: Labels<Names>];

/** What an operator measures while it processes a record: it counts if the outcome of that record does. */
export interface Metric {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
}
/** A sum of amounts. */
export interface Counter<Names extends string = never> extends Metric {
  /** Adds a whole number from 0 to 2^53 - 1. */
  add(...given: [Names] extends [never] ? [amount?: number] : [amount: number, labels: Labels<Names>]): void;
}
/** The last of some values. */
export interface Gauge<Names extends string = never> extends Metric {
  /** A value that is not finite is ignored. */
  set(value: number, ...labels: LabelArguments<Names>): void;
}
/** How often values fell between bounds. */
export interface Histogram<Names extends string = never> extends Metric {
  /** A value that is not finite is ignored. */
  observe(value: number, ...labels: LabelArguments<Names>): void;
}

/** A counter; its name ends with `_total`. */
export function counter<const Names extends string = never>(name: string, help: string, options?: { labels?: readonly Names[] }): Counter<Names>;
export function gauge<const Names extends string = never>(name: string, help: string, options?: { labels?: readonly Names[] }): Gauge<Names>;
/** `bounds` are upper bounds, ascending, at most 32; without, those usual for seconds. */
export function histogram<const Names extends string = never>(
  name: string,
  help: string,
  options?: { labels?: readonly Names[]; bounds?: readonly number[] },
): Histogram<Names>;

/** One text of an answer, as a model makes it. */
export interface Lane {
  /** The record that the answer is for, as it stands in logs. */
  readonly identity: string;
  /** The model's name in the pipeline. */
  readonly model: string;
  /** Which of the answers that were asked for, counted from 0. */
  readonly choice: number;
  /**
   * What is said, what is thought before, or the arguments of a call: JSON text, which may be cut anywhere. What is put into
   * a string there has to be escaped as JSON is.
   */
  readonly kind: "content" | "reasoning" | "arguments";
  /** Of arguments the index of their call, counted from 0; else null. */
  readonly call: number | null;
  /** The value of the record's last private attribute of this name; null if there is none, or `reads` does not name them. */
  attribute(name: string): Uint8Array | null;
  /** The same as text; null if it is not UTF-8. */
  attributeText(name: string): string | null;
  /** All private attributes of the record in order. */
  readonly attributes: readonly [name: string, value: Uint8Array][];
}

/** What goes on where the answer ends: `end` makes it. */
export interface End {
  readonly text: string;
  readonly how: "stop" | "filtered";
}

/** This text goes on, and the answer ends behind it: at a word, as by a stop string, or because it may not be said. */
export function end(text: string, how: "stop" | "filtered"): End;

/**
 * Gets the next text of a lane and says what of it goes on, with what was held back before. With `last` nothing comes after
 * it. What goes on depends on the text alone, however it is cut into pieces.
 */
export type Step = (text: string, last: boolean) => string | End;

declare const value: unique symbol;

/** What a value of the configuration can be. */
export interface ConfigType<T, Optional extends boolean = false> {
  readonly [value]?: T;
  readonly isOptional?: Optional;
  /** What it is for: its description in the schema, and in editors. */
  describe(description: string): ConfigType<T, Optional>;
  /** What it is where its key is not there. */
  default(value: T): ConfigType<T>;
  /** It may be left out; it is undefined then. */
  optional(): ConfigType<T | undefined, true>;
  /** Its JSON Schema. */
  readonly schema: unknown;
}

/** The values of a type of the configuration: `type Config = Infer<typeof config>`. */
export type Infer<Type> = Type extends ConfigType<infer T, boolean> ? T : never;

type Members = { readonly [key: string]: ConfigType<any, boolean> };

/** A table with these keys and no others. */
export function object<const M extends Members>(members: M): ConfigType<{ -readonly [key in keyof M]: Infer<M[key]> }>;
/** A table whose keys are free. */
export function map<T>(value: ConfigType<T>, bounds?: { minProperties?: number; maxProperties?: number }): ConfigType<{ [key: string]: T }>;
/** A list. */
export function list<T>(item: ConfigType<T>, bounds?: { minItems?: number; maxItems?: number }): ConfigType<T[]>;
/** A text; lengths are in characters, the pattern is a regular expression. */
export function string(bounds?: { minLength?: number; maxLength?: number; pattern?: string }): ConfigType<string>;
/** A whole number, exact up to 2^53. */
export function integer(bounds?: { minimum?: number; maximum?: number }): ConfigType<number>;
export function number(bounds?: { minimum?: number; maximum?: number }): ConfigType<number>;
export function boolean(): ConfigType<boolean>;
/** One of these texts. */
export function choice<const Names extends readonly string[]>(...names: Names): ConfigType<Names[number]>;
/** Any JSON, as it stands there. */
export function any(): ConfigType<unknown>;

/** What an operator is declared with. */
export interface Definition<Outputs extends string, Config, State> {
  /** A verb: `redact-pii`. */
  name: string;
  /** `1.2.3`. */
  version: string;
  /** The fields that it reads; of others nothing is there. */
  reads: readonly Field[];
  /** Named outputs beside the main one; a function where the configuration says which there are. */
  outputs?: readonly Outputs[] | ((config: Config) => readonly Outputs[]);
  /** The type of the configuration, `object({...})`; without, there is no key. */
  config?: ConfigType<Config>;
  /** The metrics that it measures. */
  metrics?: readonly Metric[];
  /** Makes of the configuration, once for each instance, what `process` needs. What it throws keeps the operator from starting. */
  start?: (config: Config) => State;
  /** Says what becomes of a record; true passes, false drops. What it throws makes a dead letter of the record alone. */
  process: (record: Record, config: Config, state: State) => Outcome<NoInfer<Outputs>> | boolean;
  /**
   * Handles the text of answers as a model makes them: makes of each lane the function that gets its text. operator.toml has
   * `handlers = ["tokens"]`. What it throws refuses the lane; what a step throws ends it, and with it the answer.
   */
  tokens?: (lane: Lane, config: Config, state: State) => Step;
}

/** An operator that was declared: the default export of the entry. */
export interface Operator {
  readonly definition: unknown;
}

/** Declares an operator. What is wrong in the declaration throws. */
export function operator<const Outputs extends string = never, Config = {}, State = undefined>(
  definition: Definition<Outputs, Config, State>,
): Operator;
