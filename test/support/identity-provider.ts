import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import jwt from "jsonwebtoken";
import type { WebClient, WebPage } from "./web-client.ts";

/** What a user of the provider is: the subject is the login. */
export type Person = Readonly<Record<string, unknown>>;

type Key = { readonly kid: string; readonly privateKey: KeyObject };

export type ClientOptions = {
  readonly redirectUris: readonly string[];
  readonly postLogoutRedirectUris?: readonly string[];
  /** Whether the ID token has only the subject, so that the profile must be read from the userinfo endpoint. */
  readonly isThin?: boolean;
};

export const CLIENT_ID = "content";
export const CLIENT_SECRET = "a secret of the client, known to both";

/** Changes the response to a request before it is sent; undefined leaves it. */
export type Tamper = (path: string, body: any) => unknown;

/**
 * A real provider of OpenID Connect (oidc-provider) on loopback. Tests can replace its keys and change its responses, to be
 * an attacker on the way or a provider at fault.
 */
export class IdentityProvider {
  readonly #server: Server;
  #client: ClientOptions = { redirectUris: [] };
  #listener: RequestListener = (_request, response) => void response.writeHead(503).end();
  key: Key = newKey();
  tamper: Tamper | null = null;
  /** The paths that were requested by the service. */
  requests: string[] = [];
  /** The forms that the token endpoint has received. */
  tokenRequests: URLSearchParams[] = [];
  readonly people: Record<string, Person> = {
    mary: { name: "Mary Somerville", email: "mary@acme.example", email_verified: true },
  };
  url = "";

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<IdentityProvider> {
    const server = createServer((request, response) => provider.#serve(request, response));
    const provider = new IdentityProvider(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return provider;
  }

  /** Registers the client, of which there is one. Until then the provider answers no request, and its library is not loaded. */
  async register(client: ClientOptions): Promise<void> {
    // @ts-expect-error: its types are eight packages.
    const { Provider } = await import("oidc-provider");
    this.#client = client;
    const { redirectUris, postLogoutRedirectUris = [], isThin = false } = client;
    const claims = ["name", "email", "email_verified", "groups"];
    const provider = quietly(
      () =>
        new Provider(this.url, {
          clients: [
            {
              client_id: CLIENT_ID,
              client_secret: CLIENT_SECRET,
              token_endpoint_auth_method: "client_secret_post",
              redirect_uris: [...redirectUris],
              post_logout_redirect_uris: [...postLogoutRedirectUris],
            },
          ],
          cookies: { keys: [randomUUID()] },
          jwks: {
            keys: [{ ...this.key.privateKey.export({ format: "jwk" }), kid: this.key.kid, use: "sig", alg: "RS256" }],
          },
          conformIdTokenClaims: isThin,
          claims: {
            openid: ["sub"],
            profile: claims.filter((name) => !name.startsWith("email")),
            email: ["email", "email_verified"],
          },
          findAccount: (_context: unknown, sub: string) =>
            sub in this.people ? { accountId: sub, claims: () => ({ sub, ...this.people[sub] }) } : undefined,
          features: {
            devInteractions: { enabled: true },
            rpInitiatedLogout: { enabled: true, logoutSource: askToSignOut },
          },
          renderError: write,
          ttl: {
            AccessToken: 3600,
            AuthorizationCode: 60,
            IdToken: 3600,
            Interaction: 3600,
            Session: 3600,
            Grant: 3600,
          },
        }),
    );
    provider.on("server_error", (_context: unknown, error: Error) => console.error(error));
    this.#listener = provider.callback();
  }

  /** Replaces the key, as a provider does that rotates at once. */
  rotate(): Promise<void> {
    this.key = newKey();
    return this.register(this.#client);
  }

  /** Signs the claims of an ID token again. */
  sign(claims: object, header: object = {}, key: Key = this.key): string {
    return jwt.sign(claims, key.privateKey, {
      algorithm: "RS256",
      keyid: key.kid,
      header: { alg: "RS256", ...header },
    });
  }

  /** The ID token of each token response is `change(claims)`, signed by the provider, or the text that `change` returns. */
  changeIdToken(change: (claims: jwt.JwtPayload) => object | string): void {
    this.tamper = (path, body) => {
      if (path !== "/token" || typeof body.id_token !== "string") return undefined;
      const changed = change(jwt.decode(body.id_token) as jwt.JwtPayload);
      return { ...body, id_token: typeof changed === "string" ? changed : this.sign(changed) };
    };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const [path] = request.url!.split("?");
    if (request.headers.cookie === undefined) this.requests.push(path!);
    const { tamper } = this;
    if (path === "/token") this.#record(request);
    if (tamper !== null) this.#changeResponse(response, (body) => tamper(path!, body));
    this.#listener(request, response);
  }

  #record(request: IncomingMessage): void {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => this.tokenRequests.push(new URLSearchParams(Buffer.concat(chunks).toString())));
  }

  #changeResponse(response: ServerResponse, change: (body: unknown) => unknown): void {
    const end = response.end.bind(response);
    response.end = ((body: unknown, ...more: unknown[]) => {
      const isJson = /json/.test(String(response.getHeader("content-type")));
      const changed = isJson && body ? change(JSON.parse(String(body))) : undefined;
      if (changed === undefined) return end(body as never, ...(more as []));
      response.removeHeader("content-length");
      return end(JSON.stringify(changed));
    }) as typeof response.end;
  }
}

/** As the provider's own page, which is meant for development. */
const askToSignOut = (context: { body: unknown }, form: string) =>
  write(context, `${form}<button form="op.logoutForm" name="logout" value="yes">Sign out</button>`);

function write(context: { body: unknown }, content: unknown): void {
  context.body = content;
}

/** The provider warns of what it does not have in production. */
function quietly<Result>(work: () => Result): Result {
  const { warn } = console;
  console.warn = () => {};
  try {
    return work();
  } finally {
    console.warn = warn;
  }
}

const newKey = (): Key => ({
  kid: randomUUID(),
  privateKey: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey,
});

export { newKey as newProviderKey };

/**
 * Signs in at the provider on its own pages, from the URL where the service starts. Stops before the callback of the service,
 * whose URL it returns.
 */
export async function signInAt(browser: WebClient, startUrl: string, login = "mary"): Promise<WebPage> {
  const callback = /\/auth\/(oidc|oauth2)\/[^/]+\/callback\?/;
  let page = await browser.follow(startUrl, callback);
  // The pages for the login and for the consent.
  for (let n = 0; n < 3 && !callback.test(page.url); n++) {
    page = await browser.submit(page, { login, password: "any" }, callback);
  }
  return page;
}
