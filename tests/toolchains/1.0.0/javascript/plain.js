// The operator for the plain world: nothing but what the toolchain makes of the WIT.

import { REASON, decide, description } from "./uppercase.js";

const keep = { tag: "keep" };

function outcome({ value }) {
  const decided = decide(value);
  if (decided === "pass" || decided === "drop") return { tag: decided };
  if (decided === "dead") return { tag: "dead-letter", val: REASON };
  const patch = { key: keep, value: { tag: "set", val: decided }, eventTime: keep, headers: [], attributes: [] };
  return { tag: "replace", val: patch };
}

export const plain = {
  describe: (_config) => description,

  init(_config) {},

  process: (batch) => ({ outcomes: batch.messages.map(outcome), samples: [] }),
};
