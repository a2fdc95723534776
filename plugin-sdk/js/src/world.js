// What QuickJS lacks in a component that imports nothing of WASI: a clock, and a console.

import { log } from "./log.js";
import { record, recordIndex } from "./record.js";

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
    debug: (...values) => log.debug(line(values)),
    log: (...values) => log.info(line(values)),
    info: (...values) => log.info(line(values)),
    warn: (...values) => log.warn(line(values)),
    error: (...values) => log.error(line(values)),
  };
}

/** Milliseconds since the Unix epoch: the time of the batch. */
function now() {
  if (recordIndex() < 0) throw new Error("there is no clock outside of process");
  return Math.floor(record.now / 1000);
}

const line = (values) => values.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value))).join(" ");
