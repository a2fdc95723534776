// Measures a backend of llama.cpp, vulkan or cpu, on one GGUF file, and prints JSON: tokens/s of a chunk of 64 tokens of a prompt that
// ends at 128, and of decoding one sequence from there. measure.mjs PACKAGES FILE STEPS BACKEND; run.py starts it.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, modelPath, count, backend] = process.argv.slice(2);
const entry = createRequire(`${packages}/package.json`).resolve("node-llama-cpp");
const { getLlama } = await import(pathToFileURL(entry).href);
const CHUNK = 64;
const steps = Number(count);

const cpu = backend === "cpu";
const llama = await getLlama({ gpu: cpu ? false : "vulkan", build: "never", logLevel: "error" });
const devices = cpu ? [] : await llama.getGpuDeviceNames();
const gpuLayers = cpu ? 0 : "max";
const model = await llama.loadModel({ modelPath, gpuLayers, defaultContextFlashAttention: false });
const context = await model.createContext({ contextSize: 512, batchSize: CHUNK });
const sequence = context.getSequence();
const tokens = (n) => Array.from({ length: n }, (_, index) => 300 + index);
const seconds = async (work) => {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
};

// The first chunk compiles shaders and is not counted.
await sequence.evaluateWithoutGeneratingNewTokens(tokens(CHUNK));
const prefill = await seconds(() => sequence.evaluateWithoutGeneratingNewTokens(tokens(CHUNK)));
const generated = sequence.evaluate([1000], { temperature: 0, yieldEogToken: true });
await generated.next();
const times = [];
for (let step = 0; step < steps; step++) {
  times.push(await seconds(() => generated.next()));
}
times.sort((a, b) => a - b);
const median = (times[(steps - 1) >> 1] + times[steps >> 1]) / 2;
console.log(JSON.stringify({
  backend,
  devices,
  prefill_tokens_per_s: CHUNK / prefill,
  decode_tokens_per_s: 1 / median,
  decode_steps: steps,
}));
process.exit(0);
