// The operator of the boundary's benches, in JavaScript: tests/guests/bench-operator says what it does.

import { choice, drop, object, operator, pass, replace } from "./tidegate/index.js";

export default operator({
  name: "measure-boundary",
  version: "1.0.0",
  reads: ["value"],
  config: object({ mode: choice("filter", "echo").describe("What it does.") }),

  process(record, { mode }) {
    const value = record.value;
    if (value === null) return pass;
    if (mode === "echo") return replace({ value });
    return value[10] % 2 === 1 ? drop : pass;
  },
});
