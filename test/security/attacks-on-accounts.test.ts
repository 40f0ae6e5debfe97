import { readFileSync } from "node:fs";
import { request } from "node:http";
import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";

const server = await startMailServer();
const client = useService(server.settings);

const [, table = ""] = /#### Attacks on accounts\n\n([\s\S]*?)\n\n/.exec(readFileSync("SECURITY.md", "utf8")) ?? [];
const rows = [...table.matchAll(/^\| ([^|]+) \| [^|]+ \| `([^`]+)`: ([^|]+) \|$/gm)].map(([, ...row]) => row);

test("the table of attacks in SECURITY.md has rows", () => expect(rows.length).toBeGreaterThanOrEqual(32));

test.each(rows)("the test of SECURITY.md against this attack exists: %s", (_attack, file, name) => {
  expect(readFileSync(file!, "utf8")).toContain(`("${name}", async`);
});

test("a Host header of an attacker is not in the link of an e-mail", async () => {
  const { hostname, port, origin } = new URL(client.service().url);
  const body = JSON.stringify({ email: "ada@example.com" });
  const headers = {
    host: "evil.example",
    "x-forwarded-host": "evil.example",
    "content-type": "application/json",
    "content-length": body.length,
  };
  const status = await new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path: "/auth/forgot", method: "POST", headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject).end(body);
  });
  expect(status).toBe(202);
  const mail = await server.next("ada@example.com");
  expect(linkIn(mail).url.startsWith(`${origin}/auth/link?token=`)).toBe(true);
  expect(mail.text + mail.html).not.toContain("evil.example");
});
