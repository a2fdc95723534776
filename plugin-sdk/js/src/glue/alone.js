// What `tidegate build` makes the component of: it puts the operator's module and handlers into it.

import operator from "../{{entry}}";
import { packed as exported } from "../tidegate/component.js";

export const packed = exported(operator, "{{handlers}}".split(" "));
