// What the component exports, with the host's log. `tidegate build` writes this file to build/operator.js, with the entry
// in place.

import { write } from "tidegate:operator/log@1.0.0";
import operator from "../{{entry}}";
import { packed as exported } from "../tidegate/component.js";

export const packed = exported(operator, write);
