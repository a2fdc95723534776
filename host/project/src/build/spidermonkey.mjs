// Makes a component of a JavaScript module with SpiderMonkey: node spidermonkey.mjs TOOL MODULE WIT WORLD OUT [FEATURE ...],
// with the features of the engine that are left out.

import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [tool, sourcePath, wit, worldName, out, ...disableFeatures] = process.argv.slice(2);
const { componentize } = await import(pathToFileURL(tool).href);
const witWorld = await readFile(wit, "utf8");
const { component } = await componentize({ sourcePath, witWorld, worldName, disableFeatures });
await writeFile(out, component);
