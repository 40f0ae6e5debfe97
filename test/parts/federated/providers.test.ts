import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CLIENT_ID, CLIENT_SECRET } from "../../support/identity-provider.ts";
import { sendTo } from "../../support/resource-client.ts";
import { WebClient } from "../../support/web-client.ts";
import { hasSession, oidcEntry, outcomeOf, useFederated } from "./support.ts";

const client = useFederated({
  entries: (idp) => [oidcEntry(idp)],
  settings: { AUTH_SECRET_ACME: CLIENT_SECRET },
  isThin: true,
});

beforeEach(() => void client.log());
afterEach(async () => {
  client.idp().tamper = null;
  await client.sql("delete from auth_private.providers");
  await configure(oidcEntry(client.idp()));
});

const url = (path = "") => client.service().url + path;
const names = async () =>
  (await sendTo(url(), "GET /auth/providers", {})).json.data.map(({ name }: { name: string }) => name);
async function configure(...entries: object[]): Promise<void> {
  await client.configure(entries);
  await client.service().service.reloadSettings();
}

describe("if the ID token has only the subject", () => {
  test("the profile is read from the userinfo endpoint", async () => {
    client.idp().requests = [];
    const browser = new WebClient();
    expect(hasSession(await client.signIn(browser))).toBe(true);
    expect((await browser.request(url("/api/auth/me"))).json.username).toBe("mary@acme.example");
    expect(client.idp().requests).toContain("/me");
  });

  test.each([
    ["of another subject", (body: object) => ({ ...body, sub: "someone else" })],
    ["without a subject", ({ sub, ...body }: any) => body],
  ])("a profile %s is refused", async (_, change) => {
    client.idp().tamper = (path, body) => (path === "/me" ? change(body) : undefined);
    const page = await client.signIn(new WebClient());
    expect([outcomeOf(page), hasSession(page)]).toEqual(["401 You are not signed in", false]);
  });

  test("claims of the ID token win over those of the profile, which is not signed", async () => {
    client.idp().changeIdToken((claims) => ({ ...claims, email: "signed@acme.example" }));
    const { tamper } = client.idp();
    client.idp().tamper = (path, body) =>
      path === "/me" ? { ...body, email: "forged@acme.example" } : tamper!(path, body);
    await client.sql("delete from auth_private.identities");
    await client.sql("delete from users where email = 'mary@acme.example'");
    expect(hasSession(await client.signIn(new WebClient()))).toBe(true);
    expect(await client.sql("select from users where email = 'signed@acme.example'")).toHaveLength(1);
  });
});

describe("a provider whose metadata are not acceptable is not used, and the log says why", () => {
  const CASES: readonly [string, (body: any) => unknown, RegExp][] = [
    [
      "another issuer",
      (body) => ({ ...body, issuer: "https://evil.example" }),
      /names the issuer "https:\/\/evil\.example"/,
    ],
    ["a placeholder for the tenant", (body) => ({ ...body, issuer: `${body.issuer}/{tenantid}` }), /names the issuer/],
    ["no token endpoint", ({ token_endpoint, ...body }) => body, /have no token_endpoint/],
    ["no keys", ({ jwks_uri, ...body }) => body, /has no jwks_uri/],
    ["a list", () => [], /did not return a JSON object/],
  ];
  test.each(CASES)("because they have %s", async (_, change, reason) => {
    await configure(oidcEntry(client.idp(), { name: "strange" }));
    client.idp().tamper = (path, body) => (path.startsWith("/.well-known") ? change(body) : undefined);
    const page = await new WebClient().request(url("/auth/oidc/strange"));
    expect(outcomeOf(page)).toBe("503 You are not signed in");
    expect(
      client
        .log()
        .map(({ detail }) => detail)
        .join(),
    ).toMatch(reason);
  });

  /** Endpoints inside the network of the service, at which the provider points it. */
  const INSIDE = [
    "https://169.254.169.254/latest/",
    "https://10.0.0.1/",
    "https://[fd00::1]/",
    "http://192.168.1.1/",
    "file:///etc/passwd",
  ];
  test.each(INSIDE)("because an endpoint is at %s", async (endpoint) => {
    for (const name of ["token_endpoint", "jwks_uri", "userinfo_endpoint"]) {
      await configure(oidcEntry(client.idp(), { name: "acme", title: `${name} ${endpoint}` }));
      client.idp().tamper = (path, body) =>
        path.startsWith("/.well-known") ? { ...body, [name]: endpoint } : undefined;
      const page = await client.signIn(new WebClient());
      expect([name, page.status >= 400, hasSession(page)]).toEqual([name, true, false]);
      expect(client.log().at(-1)!.detail).toMatch(/not a public address|https|protocol|HTTP/i);
    }
  });

  test("because they redirect", async () => {
    const moved = { name: "moved", kind: "oidc", issuer: `${client.idp().url}/auth`, clientId: CLIENT_ID };
    await configure(moved);
    expect(outcomeOf(await new WebClient().request(url("/auth/oidc/moved")))).toBe("503 You are not signed in");
  });
});

describe("providers of the table", () => {
  const define = (name: string, definition: object) =>
    client.sql("insert into auth_private.providers values ($1, $2)", name, JSON.stringify(definition));
  const definition = () => {
    const { name, ...rest } = oidcEntry(client.idp(), { clientSecret: { env: "AUTH_SECRET_ACME" } }) as any;
    return rest;
  };

  test("are used within a second, and no longer when they are deleted", async () => {
    await define("in-table", definition());
    await expect.poll(names).toEqual(["acme", "in-table"]);
    const page = await new WebClient().request(url("/auth/oidc/in-table"));
    expect(page.headers.get("location")).toMatch(`${client.idp().url}/auth?`);
    await client.sql("delete from auth_private.providers");
    await expect.poll(names).toEqual(["acme"]);
  });

  test("have no secrets: they name environment variables that are meant for them", async () => {
    await expect(define("x", { ...definition(), clientSecret: "in clear text" })).rejects.toMatchObject({
      constraint: "providers_secrets_elsewhere",
    });
    await expect(define("X y", definition())).rejects.toMatchObject({ constraint: "providers_name_format" });
    await define("curious", { ...definition(), clientSecret: { env: "JWT_SECRET" } });
    await define("nosy", { ...definition(), clientSecret: { file: "/etc/passwd" } });
    await expect
      .poll(() =>
        client
          .log()
          .map(({ msg }) => msg)
          .join(),
      )
      .toContain("AUTH_SECRET_");
    expect(await names()).toEqual(["acme"]);
  });

  test("with a domain of another provider are reported", async () => {
    const saml = { kind: "saml", metadata: `${client.idp().url}/metadata`, domains: ["corp.example"] };
    await configure(oidcEntry(client.idp()), { name: "corp", ...saml });
    await define("branch", { ...saml, domains: ["branch.example", "corp.example"] });
    await define("copy", { ...saml, domains: ["branch.example"] });
    await expect.poll(names).toEqual(["acme", "corp", "branch", "copy"]);
    const messages = client.log().map(({ msg }) => msg);
    expect(messages).toContain("the domain corp.example of the provider branch finds corp, which has it too");
    expect(messages).toContain("the domain branch.example of the provider copy finds branch, which has it too");
  });

  test("do not replace those of the file, and a faulty one does not harm the others", async () => {
    await define("acme", { ...definition(), clientId: "another" });
    await define("broken", { kind: "oidc" });
    await define("in-table", definition());
    await expect.poll(names).toEqual(["acme", "in-table"]);
    const page = await new WebClient().request(url("/auth/oidc/acme"));
    expect(new URL(page.headers.get("location")!).searchParams.get("client_id")).toBe(CLIENT_ID);
    const messages = client.log().map(({ msg }) => msg);
    expect(messages).toContain("a provider of the table is not used: AUTH_PROVIDERS has one of this name");
    expect(messages.find((msg) => msg.startsWith("the provider broken of the table: "))).toBeDefined();
  });
});

describe("when the file is read again", () => {
  test("providers are added and removed", async () => {
    await configure(oidcEntry(client.idp(), { name: "second" }));
    expect(await names()).toEqual(["second"]);
    expect(outcomeOf(await new WebClient().request(url("/auth/oidc/acme")))).toBe("404 You are not signed in");
  });

  test("a faulty file changes nothing, and the log says what is wrong", async () => {
    await configure({ name: "acme", kind: "ldap" });
    expect(await names()).toEqual(["acme"]);
    expect(client.log().map(({ msg }) => msg)[0]).toMatch(
      /^AUTH_PROVIDERS names a file in which \[0\]\.kind must be oidc, oauth2 or saml/,
    );
  });

  test("a sign-in that has begun at another issuer is not continued at the new one", async () => {
    const browser = new WebClient();
    const callback = await client.respond(browser);
    await configure({ ...oidcEntry(client.idp()), issuer: `${client.idp().url}/other` });
    expect(outcomeOf(await browser.request(callback))).toBe("401 You are not signed in");
  });
});
