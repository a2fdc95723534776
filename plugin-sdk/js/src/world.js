// What QuickJS lacks in a component that imports nothing of WASI: a clock, and a console.

import { log } from "./log.js";
import { record, recordIndex } from "./record.js";
import { reasonOf, shown } from "./trace.js";

/** Gives the engine the batch's clock, and a console that writes to the log. */
export function furnish() {
  const EngineDate = Date;
  globalThis.Date = class Date extends EngineDate {
    constructor(...parts) {
      if (parts.length === 0) super(now());
      else super(...parts);
    }

    static now() {
      return now();
    }
  };
  const performance = { timeOrigin: 0, now };
  Object.defineProperty(globalThis, "performance", { value: performance, configurable: true, writable: true });
  globalThis.console = {
    trace: (...values) => log.trace(line(values)),
    debug: (...values) => log.debug(line(values)),
    log: (...values) => log.info(line(values)),
    info: (...values) => log.info(line(values)),
    warn: (...values) => log.warn(line(values)),
    error: (...values) => log.error(line(values)),
    assert: (holds, ...values) => holds || log.error(line(["assertion failed", ...values])),
  };
}

/** Milliseconds since the Unix epoch: the time of the batch. */
function now() {
  if (recordIndex() < 0) throw new Error("there is no clock outside of process");
  return Math.floor(record.now / 1000);
}

/** What a console writes of some values. It never throws: lines are not worth a record. */
export function line(values) {
  return values.map((value) => (value instanceof Error ? reasonOf(value) : shown(value))).join(" ");
}
