// Makes a component of a JavaScript module with SpiderMonkey: node spidermonkey.mjs MODULE WIT WORLD OUT [FEATURE ...],
// with the features of the engine that are left out.

import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [sourcePath, wit, worldName, out, ...disableFeatures] = process.argv.slice(2);
const witWorld = await readFile(wit, "utf8");
const { component } = await componentize({ sourcePath, witWorld, worldName, disableFeatures });
await writeFile(out, component);
