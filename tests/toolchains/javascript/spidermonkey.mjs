// Makes a component of operator.js with SpiderMonkey: node spidermonkey.mjs WIT OUT [FEATURE ...], with the features of
// the engine that are left out.

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { componentize } from "@bytecodealliance/componentize-js";

const [wit, out, ...disableFeatures] = process.argv.slice(2);
const { component } = await componentize({
  sourcePath: fileURLToPath(new URL("operator.js", import.meta.url)),
  witWorld: await readFile(wit, "utf8"),
  worldName: "packed-operator",
  disableFeatures,
});
await writeFile(out, component);
