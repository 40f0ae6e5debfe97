import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";

// A thief keeps requests open whose bodies are not complete, and completes them when the owner has signed out everywhere.

const PASSWORD = "Correct-Horse-7!";
const client = useService({ EMAIL_CONFIRM: "off" });

const CHANGES: readonly [method: string, path: string, body: object][] = [
  ["POST", "/auth/keys", { name: "of the thief" }],
  ["POST", "/auth/email", { email: "thief@test.example" }],
  ["PUT", "/auth/v1/user", { email: "thief@other.example" }],
  ["POST", "/articles", { title: "by the thief", content: "x" }],
  ["POST", "/rest/v1/articles", { title: "by the thief", content: "x" }],
  [
    "POST",
    "/graphql",
    { query: 'mutation { createArticle(input: { title: "by the thief", content: "y" }) { success } }' },
  ],
];

let count = 0;
async function newUser() {
  const email = `stella${++count}@test.example`;
  await sendJson(client, "/auth/register", { name: "Stella", email, password: PASSWORD });
  const { json } = await sendJson(client, "/auth/login", { username: email, password: PASSWORD });
  return { email, headers: { authorization: `Bearer ${json.accessToken}` } };
}

/** Begins a request, and returns what completes it and resolves to the response. */
function begin(method: string, path: string, body: object, headers: Record<string, string>) {
  const { hostname, port } = new URL(client.service().url);
  const text = JSON.stringify(body);
  const all = { ...headers, "content-type": "application/json", "content-length": text.length };
  const sent = request({ hostname, port, path, method, headers: all });
  sent.write(text.slice(0, 1));
  return async () => {
    sent.end(text.slice(1));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const chunks = await response.toArray();
    return Buffer.concat(chunks).toString();
  };
}

test("a request that has begun before a sign-out changes nothing after it", async () => {
  for (const [method, path, body] of CHANGES) {
    const { email, headers } = await newUser();
    const apikey = client.service().service.tokens.issueKey("anon");
    const complete = begin(method, path, body, { ...headers, apikey });
    // Until the service has begun the request above.
    for (let i = 0; i < 5; i++) expect((await client.send("/auth/me", { headers })).status).toBe(200);
    expect((await sendJson(client, "/auth/logout", { scope: "global" }, headers)).status).toBe(200);
    expect(await complete(), path).toMatch(/revoked|token is not valid|session_not_found/);

    expect(await client.sql("select from articles where title = 'by the thief'")).toEqual([]);
    const { json } = await sendJson(client, "/auth/login", { username: email, password: PASSWORD });
    const now = { authorization: `Bearer ${json.accessToken}` };
    expect((await client.send("/auth/me", { headers: now })).json.email).toBe(email);
    expect((await client.send("/auth/keys", { headers: now })).json.data).toEqual([]);
  }
});

test("the database refuses a new API key and another e-mail to a sign-in that has ended", async () => {
  const { email } = await newUser();
  const [{ id } = { id: "" }] = await client.sql(
    "select user_id as id from auth_private.login_emails where email = $1",
    email,
  );
  const ended = "00000000-0000-4000-8000-000000000000";
  const key = "select auth_api.create_key('user', $1, 'k', 'p', sha256('k'), now(), null, 50, $2) as outcome";
  expect(await client.sql(key, id, ended)).toEqual([{ outcome: "ended" }]);
  const change = "select auth_api.change_email($1, 'thief@third.example', null, $2) as outcome";
  expect(await client.sql(change, id, ended)).toEqual([{ outcome: "ended" }]);
  expect(await client.sql("select email from auth_private.login_emails where user_id = $1", id)).toEqual([{ email }]);
});
