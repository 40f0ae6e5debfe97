import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newCertificate } from "../../support/certificate.ts";
import { sendTo } from "../../support/resource-client.ts";
import { readRequest, SamlTestProvider, startAt } from "../../support/saml-provider.ts";
import { WebClient } from "../../support/web-client.ts";
import { oidcEntry, outcomeOf, useFederated } from "./support.ts";

const client = useFederated({ entries: (idp) => [oidcEntry(idp)] });

let browser: WebClient;
beforeEach(() => {
  browser = new WebClient();
});
const url = (path = "") => client.service().url + path;
const LOGOUT = "/auth/oidc/acme/logout";
const isSignedIn = async (from = browser) => (await from.request(url("/api/auth/me"))).status === 200;
/** Leaves the page of the provider that asks whether to sign out. */
const confirmAtProvider = async (location: string) => {
  const page = await browser.follow(location, /\/auth\/oidc\/acme\/logout/);
  return browser.submit(page, { logout: "yes" }, /\/auth\/oidc\/acme\/logout/);
};

test("a link ends the session here, then at the provider, and returns to the page that the link has named", async () => {
  await client.signIn(browser);
  const page = await browser.request(url(`${LOGOUT}?return_to=/bye`));
  expect(page.status).toBe(303);
  const location = new URL(page.headers.get("location")!);
  expect(location.origin + location.pathname).toBe(`${client.idp().url}/session/end`);
  expect(Object.fromEntries(location.searchParams)).toEqual({
    client_id: "content",
    post_logout_redirect_uri: url(LOGOUT),
    state: expect.stringMatching(/^[\w-]{43}$/),
    id_token_hint: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
  });
  expect(await isSignedIn()).toBe(false);
  const events = await client.sql("select detail from auth_private.security_events where event = 'logout'");
  expect(events.at(-1)).toEqual({ detail: { by: "session", scope: "local" } });

  const back = await confirmAtProvider(location.href);
  const done = await browser.request(back.url);
  expect([done.status, done.headers.get("location")]).toEqual([303, url("/bye")]);
  // The provider asks for the password again.
  const again = await browser.follow(url("/auth/oidc/acme"), /callback\?/);
  expect(again.url).not.toMatch(/callback\?/);
});

test("the response of the provider works once; otherwise a page says that the user is signed out", async () => {
  await client.signIn(browser);
  const { headers } = await browser.request(url(`${LOGOUT}?return_to=/bye`));
  const back = await confirmAtProvider(headers.get("location")!);
  expect((await browser.request(back.url)).status).toBe(303);
  for (const again of [back.url, url(`${LOGOUT}?state=x`), url(`${LOGOUT}?state=${"x".repeat(43)}`)])
    expect(outcomeOf(await browser.request(again))).toBe("200 You are signed out");
});

test("a page of another origin cannot sign the user out", async () => {
  await client.signIn(browser);
  for (const headers of [
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { origin: "https://evil.example" },
  ] as Record<string, string>[])
    expect(outcomeOf(await browser.request(url(LOGOUT), { headers }))).toBe("403 You are not signed out");
  expect(outcomeOf(await browser.request(url(`${LOGOUT}?return_to=https://evil.example`)))).toBe(
    "400 You are not signed out",
  );
  expect(await isSignedIn()).toBe(true);
});

test("without a session the provider is asked without a hint", async () => {
  const { headers } = await browser.request(url(LOGOUT));
  expect(new URL(headers.get("location")!).searchParams.has("id_token_hint")).toBe(false);
});

test("the ID token is encrypted in the database, and forgotten when it was used", async () => {
  await client.signIn(browser);
  const signIns = () => client.sql("select sign_in from auth_private.identities where sign_in is not null");
  const [{ sign_in: sealed }] = await signIns();
  expect(sealed.toString("latin1")).not.toMatch(/eyJ/);
  await browser.request(url(LOGOUT));
  expect(await signIns()).toEqual([]);
});

test("a client with tokens ends them, and receives the URL at the provider", async () => {
  const { json: tokens } = await client.signIn(browser, "/auth/oidc/acme?mode=token");
  const headers = { authorization: `Bearer ${tokens.accessToken}` };
  const { status, json } = await sendTo(url(), `POST ${LOGOUT}?return_to=/bye`, { headers });
  expect([status, json.message]).toEqual([200, "signed out"]);
  expect(new URL(json.location).searchParams.get("id_token_hint")).toMatch(/^eyJ/);
  expect((await sendTo(url(), "GET /auth/identities", { headers })).status).toBe(401);
  const back = await confirmAtProvider(json.location);
  expect((await browser.request(back.url)).headers.get("location")).toBe(url("/bye"));
});

test("a POST with the cookie needs the CSRF token, and ends only the session", async () => {
  await client.signIn(browser);
  const tokens = (await client.signIn(browser, "/auth/oidc/acme?mode=token")).json;
  const refused = await browser.request(url(LOGOUT), { method: "POST", headers: { accept: "application/json" } });
  expect(outcomeOf(refused)).toBe("403 PERMISSION_DENIED");
  const { csrfToken } = (await browser.request(url("/csrf-token"))).json;
  const done = await browser.request(url(LOGOUT), { method: "POST", headers: { "x-csrf-token": csrfToken } });
  expect([done.status, await isSignedIn()]).toEqual([200, false]);
  const headers = { authorization: `Bearer ${tokens.accessToken}` };
  expect((await sendTo(url(), "GET /auth/identities", { headers })).status).toBe(200);
});

test("a user is signed out here even if the provider does not respond, which a page says", async () => {
  await client.signIn(browser);
  const { accessToken } = (await client.signIn(browser, "/auth/oidc/acme?mode=token")).json;
  const headers = { authorization: `Bearer ${accessToken}` };
  await client.freshProvider();
  client.idp().tamper = (path) => (path.startsWith("/.well-known") ? {} : undefined);
  const page = await browser.request(url(`${LOGOUT}?return_to=/bye`));
  expect([outcomeOf(page), await isSignedIn()]).toEqual(["200 You are signed out", false]);
  expect(page.text).toContain("The provider has not confirmed");
  const { status, json } = await sendTo(url(), `POST ${LOGOUT}`, { headers });
  expect([status, json]).toEqual([200, { message: "signed out, but not at the provider", location: null }]);
  expect((await sendTo(url(), "GET /auth/identities", { headers })).status).toBe(401);
  client.idp().tamper = null;
  await client.freshProvider();
});

test("an anonymous POST is refused", async () => {
  const page = await browser.request(url(LOGOUT), { method: "POST", headers: { accept: "application/json" } });
  expect(outcomeOf(page)).toBe("401 AUTH_REQUIRED");
});

describe("at a SAML provider", () => {
  const SAML_LOGOUT = "/auth/saml/corp/logout";
  const SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success";
  let idp: SamlTestProvider;
  beforeAll(async () => {
    idp = await SamlTestProvider.start();
    const keys = [newCertificate("service")];
    const corp = { name: "corp", kind: "saml", metadata: `${idp.url}/metadata`, keys };
    await client.configure([
      oidcEntry(client.idp()),
      corp,
      { ...corp, name: "by-attribute", claims: { subject: "uid" } },
    ]);
    await client.service().service.reloadSettings();
  });
  afterAll(() => idp?.close());

  async function signIn(): Promise<void> {
    const request = await startAt(browser, url("/auth/saml/corp"));
    const response = await idp.respond(request, url("/auth/saml/corp/acs"), url("/auth/saml/corp/metadata"));
    const body = new URLSearchParams({ SAMLResponse: response, RelayState: request.relayState });
    await browser.request(url("/auth/saml/corp/acs"), { method: "POST", body });
    expect(await isSignedIn()).toBe(true);
  }
  /** The response to a request, whose parts may be replaced. */
  const responseTo = (
    request: { id: string },
    { issuer = idp.entityId, destination = url(SAML_LOGOUT), status = SUCCESS, id = request.id } = {},
  ) =>
    `<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_r" Version="2.0" IssueInstant="2030-01-01T00:00:00Z" Destination="${destination}" InResponseTo="${id}"><saml:Issuer>${issuer}</saml:Issuer><samlp:Status><samlp:StatusCode Value="${status}"/></samlp:Status></samlp:LogoutResponse>`;
  const start = async () =>
    readRequest((await browser.request(url(`${SAML_LOGOUT}?return_to=/bye`))).headers.get("location")!);

  test("the provider receives a signed request with the subject and the session, and its response returns the browser", async () => {
    await signIn();
    const page = await browser.request(url(`${SAML_LOGOUT}?return_to=/bye`));
    const location = page.headers.get("location")!;
    expect(location.startsWith(`${idp.url}/slo?`)).toBe(true);
    expect(new URL(location).searchParams.get("Signature")).toMatch(/^[\w+/=]{300,}$/);
    const request = readRequest(location);
    expect(request.xml).toMatch(/<saml:NameID Format="[^"]*:persistent">mary-7<\/saml:NameID>/);
    expect(request.xml).toMatch(/SessionIndex[^>]*>session-1</);
    expect(await isSignedIn()).toBe(false);

    const back = await browser.request(
      idp.redirect(url(SAML_LOGOUT), "SAMLResponse", responseTo(request), request.relayState),
    );
    expect([back.status, back.headers.get("location")]).toEqual([303, url("/bye")]);
    const again = await browser.request(
      idp.redirect(url(SAML_LOGOUT), "SAMLResponse", responseTo(request), request.relayState),
    );
    expect([outcomeOf(again), again.headers.get("location")]).toEqual(["200 You are signed out", null]);
  });

  test("without a session there is nothing to end at the provider", async () => {
    const page = await browser.request(url(`${SAML_LOGOUT}?return_to=/bye`));
    expect([page.status, page.headers.get("location")]).toEqual([303, url("/bye")]);
  });

  const UNCONFIRMED: readonly [string, (request: { id: string; relayState: string }) => string][] = [
    [
      "of another issuer",
      (request) =>
        idp.redirect(
          url(SAML_LOGOUT),
          "SAMLResponse",
          responseTo(request, { issuer: "https://evil.example" }),
          request.relayState,
        ),
    ],
    [
      "for another destination",
      (request) =>
        idp.redirect(
          url(SAML_LOGOUT),
          "SAMLResponse",
          responseTo(request, { destination: "https://other.example" }),
          request.relayState,
        ),
    ],
    [
      "to another request",
      (request) =>
        idp.redirect(url(SAML_LOGOUT), "SAMLResponse", responseTo(request, { id: "_another" }), request.relayState),
    ],
    [
      "that reports a failure",
      (request) =>
        idp.redirect(
          url(SAML_LOGOUT),
          "SAMLResponse",
          responseTo(request, { status: "urn:oasis:names:tc:SAML:2.0:status:Responder" }),
          request.relayState,
        ),
    ],
    [
      "that another key has signed",
      (request) =>
        idp.redirect(
          url(SAML_LOGOUT),
          "SAMLResponse",
          responseTo(request),
          request.relayState,
          newCertificate("stranger"),
        ),
    ],
    [
      "that is not signed",
      (request) =>
        idp
          .redirect(url(SAML_LOGOUT), "SAMLResponse", responseTo(request), request.relayState)
          .replace(/&SigAlg=.*$/, ""),
    ],
    [
      "with another message beside the signed one",
      (request) =>
        idp
          .redirect(url(SAML_LOGOUT), "SAMLResponse", responseTo(request), request.relayState)
          .replace("?", "?SAMLResponse=x&"),
    ],
    [
      "that expands to 50 MB",
      (request) =>
        idp.redirect(
          url(SAML_LOGOUT),
          "SAMLResponse",
          responseTo(request).replace("<saml:Issuer>", `${" ".repeat(1_000_000)}<saml:Issuer>`),
          request.relayState,
        ),
    ],
  ];
  test.each(UNCONFIRMED)("a response %s does not confirm the sign-out", async (_, respond) => {
    await signIn();
    const page = await browser.request(respond(await start()));
    expect(outcomeOf(page)).toBe("200 You are signed out");
    expect(page.text).toContain("The provider has not confirmed");
    expect(await isSignedIn()).toBe(false);
  });

  const requestOf = (
    nameId: string,
    { issuer = idp.entityId, notOnOrAfter = new Date(Date.now() + 60_000).toISOString() } = {},
  ) =>
    `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_${Math.random()}" Version="2.0" IssueInstant="${new Date().toISOString()}" NotOnOrAfter="${notOnOrAfter}" Destination="${url(SAML_LOGOUT)}"><saml:Issuer>${issuer}</saml:Issuer><saml:NameID>${nameId}</saml:NameID></samlp:LogoutRequest>`;
  const send = (xml: string, key = idp.keys[0]!) =>
    new WebClient().request(idp.redirect(url(SAML_LOGOUT), "SAMLRequest", xml, "of the provider", key));

  test("the provider may end all sign-ins of a user, once with each request, and receives a signed response", async () => {
    await signIn();
    const xml = requestOf("mary-7");
    const page = await send(xml);
    const location = page.headers.get("location")!;
    expect(location.startsWith(`${idp.url}/slo-response?`)).toBe(true);
    const { searchParams } = new URL(location);
    expect([searchParams.get("RelayState"), searchParams.has("Signature")]).toEqual(["of the provider", true]);
    expect(readRequest(location.replace("SAMLResponse", "SAMLRequest")).xml).toContain(`Value="${SUCCESS}"`);
    expect(await isSignedIn()).toBe(false);

    await signIn();
    expect(outcomeOf(await send(xml))).toBe("401 You are not signed out");
    expect(await isSignedIn()).toBe(true);
  });

  test("a request of the provider for an unknown user ends nothing, and the response says so", async () => {
    await signIn();
    const { headers } = await send(requestOf("someone else"));
    expect(readRequest(headers.get("location")!.replace("SAMLResponse", "SAMLRequest")).xml).toContain(
      "UnknownPrincipal",
    );
    expect(await isSignedIn()).toBe(true);
  });

  test.each([
    ["of another issuer", () => send(requestOf("mary-7", { issuer: "https://evil.example" }))],
    ["that has expired", () => send(requestOf("mary-7", { notOnOrAfter: new Date(Date.now() - 1000).toISOString() }))],
    ["that another key has signed", () => send(requestOf("mary-7"), newCertificate("stranger"))],
    [
      "that is not signed",
      () => {
        const signed = idp.redirect(url(SAML_LOGOUT), "SAMLRequest", requestOf("mary-7"), "x", idp.keys[0]!);
        return new WebClient().request(signed.replace(/&SigAlg=.*$/, ""));
      },
    ],
    ["for another destination", () => send(requestOf("mary-7").replace(url(SAML_LOGOUT), "https://other.example"))],
  ])("a request %s is refused", async (_, request) => {
    await signIn();
    expect(outcomeOf(await request())).toBe("401 You are not signed out");
    expect(await isSignedIn()).toBe(true);
  });

  test("a provider that calls itself by the name of another one cannot sign its users out", async () => {
    await signIn();
    const evil = { name: "evil", kind: "saml", metadata: `${idp.url}/metadata?evil` };
    await client.configure([{ name: "corp", kind: "saml", metadata: `${idp.url}/metadata` }, evil]);
    await client.service().service.reloadSettings();
    const xml = requestOf("mary-7").replace(SAML_LOGOUT, "/auth/saml/evil/logout");
    const request = idp.redirect(url("/auth/saml/evil/logout"), "SAMLRequest", xml, "x");
    expect(outcomeOf(await browser.request(request))).toBe("503 You are not signed out");
    expect(await isSignedIn()).toBe(true);
  });
});
