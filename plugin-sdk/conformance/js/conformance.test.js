// The cases of the suite, natively.

import { readdirSync } from "node:fs";
import operator from "./conformance.js";
import { runCases } from "./tidegate/testing.js";

const cases = new URL("../cases/", import.meta.url);
runCases(operator, ...readdirSync(cases).map((file) => new URL(file, cases)));
