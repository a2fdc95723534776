// Lanes of answers, for tests of what handles tokens.

import { Lane } from "../tokens.js";
import { asPairs } from "./record.js";

/** A lane as a test gives it: what is left out is that of the usual one. */
export function laneOf({ identity = "source 0 partition 0 offset 0", model = "model", choice = 0, kind = "content", call = 0, attributes = [] }) {
  return new Lane({ identity, model, choice, kind, call: kind === "arguments" ? call : null, attributes: asPairs(attributes) });
}

/** A lane under test. See testing.d.ts. */
export class OpenLane {
  #lanes;

  constructor(lanes, lane) {
    this.#lanes = lanes;
    lanes.open(this, lane);
  }

  step(text, last = false) {
    return this.#lanes.step(this, text, last);
  }

  run(pieces) {
    const each = [];
    let end = null;
    for (let index = 0; index < pieces.length && end === null; index++) {
      const through = this.step(pieces[index], index === pieces.length - 1);
      each.push(through.text);
      end = through.end;
    }
    this.#lanes.close(this);
    return { text: each.join(""), each, end };
  }
}
