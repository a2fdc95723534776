
// Of an operator that handles tokens.
export { tokens } from "../tidegate/component.js";
