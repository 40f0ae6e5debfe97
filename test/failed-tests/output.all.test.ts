import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { PROJECT } from "../support/command.ts";

let output: string;
beforeAll(async () => {
  const options = ["run", "--config=test/failed-tests/vitest.config.ts", "--no-color"];
  const run = promisify(execFile)(process.execPath, ["node_modules/vitest/vitest.mjs", ...options], { cwd: PROJECT });
  const { stdout, stderr } = await run.catch((error) => error);
  output = (stdout + stderr).replaceAll(/\[\d+ ms\]/g, "[0 ms]").replaceAll(/127\.0\.0\.1:\d+/g, "service");
});

test("a test that fails prints its requests and responses, with shortened credentials and bodies", () => {
  expect(output).toContain(`
The last requests of the test:
[0 ms] GET http://service/first
200
  content-type: application/json
  transfer-encoding: chunked
  {"path":"/first"}

[0 ms] POST http://service/notes
  content-type: text/plain;charset=UTF-8
  authorization: Bearer eyJhbGci…
  ${"x".repeat(1000)}… (1200)
409
  content-type: application/json
  transfer-encoding: chunked
  {"path":"/notes"}
`);
});

test("and the frames of its sockets", () => {
  expect(output).toContain(`
The last frames and events of the test:
[0 ms] socket 1 sent {"type":"hello"}
[0 ms] socket 1 received {"type":"welcome"}
`);
});

test("and nothing of the tests before", () => {
  expect(output).toContain("1 passed");
  expect(output).not.toContain("/before");
});
