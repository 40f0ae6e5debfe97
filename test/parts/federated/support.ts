import { createHash, randomUUID } from "node:crypto";
import { mkdtemp, rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeAll } from "vitest";
import { CLIENT_ID, CLIENT_SECRET, IdentityProvider, signInAt } from "../../support/identity-provider.ts";
import { startTestService, type TestService, type TestSettings } from "../../support/service.ts";
import type { WebClient, WebPage } from "../../support/web-client.ts";

export type LogLine = { readonly msg: string; readonly reason?: string; readonly detail?: string };

/** A service with identity providers, and a real provider of OpenID Connect. */
export type FederatedClient = {
  idp(): IdentityProvider;
  service(): TestService;
  /** Writes the file of providers again. */
  configure(entries: readonly object[]): Promise<void>;
  /** The service reads metadata and keys of the provider again, as after its start. */
  freshProvider(): Promise<void>;
  /** Starts at this path of the service and signs in at the provider. Resolves to the URL of the callback. */
  respond(browser: WebClient, path?: string, login?: string): Promise<string>;
  /** The same, and completes the sign-in. */
  signIn(browser: WebClient, path?: string, login?: string): Promise<WebPage>;
  /** Runs SQL as the owner of the database and returns the rows. */
  sql(text: string, ...values: unknown[]): Promise<any[]>;
  /** The warnings and errors in the log since the last call. */
  log(): LogLine[];
};

/** An entry of the provider for the service. */
export const oidcEntry = ({ url }: IdentityProvider, more: object = {}): object => ({
  name: "acme",
  kind: "oidc",
  issuer: url,
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  ...more,
});

export type FederatedOptions = {
  readonly entries: (idp: IdentityProvider) => readonly object[];
  readonly settings?: TestSettings | ((idp: IdentityProvider) => Promise<TestSettings>);
  readonly clock?: () => number;
  readonly isThin?: boolean;
};

export function useFederated({ entries, settings = {}, clock, isThin = false }: FederatedOptions): FederatedClient {
  let idp: IdentityProvider;
  let service: TestService;
  let file: string;
  let lines: LogLine[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  // The service may be reading the file: it never finds half of it.
  const configure = async (list: readonly object[]) => {
    await writeFile(`${file}.new`, JSON.stringify(list));
    await rename(`${file}.new`, file);
  };
  beforeAll(async () => {
    idp = await IdentityProvider.start();
    file = join(await mkdtemp(join(tmpdir(), "providers-")), "providers.json");
    await configure(entries(idp));
    const more = typeof settings === "function" ? await settings(idp) : settings;
    const all = {
      AUTH_PROVIDERS: file,
      AUTH_PROVIDERS_NETWORKS: "loopback",
      GRAPHQL_DOCUMENTS: "none",
      loginAttemptsPerAddress: 10_000,
      ...more,
    };
    service = await startTestService(all, undefined, log, clock);
    const names = entries(idp).map((entry) => entry as { name: string; kind: string });
    const urls = (end: string) => names.map(({ name, kind }) => `${service.url}/auth/${kind}/${name}/${end}`);
    if (names.length > 0) {
      await idp.register({ redirectUris: urls("callback"), postLogoutRedirectUris: urls("logout"), isThin });
    }
    return async () => {
      await service.stop();
      idp.close();
    };
  });
  afterEach(() => {
    if (idp) idp.tamper = null;
  });
  const respond: FederatedClient["respond"] = async (browser, path = "/auth/oidc/acme", login = "mary") =>
    (await signInAt(browser, `${service.url}${path}`, login)).url;
  return {
    idp: () => idp,
    service: () => service,
    configure,
    freshProvider: async () => {
      await configure(entries(idp).map((entry) => ({ ...entry, title: randomUUID() })));
      await service.service.reloadSettings();
    },
    respond,
    signIn: async (browser, path, login) => browser.request(await respond(browser, path, login)),
    sql: async (text, ...values) => (await service.database.owner.query(text, values)).rows,
    log: () => {
      const seen = lines;
      lines = [];
      return seen;
    },
  };
}

/** The title of a page of the service, or the code of a JSON error. */
export const outcomeOf = ({ status, text, json }: WebPage): string =>
  `${status} ${json?.error?.code ?? /<h1>([^<]*)/.exec(text)?.[1] ?? text.slice(0, 100)}`;

/** Where a page of the service continues. */
export const continuationOf = ({ text }: WebPage): string | undefined =>
  /http-equiv="refresh" content="0; url=([^"]*)"/.exec(text)?.[1]?.replaceAll("&#38;", "&");

export const hasSession = ({ headers }: WebPage): boolean =>
  headers.getSetCookie().some((cookie) => /^SESSION=[\w-]{43};/.test(cookie));

/** A verifier of PKCE and its challenge. */
export const VERIFIER = "a-verifier-that-only-the-page-knows-0123456789";
export const CHALLENGE = createHash("sha256").update(VERIFIER).digest("base64url");
