// What `tidegate build` makes the component of: it puts the operator's module into it.

import operator from "../map-fields.js";
import { packed as exported } from "../tidegate/component.js";

export const packed = exported(operator);
