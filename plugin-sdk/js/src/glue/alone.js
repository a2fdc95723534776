// What the component exports. `tidegate build` writes this file to build/operator.js, with the entry in place.

import operator from "../{{entry}}";
import { packed as exported } from "../tidegate/component.js";

export const packed = exported(operator);
