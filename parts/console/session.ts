import type { IncomingMessage, ServerResponse } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { OperatorAccess } from "../../gate/operations/operator.ts";
import type { CallerResolver, KeptCredential } from "../../identity/caller-resolver.ts";
import { Cookie } from "../../identity/cookies.ts";
import { CsrfTokens } from "../../identity/credentials.ts";
import { isRefusal } from "../../problems/problem.ts";
import { deriveKey, SecretBox } from "../../rest-gateway/auth/secret-box.ts";

/** Who is signed in to the console. */
export type Operator = {
  readonly caller: Caller;
  /** `Administrator`, or `the service key` */
  readonly name: string;
  /** `user 3` or `role service_role`, as security events name who acted for a user. */
  readonly id: string;
  /** Every form of the console has it. */
  readonly csrf: string;
  /** The credential, as requests of the operator to the interfaces send it. */
  readonly headers: Readonly<Record<string, string>>;
};

export type ConsoleSessionsOptions = {
  readonly callers: Pick<CallerResolver, "callerOf">;
  readonly isOperator: OperatorAccess["isOperator"];
  /** The secret of the service. */
  readonly secret: string;
  /** Whether browsers may send the cookie only over https. */
  readonly isSecure: boolean;
};

/** Milliseconds after which an operator must sign in again. */
const LIFETIME = 8 * 3_600_000;
const NAME = "console";

/**
 * Sign-ins to the console. The cookie holds the credential, encrypted, so that it is not a key for the interfaces. The credential is
 * verified with each request: when it ends, so does the sign-in.
 */
export class ConsoleSessions {
  readonly #options: ConsoleSessionsOptions;
  readonly #box: SecretBox;
  readonly #csrf: CsrfTokens;
  readonly #cookie: Cookie;

  constructor(options: ConsoleSessionsOptions) {
    this.#options = options;
    this.#box = new SecretBox(deriveKey(options.secret, "console"));
    this.#csrf = new CsrfTokens(options.secret);
    this.#cookie = new Cookie(NAME, `Path=/console; HttpOnly; SameSite=Strict${options.isSecure ? "; Secure" : ""}`);
  }

  /** Signs an operator in. */
  start(credential: KeptCredential, response: ServerResponse): void {
    const sealed = this.#box.seal(JSON.stringify({ credential, until: Date.now() + LIFETIME }), NAME);
    this.#cookie.set(response, sealed.toString("base64url"));
  }

  end(response: ServerResponse): void {
    this.#cookie.end(response);
  }

  /** The operator of a request; null if there is none, or no longer. */
  async operatorOf(request: IncomingMessage): Promise<Operator | null> {
    const cookie = this.#cookie.in(request);
    const text = cookie && this.#box.open(Buffer.from(cookie, "base64url"), NAME);
    if (!cookie || !text) return null;
    const { credential, until } = JSON.parse(text) as { credential: KeptCredential; until: number };
    const caller = until > Date.now() ? await this.callerOf(credential, request) : null;
    const headers = this.#headersOf(credential);
    return caller && { caller, name: nameOf(caller), id: idOf(caller), csrf: this.#csrf.of(cookie), headers };
  }

  /** The console has verified that its form was sent, so it sends the CSRF token of the session itself. */
  #headersOf(credential: KeptCredential): Operator["headers"] {
    if ("bearer" in credential) return { authorization: `Bearer ${credential.bearer}` };
    const { session } = credential;
    return { cookie: `SESSION=${session}`, "x-csrf-token": this.#csrf.of(session) };
  }

  /** Whether a form comes from a page of this operator. */
  isForm(form: URLSearchParams, request: IncomingMessage): boolean {
    const cookie = this.#cookie.in(request);
    return cookie !== null && this.#csrf.isOf(form.get("csrf") ?? "", cookie);
  }

  /** Null if the credential is not that of an operator. */
  async callerOf(credential: KeptCredential, request: IncomingMessage): Promise<Caller | null> {
    try {
      const caller = await this.#options.callers.callerOf(credential, request);
      return caller !== null && this.#options.isOperator(caller) ? caller : null;
    } catch (error) {
      if (isRefusal(error)) return null;
      throw error;
    }
  }
}

const nameOf = ({ role, claims }: Caller): string =>
  typeof claims.name === "string" ? claims.name : role === "service_role" ? "the service key" : `the role ${role}`;

const idOf = ({ role, claims: { sub } }: Caller): string => (typeof sub === "string" ? `user ${sub}` : `role ${role}`);
