// The golden batches and answers of the contract.

import { readFileSync } from "node:fs";

/** The bytes of `wit/golden/NAME.hex`. */
export function golden(name) {
  const text = readFileSync(new URL(`../../../wit/golden/${name}.hex`, import.meta.url), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Uint8Array.from(Buffer.from(lines.map((line) => line.slice(6).split("#")[0].replace(/\s/g, "")).join(""), "hex"));
}
