import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newCertificate } from "../../support/certificate.ts";
import { IdentityProvider, signInAt } from "../../support/identity-provider.ts";
import { OAuthServer } from "../../support/oauth-server.ts";
import type { ResourceClient } from "../../support/resource-client.ts";
import { type ResponseParts, SamlTestProvider, startAt } from "../../support/saml-provider.ts";
import { appCode } from "../../support/totp.ts";
import { WebClient, type WebPage } from "../../support/web-client.ts";
import type { Seen } from "../openapi/responses.ts";
import { CHALLENGE, oidcEntry, VERIFIER } from "./support.ts";

const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const JSON_ONLY = { accept: "application/json" };

/** The path of a file of providers, and what uses each route of federated sign-in so that every described response occurs. */
export async function startProviders() {
  const [oidc, oauth, saml] = await Promise.all([
    IdentityProvider.start(),
    OAuthServer.start(),
    SamlTestProvider.start(),
  ]);
  const corp = { name: "corp", kind: "saml", metadata: `${saml.url}/metadata`, keys: [newCertificate("service")] };
  const file = join(mkdtempSync(join(tmpdir(), "providers-")), "providers.json");
  writeFileSync(file, JSON.stringify([oidcEntry(oidc), oauth.entry(), corp]));
  return {
    file,
    close: () => [oidc, oauth, saml].forEach((server) => void server.close()),
    use: async (client: ResourceClient, seen: Seen) => {
      const { url } = client.service();
      await oidc.register({
        redirectUris: [`${url}/auth/oidc/acme/callback`],
        postLogoutRedirectUris: [`${url}/auth/oidc/acme/logout`],
      });
      const requests = new Requests(url, seen, oauth);
      await requests.useFlows(oidc);
      await requests.useSaml(saml);
      await requests.useIdentities(client);
      await requests.useCodes(client);
      for (const path of ["/auth/oidc/acme", "/auth/saml/corp"]) await requests.signOut(client, `${path}/logout`);
    },
  };
}

class Requests {
  readonly #url: string;
  readonly #seen: Seen;
  readonly #oauth: OAuthServer;
  #people = 0;

  constructor(url: string, seen: Seen, oauth: OAuthServer) {
    this.#url = url;
    this.#seen = seen;
    this.#oauth = oauth;
  }

  async #ask(request: string, init: RequestInit = {}, from = new WebClient()): Promise<WebPage> {
    const [method, path] = request.split(" ") as [string, string];
    const page = await from.request(`${this.#url}${path}`, { method, ...init });
    this.#seen.note(request, page);
    return page;
  }

  readonly #post = (path: string, body: object, headers: Record<string, string> = {}) =>
    this.#ask(`POST ${path}`, {
      body: JSON.stringify(body),
      headers: { ...JSON_ONLY, "content-type": "application/json", ...headers },
    });

  /** The callback of a sign-in of a new person, in this browser. */
  async #callback(from: WebClient, search = ""): Promise<URL> {
    const id = ++this.#people;
    this.#oauth.profile = { id, name: `Person ${id}`, email: `person${id}@legacy.example` };
    const { url } = await from.follow(`${this.#url}/auth/oauth2/legacy${search}`, /callback\?/);
    return new URL(url);
  }

  async #signInCode(mode: "token" | "link"): Promise<string> {
    const browser = new WebClient();
    const search = `?mode=${mode}&return_to=/x&code_challenge=${CHALLENGE}`;
    const { text } = await browser.request((await this.#callback(browser, search)).href);
    return /sign_in_code=([\w-]+)/.exec(text)![1]!;
  }

  async useFlows(oidc: IdentityProvider): Promise<void> {
    await this.#ask("GET /auth/providers");
    for (const [kind, name] of [
      ["oidc", "acme"],
      ["oauth2", "legacy"],
    ] as const) {
      const path = `/auth/${kind}/${name}`;
      const finish = async (
        change: (url: URL) => void = () => {},
        search = "",
        headers: Record<string, string> = JSON_ONLY,
      ) => {
        const browser = new WebClient();
        const { url } = await signInAt(browser, `${this.#url}${path}${search}`);
        const callback = new URL(url);
        change(callback);
        return this.#ask(`GET ${callback.pathname}${callback.search}`, { headers }, browser);
      };
      await this.#ask(`GET ${path}?return_to=/app`);
      await this.#ask(`GET ${path}?return_to=https://evil.example`, { headers: JSON_ONLY });
      await this.#ask(`GET ${path}x`, { headers: JSON_ONLY });
      await this.#ask(`GET ${path}x/callback`, { headers: JSON_ONLY });
      this.#oauth.profile = { id: "mary", name: "Mary", email: "mary@legacy.example" };
      await finish(() => {}, "", { accept: "text/html" });
      await finish(() => {}, "?mode=token");
      await finish((url) => url.searchParams.set("state", "x"));
      await finish((url) => url.searchParams.set("error", "access_denied"));
      this.#oauth.profile = { id: "taken", name: "Ada", email: "ada@example.com" };
      oidc.changeIdToken((claims) => ({ ...claims, sub: "taken", name: "Ada", email: "ada@example.com" }));
      await finish();
      oidc.tamper = null;
    }
  }

  /** The response with the tokens of the next person. */
  async #signUp(): Promise<any> {
    const signInCode = await this.#signInCode("token");
    return (await this.#post("/auth/federated/token", { signInCode, codeVerifier: VERIFIER })).json;
  }

  async useIdentities(client: ResourceClient): Promise<void> {
    const ada = { authorization: `Bearer ${client.service().token("ada")}` };
    const link = async () =>
      this.#post("/auth/identities", { signInCode: await this.#signInCode("link"), codeVerifier: VERIFIER }, ada);
    const { json: identity } = await link();
    await this.#post("/auth/identities", { signInCode: "x", codeVerifier: VERIFIER }, ada);
    await this.#ask("GET /auth/identities", { headers: ada });
    const { accessToken } = await this.#signUp();
    const person = this.#people;
    this.#people = person - 1;
    await link();
    const unlink = (id: string, headers = ada) => this.#ask(`DELETE /auth/identities/${id}`, { headers });
    await unlink("x");
    await unlink(UNKNOWN);
    await unlink(identity.id);

    const headers = { authorization: `Bearer ${accessToken}` };
    const { json: list } = await this.#ask("GET /auth/identities", { headers });
    await unlink(list.data[0].id, headers);
    await this.#post("/auth/federated/token", { signInCode: "x", codeVerifier: VERIFIER });
    await client.sql(
      "update auth_private.accounts as a set disabled_at = now() from auth_private.identities as i where i.user_id = a.user_id and i.id = $1",
      list.data[0].id,
    );
    this.#people = person - 1;
    await this.#signUp();
    const email = `person${person + 1}@legacy.example`;
    await client.sql("insert into users (name, email) values ('Taken', $1)", email);
    await this.#signUp();
  }

  /** The second factor on the page. */
  async useCodes(client: ResourceClient): Promise<void> {
    const browser = new WebClient();
    await browser.request((await this.#callback(browser)).href);
    const { csrfToken } = (await browser.request(`${this.#url}/csrf-token`)).json;
    const send = (path: string) =>
      browser.request(`${this.#url}${path}`, { method: "POST", headers: { "x-csrf-token": csrfToken } });
    const { secret } = (await send("/api/mfa/enable")).json;
    await send(`/api/mfa/verify?code=${appCode(secret, Date.now())}`);

    this.#people--;
    const { text } = await browser.request((await this.#callback(browser)).href);
    const [, challenge] = /name="challenge" value="([^"]*)"/.exec(text)!;
    const CODE = "POST /auth/sign-in/code";
    const form = (code: string) => ({ body: new URLSearchParams({ challenge: challenge!, code }) });
    await this.#ask(CODE, { ...form("not a code"), headers: { accept: "text/html" } });
    await this.#ask(CODE, { ...form("000000"), headers: { ...JSON_ONLY, origin: "https://evil.example" } });
    await this.#ask(CODE, form(appCode(secret, Date.now() + 30_000)), browser);
    await this.#ask(CODE, { body: new URLSearchParams({ challenge: "x", code: "123456" }), headers: JSON_ONLY });
    await this.#ask(CODE, { body: "{}", headers: { ...JSON_ONLY, "content-type": "application/json" } });
    await this.#ask(CODE, { body: new URLSearchParams({ more: "x".repeat(200_000) }), headers: JSON_ONLY });
    await client.sql("delete from auth_private.factors");
  }

  async useSaml(saml: SamlTestProvider): Promise<void> {
    const path = "/auth/saml/corp";
    await this.#ask(`GET ${path}?return_to=/app`);
    await this.#ask(`GET ${path}?return_to=https://evil.example`, { headers: JSON_ONLY });
    for (const end of ["", "/metadata"]) await this.#ask(`GET ${path}x${end}`, { headers: JSON_ONLY });
    await this.#ask(`GET ${path}/metadata`);
    const send = async (
      body: string | URLSearchParams,
      headers: Record<string, string> = JSON_ONLY,
      from = new WebClient(),
    ) => this.#ask(`POST ${path}/acs`, { body, headers }, from);
    const finish = async (parts: Partial<ResponseParts>, search = "") => {
      const browser = new WebClient();
      const started = await startAt(browser, `${this.#url}${path}${search}`);
      const [acs, entityId] = [`${this.#url}${path}/acs`, `${this.#url}${path}/metadata`];
      const SAMLResponse = await saml.respond(started, acs, entityId, parts);
      return send(new URLSearchParams({ SAMLResponse, RelayState: started.relayState }), JSON_ONLY, browser);
    };
    await finish({}, "?mode=token");
    await finish({});
    await finish({ recipient: "https://evil.example" });
    await finish({ nameId: "taken", attributes: { email: ["ada@example.com"] } });
    const [responder, denied] = ["Responder", "AuthnFailed"].map(
      (word) => `urn:oasis:names:tc:SAML:2.0:status:${word}`,
    );
    await finish({ status: responder!, subStatus: denied! });
    await this.#ask(`POST ${path}x/acs`, { body: new URLSearchParams(), headers: JSON_ONLY });
    await send("{}", { ...JSON_ONLY, "content-type": "application/json" });
    await send(new URLSearchParams({ SAMLResponse: "A".repeat(200_000) }));
    await this.#ask(`GET ${path}/logout?SAMLRequest=x`, { headers: JSON_ONLY });
  }

  async signOut(client: ResourceClient, path: string): Promise<void> {
    await this.#ask(`GET ${path}?return_to=/bye`);
    await this.#ask(`GET ${path}?${path.includes("saml") ? "RelayState" : "state"}=x`);
    await this.#ask(`GET ${path}`, { headers: { ...JSON_ONLY, "sec-fetch-site": "cross-site" } });
    const headers = { ...JSON_ONLY, authorization: `Bearer ${(await this.#signUp()).accessToken}` };
    const key = client.service().service.tokens.issueKey("service_role");
    await this.#ask(`POST ${path}`, { headers: { ...JSON_ONLY, "x-api-key": key, origin: "https://evil.example" } });
    for (const method of ["GET", "POST"]) {
      await this.#ask(`${method} ${path}?return_to=https://evil.example`, { headers });
      await this.#ask(`${method} ${path.replace(/acme|corp/, "unknown")}`, { headers });
    }
    for (let n = 0; n < 2; n++) await this.#ask(`POST ${path}`, { headers });
  }
}
