// Makes jmespath/jmespath.js of the npm package jmespath (Apache-2.0), which `cargo xtask operators` calls: an ES module in
// which an expression is parsed once, its functions are looked for then, and members that objects inherit are none.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = "jmespath@0.16.0";
const ARCHIVE = "jmespath-0.16.0.tgz";
const SHA256 = "d59c4c2d5abd55601f02c6e317e1016b71236632f0e791fd98b9f558add42e0a";
const MADE = join(dirname(fileURLToPath(import.meta.url)), "jmespath", "jmespath.js");

// What an operator asks of it, in place of what it exports.
const EXPORTS = `
/**
 * A function of the data that an expression asks for. \`functions\` are more of them: a name, \`{_func, _signature}\`. Throws if
 * the expression is none, or calls a function that there is not.
 */
export function prepare(expression, functions = {}) {
  const node = new Parser().parse(expression);
  const runtime = new Runtime();
  const interpreter = new TreeInterpreter(runtime);
  runtime._interpreter = interpreter;
  Object.assign(runtime.functionTable, functions);
  checkFunctions(node, runtime.functionTable);
  return (data) => interpreter.search(node, data);
}

function checkFunctions(node, table) {
  if (node === null || typeof node !== "object") return;
  if (node.type === "Function" && !Object.hasOwn(table, node.name)) throw new Error(\`Unknown function: \${node.name}()\`);
  for (const child of Object.values(node)) checkFunctions(child, table);
}

export { isFalse };
`;

/** Replaces what stands there exactly so often. */
function change(text, from, to, times = 1) {
  const parts = text.split(from);
  if (parts.length !== times + 1) throw new Error(`${PACKAGE} has ${parts.length - 1} of ${JSON.stringify(from)}, not ${times}`);
  return parts.join(to);
}

function made(source) {
  let text = change(source, "(function(exports) {", "");
  text = text.slice(0, text.indexOf("function compile(stream)"));
  text = change(text, "obj.hasOwnProperty(key)", "Object.hasOwn(obj, key)");
  text = change(text, "if (value !== null && isObject(value)) {", "if (value !== null && isObject(value) && Object.hasOwn(value, node.name)) {");
  return `// Made by fetch-jmespath.mjs of ${PACKAGE}, Copyright 2014 James Saryerwinnie, Apache License 2.0.\n${text}${EXPORTS}`;
}

if (!existsSync(MADE)) {
  const place = mkdtempSync(join(tmpdir(), "jmespath-"));
  try {
    execFileSync("npm", ["pack", "--silent", PACKAGE], { cwd: place, stdio: ["ignore", "ignore", "inherit"] });
    const sum = createHash("sha256").update(readFileSync(join(place, ARCHIVE))).digest("hex");
    if (sum !== SHA256) throw new Error(`${PACKAGE} is not what it was: its SHA-256 is ${sum}, not ${SHA256}`);
    execFileSync("tar", ["-xzf", ARCHIVE, "package/jmespath.js"], { cwd: place });
    mkdirSync(dirname(MADE), { recursive: true });
    const beside = `${MADE}.new-${process.pid}`;
    writeFileSync(beside, made(readFileSync(join(place, "package", "jmespath.js"), "utf8")));
    renameSync(beside, MADE);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
