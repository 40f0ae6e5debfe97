import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Granted = { readonly redirectUri: string; readonly challenge: string };

/**
 * A provider of OAuth 2.0 without ID tokens, on loopback. It signs its only user in without asking, and checks every field of the
 * code exchange.
 */
export class OAuthServer {
  readonly #server: Server;
  readonly #codes = new Map<string, Granted>();
  url = "";
  readonly clientId = "content";
  readonly clientSecret = "a secret of the client";
  /** What the userinfo endpoint returns. */
  profile: unknown = { id: 4711, login: "mary", name: "Mary Somerville", email: "mary@legacy.example" };
  /** Changes the status and the body of a response, which may be a Buffer of another format; null leaves them. */
  tamper: ((path: string, body: any) => { status?: number; body: unknown } | null) | null = null;
  exchanges: Record<string, string>[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<OAuthServer> {
    const server = createServer((request, response) => void oauth.#serve(request, response));
    const oauth = new OAuthServer(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    oauth.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return oauth;
  }

  /** An entry of this provider for the service. */
  entry(more: object = {}): object {
    return {
      name: "legacy",
      kind: "oauth2",
      authorizationUrl: `${this.url}/authorize?tenant=7`,
      tokenUrl: `${this.url}/token`,
      userinfoUrl: `${this.url}/user`,
      clientId: this.clientId,
      clientSecret: this.clientSecret,
      scopes: ["user:read"],
      ...more,
    };
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.url);
    if (url.pathname === "/authorize") return this.#authorize(url.searchParams, response);
    const [status, body] = url.pathname === "/token" ? await this.#exchange(request) : this.#user(request);
    const changed = this.tamper?.(url.pathname, body) ?? null;
    response.writeHead(changed?.status ?? status, { "content-type": "application/json" });
    const sent = changed === null ? body : changed.body;
    response.end(Buffer.isBuffer(sent) ? sent : JSON.stringify(sent));
  }

  #authorize(parameters: URLSearchParams, response: ServerResponse): void {
    const code = randomUUID();
    const redirectUri = parameters.get("redirect_uri")!;
    this.#codes.set(code, { redirectUri, challenge: parameters.get("code_challenge")! });
    const location = new URL(redirectUri);
    location.searchParams.set("code", code);
    location.searchParams.set("state", parameters.get("state")!);
    response.writeHead(302, { location: location.href }).end();
  }

  async #exchange(request: IncomingMessage): Promise<[number, object]> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString()));
    this.exchanges.push(form);
    const granted = this.#codes.get(form.code ?? "");
    this.#codes.delete(form.code ?? "");
    const isRight =
      request.method === "POST" &&
      form.grant_type === "authorization_code" &&
      form.client_id === this.clientId &&
      form.client_secret === this.clientSecret &&
      form.redirect_uri === granted?.redirectUri &&
      createHash("sha256")
        .update(form.code_verifier ?? "")
        .digest("base64url") === granted?.challenge;
    if (!isRight) return [400, { error: "invalid_grant" }];
    return [200, { access_token: "an access token", refresh_token: "x", expires_in: 3600, token_type: "bearer" }];
  }

  #user(request: IncomingMessage): [number, unknown] {
    return request.headers.authorization === "Bearer an access token" ? [200, this.profile] : [401, {}];
  }
}
