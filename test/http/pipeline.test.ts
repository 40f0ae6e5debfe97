import pino from "pino";
import { beforeAll, expect, test } from "vitest";
import { openRaw } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";

type Line = { readonly level: number; readonly msg: string; readonly path?: string; readonly status?: number };

const logged: Line[] = [];
const log = pino({ level: "debug" }, { write: (line: string) => void logged.push(JSON.parse(line)) });

let started: TestService;
beforeAll(async () => {
  started = await startTestService({ API_KEY_REQUIRED: "false" }, undefined, log);
  return () => started.stop();
});

const { error: ERROR } = pino.levels.values;

test.each([
  ["/users", { error: { code: "VALIDATION_ERROR" } }],
  ["/rest/v1/users", { code: "22000", hint: null }],
  ["/graphql?query={__typename}", { errors: [{ extensions: { code: "VALIDATION_ERROR" } }] }],
])(
  "GET %s with two Authorization headers is rejected in the format of the interface, with CORS headers",
  async (path, body) => {
    const raw = await openRaw(started.url);
    const lines = [
      "Host: localhost",
      "Authorization: Bearer one",
      "Authorization: Bearer two",
      "Origin: https://app.example",
    ];
    raw.write(`GET ${path} HTTP/1.1\r\n${[...lines, "Connection: close"].join("\r\n")}\r\n\r\n`);
    const { headers } = await raw.head();
    await expect.poll(() => raw.ended).toBe(true);
    // GraphQL rejects requests with 200, unless the client accepts its own media type.
    expect(headers).toMatch(path.startsWith("/graphql") ? /^HTTP\/1.1 [24]00 / : /^HTTP\/1.1 400 /);
    expect(headers).toContain("Access-Control-Allow-Origin: *");
    expect(JSON.parse(raw.text.slice(raw.text.indexOf("{")))).toMatchObject(body);
  },
);

test.each(["/auth/login", "/users", "/graphql", "/rest/v1/comments"])(
  "an upload to %s that the client aborts is logged with status 499, and not as an error",
  async (path) => {
    logged.length = 0;
    const raw = await openRaw(started.url);
    const lines = ["Host: localhost", "Content-Type: application/json", "Content-Length: 1000", "Expect: 100-continue"];
    raw.write(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
    await raw.head();
    raw.write('{"a":');
    raw.socket.destroy();
    await expect.poll(() => logged.find((line) => line.msg === "request")).toMatchObject({ path, status: 499 });
    expect(logged.filter(({ level }) => level >= ERROR!)).toEqual([]);
  },
);
