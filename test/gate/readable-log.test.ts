import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { readableLine } from "../../gate/pipeline/readable-log.ts";

const time = "2026-11-28T03:47:14.123Z";
const read = (fields: object) => stripVTControlCharacters(readableLine(`${JSON.stringify(fields)}\n`));

test("on a terminal, a line of the log has its time, level, message and fields", () => {
  expect(read({ level: "info", time, port: 3000, msg: "ready" })).toBe('[03:47:14.123] INFO: ready {"port":3000}\n');
  expect(read({ level: "warn", time, msg: "slow" })).toBe("[03:47:14.123] WARN: slow\n");
});

test("the stack of an error follows on lines of its own", () => {
  const err = { type: "Error", message: "no", code: "42501", stack: "Error: no\n    at f" };
  expect(read({ level: "error", time, err, msg: "failed" })).toBe(
    '[03:47:14.123] ERROR: failed {"err":{"type":"Error","message":"no","code":"42501"}}\n    Error: no\n        at f\n',
  );
});

test("what a client has sent does not reach the terminal as a command", () => {
  const err = { message: "no \u001b[2J\u009b", stack: "Error: no \u001b[2J\u009b31m\n    at f" };
  const line = readableLine(JSON.stringify({ level: "error", time, err, msg: "failed \u001b]0;x\u0007" }));
  expect(stripVTControlCharacters(line)).toBe(
    '[03:47:14.123] ERROR: failed ?]0;x? {"err":{"message":"no \\u001b[2J?"}}\n    Error: no ?[2J?31m\n        at f\n',
  );
});

test("an error that is a text is shown as such", () => {
  expect(read({ level: "warn", time, err: "no", msg: "failed" })).toBe('[03:47:14.123] WARN: failed {"err":"no"}\n');
});

test("a line that is no JSON stays as it is", () => {
  expect(readableLine("{\n")).toBe("{\n");
});
