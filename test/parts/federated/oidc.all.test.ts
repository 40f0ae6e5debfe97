import { createHmac } from "node:crypto";
import { request as requestHttp } from "node:http";
import jwt from "jsonwebtoken";
import { beforeEach, describe, expect, test } from "vitest";
import { CLIENT_ID, CLIENT_SECRET, newProviderKey } from "../../support/identity-provider.ts";
import { WebClient } from "../../support/web-client.ts";
import { continuationOf, hasSession, oidcEntry, outcomeOf, useFederated } from "./support.ts";

const client = useFederated({ entries: (idp) => [oidcEntry(idp, { title: "Acme" })] });

let browser: WebClient;
beforeEach(() => {
  browser = new WebClient();
  client.log();
});

const NOT_SIGNED_IN = "401 You are not signed in";

test("a sign-in at a real provider sets a session cookie, and continues at the path that the start has named", async () => {
  const page = await client.signIn(browser, "/auth/oidc/acme?return_to=/app%3Fa%3Db");
  expect([page.status, hasSession(page)]).toEqual([200, true]);
  expect(continuationOf(page)).toBe(`${client.service().url}/app?a=b`);
  const me = await browser.request(`${client.service().url}/api/auth/me`);
  expect(me.json).toMatchObject({ username: "mary@acme.example", role: "authenticated" });
});

test("the start sends the browser to the provider with a code challenge, a state and a nonce, from a Lax cookie", async () => {
  const { url } = client.service();
  const page = await browser.request(`${url}/auth/oidc/acme?return_to=/app`);
  expect(page.status).toBe(302);
  const location = new URL(page.headers.get("location")!);
  expect(location.origin + location.pathname).toBe(`${client.idp().url}/auth`);
  expect(Object.fromEntries(location.searchParams)).toEqual({
    client_id: CLIENT_ID,
    response_type: "code",
    redirect_uri: `${url}/auth/oidc/acme/callback`,
    scope: "openid profile email",
    state: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge_method: "S256",
  });
  expect(page.headers.getSetCookie()).toEqual([
    expect.stringMatching(/^__Host-sign-in=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax; Max-Age=600$/),
  ]);
  expect(page.headers.get("cache-control")).toBe("no-store");
});

test("the code is exchanged with the form fields of the contract and the code verifier", async () => {
  client.idp().tokenRequests = [];
  const callback = new URL(await client.respond(browser));
  await browser.request(callback.href);
  const [form] = client.idp().tokenRequests;
  expect(Object.fromEntries(form!)).toEqual({
    grant_type: "authorization_code",
    code: callback.searchParams.get("code"),
    redirect_uri: `${client.service().url}/auth/oidc/acme/callback`,
    code_verifier: expect.stringMatching(/^[\w-]{43}$/),
    client_id: CLIENT_ID,
    client_secret: CLIENT_SECRET,
  });
});

test("the redirect URI is that of BASE_URL, whatever host the request names", async () => {
  const { port } = new URL(client.service().url);
  const location = await new Promise<string>((resolve, reject) => {
    const options = {
      port,
      host: "127.0.0.1",
      path: "/auth/oidc/acme",
      headers: { host: "evil.example", "x-forwarded-host": "evil.example" },
    };
    requestHttp(options, (response) => resolve(response.resume().headers.location!))
      .on("error", reject)
      .end();
  });
  expect(new URL(location).searchParams.get("redirect_uri")).toBe(`${client.service().url}/auth/oidc/acme/callback`);
});

test("sign-ins in several tabs of a browser all succeed", async () => {
  const { url } = client.service();
  const first = await browser.request(`${url}/auth/oidc/acme?return_to=/first`);
  const second = await client.signIn(browser, "/auth/oidc/acme?return_to=/second");
  expect(continuationOf(second)).toBe(`${url}/second`);
  const callback = await browser.follow(first.headers.get("location")!, /callback\?/);
  expect(continuationOf(await browser.request(callback.url))).toBe(`${url}/first`);
});

describe("a response is refused", () => {
  const refused = async (url: string, from = browser) => {
    const page = await from.request(url);
    expect([outcomeOf(page), hasSession(page)]).toEqual([NOT_SIGNED_IN, false]);
  };

  test("that arrives twice at once, but for one of them", async () => {
    const callback = await client.respond(browser);
    const pages = await Promise.all([1, 2, 3, 4].map(() => browser.request(callback)));
    expect(pages.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401]);
  });

  test("in another browser, which has a pending sign-in too, and remains valid in its own", async () => {
    const callback = await client.respond(browser);
    const other = new WebClient();
    await client.respond(other);
    await refused(callback, other);
    await refused(callback, new WebClient());
    expect((await browser.request(callback)).status).toBe(200);
  });

  test("of another provider", async () => {
    const callback = new URL(await client.respond(browser));
    callback.pathname = "/auth/oidc/other/callback";
    const page = await browser.request(callback.href);
    expect([outcomeOf(page), hasSession(page)]).toEqual(["404 You are not signed in", false]);
  });

  test("after 10 minutes", async () => {
    const callback = await client.respond(browser);
    await client.sql("update auth_private.one_time_values set expires_at = now() where kind = 'sign-in'");
    await refused(callback);
  });

  /** Each parameter of the response, changed once. */
  const MUTATIONS: Readonly<Record<string, (url: URL) => void>> = {
    "without a state": (url) => url.searchParams.delete("state"),
    "with an empty state": (url) => url.searchParams.set("state", ""),
    "with another state": (url) => url.searchParams.set("state", "x".repeat(43)),
    "with a state of another form": (url) => url.searchParams.set("state", `${url.searchParams.get("state")}'`),
    "with two states": (url) => url.searchParams.append("state", url.searchParams.get("state")!),
    "without a code": (url) => url.searchParams.delete("code"),
    "with another code": (url) => url.searchParams.set("code", "x".repeat(43)),
    "with two codes": (url) => url.searchParams.append("code", "x"),
    "without the issuer, which this provider always sends": (url) => url.searchParams.delete("iss"),
    "with another issuer": (url) => url.searchParams.set("iss", "https://evil.example"),
    "with two issuers": (url) => url.searchParams.append("iss", "https://evil.example"),
    "with an ID token of an implicit flow": (url) => url.searchParams.set("id_token", "x"),
  };
  test.each(Object.entries(MUTATIONS))("%s", async (_, mutate) => {
    const callback = new URL(await client.respond(browser));
    mutate(callback);
    await refused(callback.href);
  });

  /** Each parameter of the request, changed on the way to the provider. */
  const REQUESTS: Readonly<Record<string, (url: URL) => void>> = {
    "to another nonce": (url) => url.searchParams.set("nonce", "x".repeat(43)),
    "without a nonce": (url) => url.searchParams.delete("nonce"),
    "to another code challenge": (url) => url.searchParams.set("code_challenge", "x".repeat(43)),
  };
  test.each(Object.entries(REQUESTS))("%s", async (_, mutate) => {
    const { headers } = await browser.request(`${client.service().url}/auth/oidc/acme`);
    const location = new URL(headers.get("location")!);
    mutate(location);
    let page = await browser.follow(location.href, /callback\?/);
    for (let n = 0; n < 3 && !page.url.includes("callback?"); n++)
      page = await browser.submit(page, { login: "mary", password: "x" }, /callback\?/);
    await refused(page.url);
  });

  test("of a provider that does not know the redirect URI: it never sends one", async () => {
    const { headers } = await browser.request(`${client.service().url}/auth/oidc/acme`);
    const location = new URL(headers.get("location")!);
    location.searchParams.set("redirect_uri", "https://evil.example/callback");
    expect((await browser.follow(location.href)).status).toBe(400);
  });
});

describe("an ID token is refused", () => {
  const sign = (claims: object, header?: object, key = client.idp().key) => client.idp().sign(claims, header, key);
  const unsigned = (claims: object) =>
    `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.`;

  /** What is wrong with it. */
  const FORGED: Readonly<Record<string, (claims: jwt.JwtPayload) => object | string>> = {
    "that another key has signed": (claims) => sign(claims, {}, { ...newProviderKey(), kid: client.idp().key.kid }),
    "with an unknown key id": (claims) => sign(claims, {}, newProviderKey()),
    "with a key in its header": (claims) => {
      const key = newProviderKey();
      return sign(claims, { jwk: key.privateKey.export({ format: "jwk" }) }, key);
    },
    "that is not signed": unsigned,
    "whose signature is missing": (claims) => sign(claims).replace(/[^.]+$/, ""),
    "whose signature is cut short": (claims) => sign(claims).slice(0, -8),
    "that the client secret has signed": (claims) => jwt.sign(claims, CLIENT_SECRET, { algorithm: "HS256" }),
    "that the public key has signed, as a secret": (claims) => {
      const text = `${Buffer.from('{"alg":"HS256"}').toString("base64url")}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`;
      const jwk = JSON.stringify(client.idp().key.privateKey.export({ format: "jwk" }));
      return `${text}.${createHmac("sha256", jwk).update(text).digest("base64url")}`;
    },
    "for another audience": (claims) => ({ ...claims, aud: "another client" }),
    "for an audience beside which there are others": (claims) => ({ ...claims, aud: [CLIENT_ID, "another client"] }),
    "without an audience": ({ aud, ...claims }) => claims,
    "for another authorized party": (claims) => ({ ...claims, azp: "another client" }),
    "of another issuer": (claims) => ({ ...claims, iss: "https://evil.example" }),
    "without an issuer": ({ iss, ...claims }) => claims,
    "that has expired": (claims) => ({ ...claims, exp: claims.iat! - 60 }),
    "without an expiry": ({ exp, ...claims }) => claims,
    "that is not valid yet": (claims) => ({ ...claims, nbf: claims.exp! + 60 }),
    "without a time of issue": ({ iat, ...claims }) => signWithoutTime(claims),
    "with another nonce": (claims) => ({ ...claims, nonce: "x".repeat(43) }),
    "without a nonce": ({ nonce, ...claims }) => claims,
    "without a subject": ({ sub, ...claims }) => claims,
    "with a subject that is no text": (claims) => ({ ...claims, sub: 7 }),
    "with an empty subject": (claims) => ({ ...claims, sub: "" }),
    "with a critical extension": (claims) => sign(claims, { crit: ["b64"], b64: false }),
    "that is no token": () => "x",
  };
  const signWithoutTime = (claims: object) =>
    jwt.sign(claims, client.idp().key.privateKey, {
      algorithm: "RS256",
      keyid: client.idp().key.kid,
      noTimestamp: true,
    });

  test.each(Object.entries(FORGED))("%s", async (_, forge) => {
    client.idp().changeIdToken(forge);
    const page = await client.signIn(browser);
    expect([outcomeOf(page), hasSession(page)]).toEqual([NOT_SIGNED_IN, false]);
    expect(client.log()).toEqual([expect.objectContaining({ reason: "not verified" })]);
  });

  test("that is missing", async () => {
    client.idp().tamper = (path, { id_token, ...body }) => (path === "/token" ? body : undefined);
    expect(outcomeOf(await client.signIn(browser))).toBe(NOT_SIGNED_IN);
  });

  test("unless nothing in it is forged", async () => {
    client.idp().changeIdToken((claims) => claims);
    expect(outcomeOf(await client.signIn(browser))).toBe("200 You are signed in");
  });
});

describe("if the sign-in fails at the provider", () => {
  const respondWith = async (error: string) => {
    const callback = new URL(await client.respond(browser));
    callback.searchParams.delete("code");
    callback.searchParams.set("error", error);
    callback.searchParams.set("error_description", "<script>alert(1)</script> secret detail");
    return browser.request(callback.href);
  };

  test("the page says that it was cancelled and offers another try", async () => {
    const page = await respondWith("access_denied");
    expect(outcomeOf(page)).toBe("403 You are not signed in");
    expect(page.text).toContain("The sign-in was cancelled");
    expect(page.text).toContain(`href="${client.service().url}/auth/oidc/acme"`);
    expect(page.text).not.toMatch(/script|secret detail/);
    expect(page.headers.get("content-security-policy")).toMatch(/^default-src 'none'/);
  });

  test("the page says that the provider does not respond as expected", async () => {
    const page = await respondWith("server_error");
    expect([outcomeOf(page), page.headers.get("retry-after")]).toEqual(["503 You are not signed in", "5"]);
    expect(page.text).not.toContain("server_error");
    expect(client.log()).toEqual([expect.objectContaining({ detail: "the provider returned the error server_error" })]);
  });

  test("a client that does not accept HTML receives the error as JSON", async () => {
    const callback = new URL(await client.respond(browser));
    callback.searchParams.set("error", "access_denied");
    const page = await browser.request(callback.href, { headers: { accept: "application/json" } });
    expect(outcomeOf(page)).toBe("403 PERMISSION_DENIED");
    expect(page.json.error.hint).toBe("Nothing has changed. You can try again.");
  });
});

describe("the keys of the provider", () => {
  const keyRequests = () => client.idp().requests.filter((path) => path === "/jwks").length;
  const outcomes = (count: number) =>
    Promise.all(Array.from({ length: count }, async () => outcomeOf(await client.signIn(new WebClient()))));

  test("are read again for a new key id, also right after they were read, and once for all sign-ins that wait", async () => {
    await client.freshProvider();
    await client.signIn(browser);
    client.idp().requests = [];
    await client.idp().rotate();
    expect(new Set(await outcomes(3))).toEqual(new Set(["200 You are signed in"]));
    expect(keyRequests()).toBe(1);
  });

  test("are requested once more at most, however many key ids are invented", async () => {
    await client.freshProvider();
    client.idp().requests = [];
    client.idp().changeIdToken((claims) => client.idp().sign(claims, {}, newProviderKey()));
    expect(new Set([...(await outcomes(3)), ...(await outcomes(1))])).toEqual(new Set([NOT_SIGNED_IN]));
    expect(keyRequests()).toBe(2);
  });

  test("stay if they cannot be read again, and the log says so", async () => {
    await client.freshProvider();
    await client.signIn(browser);
    const { key } = client.idp();
    client.idp().tamper = (path, body) => {
      if (path === "/jwks") return {};
      return path === "/token" ? { ...body, id_token: sign(body.id_token, newProviderKey()) } : undefined;
    };
    const sign = (idToken: string, by = key) => client.idp().sign(jwt.decode(idToken) as object, {}, by);
    expect(await outcomes(1)).toEqual([NOT_SIGNED_IN]);
    expect(client.log().map(({ msg }) => msg)).toContain("the keys of an identity provider cannot be read");
    client.idp().tamper = (path) => (path === "/jwks" ? {} : undefined);
    expect(await outcomes(1)).toEqual(["200 You are signed in"]);
  });
});
