// The operator for the packed world.

import { Answer, records, values } from "./arena.js";
import { REASON_BYTES, decide, description } from "./uppercase.js";

export const packed = {
  describe: (_config) => description,

  init(_config) {},

  process(batch) {
    const answer = new Answer(records(batch));
    let record = 0;
    for (const value of values(batch)) {
      const decided = decide(value);
      if (decided === "drop") answer.drop(record);
      else if (decided === "dead") answer.deadLetter(record, REASON_BYTES);
      else if (decided !== "pass") answer.replaceValue(record, decided);
      record++;
    }
    return answer.finish();
  },
};
