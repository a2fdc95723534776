import assert from "node:assert/strict";
import { test } from "node:test";
import { base64Codec, cutText, decodeText, encodeText, firstWrong, textOrNull, webCodec } from "../src/text.js";

// What QuickJS has and this node may not have yet.
Uint8Array.prototype.toBase64 ??= function () {
  return Buffer.from(this).toString("base64");
};
Uint8Array.fromBase64 ??= (text) => Uint8Array.from(Buffer.from(text, "base64"));

const TEXTS = [
  "",
  "a",
  "plain ASCII of more than sixty-four bytes, so that it is looked at word by word, whatever comes",
  "é",
  "naïve – 水 😀 𝄞",
  `${"x".repeat(200)}é`,
  `é${"x".repeat(200)}`,
  "\u0000\u007f\u0080\u07ff\u0800\uffff\ufeff",
  "\ufeffa mark",
  "ÿ",
];

test("both ways to UTF-8 and back agree", () => {
  const [web, base64] = [webCodec(), base64Codec()];
  for (const text of TEXTS) {
    assert.deepEqual(Buffer.from(base64.encode(text)), Buffer.from(web.encode(text)), text);
    assert.equal(base64.decode(web.encode(text)), text);
    assert.equal(web.decode(web.encode(text)), text);
  }
  for (const alone of ["\ud800", "a\udc00b", "\ud800\ud800"]) {
    assert.deepEqual(Buffer.from(base64.encode(alone)), Buffer.from(web.encode(alone)));
  }
});

/** Numbers that are the same in every run. */
function* numbers(seed) {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state >>> 8;
  }
}

test("both refuse the same bytes, and the first wrong one is found", () => {
  const [web, base64] = [webCodec(), base64Codec()];
  const drawn = numbers(7);
  const LEADS = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0x9f, 0xa0, 0x8f, 0x90, 0xff];
  for (let round = 0; round < 20_000; round++) {
    const length = drawn.next().value % (round % 10 === 0 ? 120 : 6);
    const bytes = Uint8Array.from({ length }, () => LEADS[drawn.next().value % LEADS.length]);
    const decoded = [web, base64].map((codec) => {
      try {
        return codec.decode(bytes);
      } catch {
        return null;
      }
    });
    assert.equal(decoded[0], decoded[1], Buffer.from(bytes).toString("hex"));
    const wrong = firstWrong(bytes);
    assert.equal(wrong === length, decoded[0] !== null, Buffer.from(bytes).toString("hex"));
    if (decoded[0] === null) assert.equal(typeof web.decode(bytes.subarray(0, wrong)), "string");
  }
});

test("text that is none names the byte", () => {
  assert.throws(() => decodeText(Uint8Array.of(97, 255, 98), "value"), { name: "FieldError", message: "value is not UTF-8 text: byte 1 of 3 is wrong" });
});

test("a text is cut between characters", () => {
  assert.equal(cutText("short", 256), "short");
  assert.equal(cutText("ää", 3), "ä");
  assert.equal(cutText("a😀", 4), "a");
  assert.equal(encodeText(cutText("水".repeat(300), 256)).length, 255);
});

test("memory that is refused is not taken for bytes that are wrong", () => {
  const { decode } = TextDecoder.prototype;
  TextDecoder.prototype.decode = () => {
    throw new RangeError("no memory");
  };
  try {
    assert.throws(() => decodeText(Uint8Array.of(97)), { name: "RangeError", message: "no memory" });
    assert.throws(() => textOrNull(Uint8Array.of(97)), { name: "RangeError", message: "no memory" });
    assert.equal(textOrNull(Uint8Array.of(255)), null);
  } finally {
    TextDecoder.prototype.decode = decode;
  }
});
