// What `tidegate build` makes the component of where the host's log is granted: it puts the operator's module and handlers
// into it.

import { write } from "tidegate:operator/log@1.0.0";
import operator from "../{{entry}}";
import { packed as exported } from "../tidegate/component.js";

export const packed = exported(operator, "{{handlers}}".split(" "), write);
