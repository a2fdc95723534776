// The operator of the boundary's benches in the plain world: nothing but what the toolchain makes of the WIT.

const keep = { tag: "keep" };
const drop = { tag: "drop" };
const pass = { tag: "pass" };

let isEcho = false;

function replace(value) {
  const patch = { key: keep, value: { tag: "set", val: value }, eventTime: keep, headers: [], attributes: [] };
  return { tag: "replace", val: patch };
}

function outcome({ value }) {
  if (value === undefined || value === null) return pass;
  if (isEcho) return replace(value);
  return value[10] % 2 === 1 ? drop : pass;
}

export const plain = {
  describe: (_config) => ({
    name: "measure-boundary",
    version: "1.0.0",
    configSchema: "{}",
    reads: { value: true },
    outputs: [],
    metrics: [],
    handlers: [],
    extensions: [],
  }),

  init(config) {
    isEcho = JSON.parse(config).mode === "echo";
  },

  process: (batch) => ({ outcomes: batch.messages.map(outcome), samples: [] }),
};
