import { Tokens } from "../../../identity/tokens.ts";
import { SECRET } from "../../rig/rig.ts";

const tokens = new Tokens({
  secret: SECRET,
  privateKey: "",
  audience: "",
  anonymousRole: "anon",
  accessSeconds: 24 * 3600,
});

/** The key of anonymous callers. */
export const KEY = tokens.issueKey("anon");
/** The key of operators. */
export const SERVICE_KEY = tokens.issueKey("service_role");

const known = new Map<number, Record<string, string>>();

/** The headers of a user, each of whom has a rate limit. */
export function headersOf(id: number): Record<string, string> {
  const user = { id: String(id), name: `User ${id}`, role: "authenticated", permissions: [] };
  const headers = known.get(id) ?? { authorization: `Bearer ${tokens.issuePair(user).accessToken}` };
  known.set(id, headers);
  return headers;
}

/** The errors of a connection that has ended. */
const ENDED = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);

/** What HAProxy and the service answer if the same request may succeed later. */
const TRY_AGAIN = new Set([429, 502, 503, 504]);

export type Answer = { readonly status: number; readonly json: any; readonly position: string | null };
type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Other statuses of success than 2xx. */
  readonly accepted?: readonly number[];
};

/** Sends requests, and judges what is answered. */
export class Requests {
  readonly url: string;
  answered = 0;
  /** How often each error that says "try again" was the response: `503`, `ECONNRESET`. */
  refused = new Map<string, number>();
  /** The most milliseconds until such an error. */
  longest = 0;
  readonly #bound: number;
  readonly #report: (violation: string) => void;

  /** `bound`: milliseconds within which each request has a response, or its connection ends. */
  constructor(url: string, bound: number, report: (violation: string) => void) {
    this.url = url;
    this.#bound = bound;
    this.#report = report;
  }

  /** Null without a successful response. */
  async send(path: string, { method = "GET", headers = {}, body, accepted = [] }: Sent = {}): Promise<Answer | null> {
    const start = performance.now();
    const what = `${method} ${path}`;
    try {
      const response = await fetch(`${this.url}${path}`, {
        method,
        headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(this.#bound),
      });
      const text = await response.text();
      if (response.ok || accepted.includes(response.status)) {
        this.answered++;
        return answerOf(response, text);
      }
      this.#refuse(String(response.status), start);
      const fault = faultOf(response);
      if (fault !== null) this.#report(`${what}: ${fault}: ${text.slice(0, 300)}`);
    } catch (error) {
      const { name, cause } = error as Error & { cause?: { code?: string } };
      const code = cause?.code ?? name;
      this.#refuse(code, start);
      if (!ENDED.has(code)) this.#report(`${what}: ${code} after ${Math.round(performance.now() - start)} ms`);
    }
    return null;
  }

  #refuse(code: string, start: number): void {
    this.refused.set(code, (this.refused.get(code) ?? 0) + 1);
    this.longest = Math.max(this.longest, performance.now() - start);
  }
}

const answerOf = ({ status, headers }: Response, text: string): Answer => ({
  status,
  json: text === "" ? null : JSON.parse(text),
  position: headers.get("change-position"),
});

/** Why the response does not say "try again"; null if it does. */
function faultOf({ status, headers }: Response): string | null {
  if (!TRY_AGAIN.has(status)) return `the status ${status}`;
  // HAProxy itself sends no id.
  const isOurs = headers.has("x-request-id");
  return isOurs && (status === 429 || status === 503) && !headers.has("retry-after")
    ? `${status} without Retry-After`
    : null;
}
