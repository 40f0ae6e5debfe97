import type { Client, Reply } from "../../support/http-client.ts";

export const PASSWORD = "Correct-Horse-7!";

/** The user ada, as sign-ins return it. */
export const ADA = {
  id: 1,
  name: "Ada Lovelace",
  username: "ada",
  email: "ada@example.com",
  emailConfirmed: false,
  role: "authenticated",
  permissions: [],
  mfaEnabled: false,
  hasPassword: true,
};

/** A browser with a session: it stores the cookie and sends it. */
export class SessionClient {
  readonly #client: Pick<Client, "send">;
  /** `SESSION=…`, or "" without a session. */
  cookie = "";

  constructor(client: Pick<Client, "send">) {
    this.#client = client;
  }

  async send(request: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    const [, method = "GET", path = ""] = /^(?:([A-Z]+) )?(.*)$/.exec(request) ?? [];
    const reply = await this.#client.send(path, {
      method,
      headers: {
        ...(this.cookie && { cookie: this.cookie }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const set = reply.headers.get("set-cookie");
    if (set !== null) this.cookie = set.startsWith("SESSION=;") ? "" : set.split(";", 1)[0]!;
    return reply;
  }

  /** POST /api/auth/login */
  login(username: string, password = PASSWORD, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    return this.send("POST /api/auth/login", { username, password }, headers);
  }

  me(): Promise<Reply> {
    return this.send("/api/auth/me");
  }

  /** The headers that a change requires. */
  async csrf(): Promise<{ readonly "x-csrf-token": string }> {
    return { "x-csrf-token": (await this.send("/csrf-token")).json.csrfToken };
  }
}

/** Signs in, and returns the browser. */
export async function signedIn(client: Pick<Client, "send">, username: string): Promise<SessionClient> {
  const browser = new SessionClient(client);
  const { status, text } = await browser.login(username);
  if (status !== 200) throw new Error(`${username} can't sign in: ${status} ${text}`);
  return browser;
}

/** `[401, "AUTH_REQUIRED", "wrong username or password"]` */
export const failureOf = ({ status, json }: Reply) => [status, json?.error?.code, json?.error?.message];
