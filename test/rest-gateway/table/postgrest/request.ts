/** A request that is sent to both servers. The path is relative to the URL of the interface. */
export type ComparedRequest = {
  readonly method: "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS";
  readonly path: string;
  readonly as?: Caller;
  readonly prefer?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Strings are sent unchanged, other values as JSON. */
  readonly body?: unknown;
};

/** The owner of the token: one of two users, or a token that is not valid. */
export type Caller = "ada" | "bob" | "expired" | "forged" | "an unknown role";
type More = Omit<ComparedRequest, "method" | "path" | "body">;

export const get = (path: string, more: More = {}): ComparedRequest => ({ method: "GET", path, ...more });
export const head = (path: string, more: More = {}): ComparedRequest => ({ method: "HEAD", path, ...more });
export const options = (path: string, more: More = {}): ComparedRequest => ({ method: "OPTIONS", path, ...more });
export const post = (path: string, body?: unknown, more: More = {}): ComparedRequest => ({
  method: "POST",
  path,
  body,
  ...more,
});
export const patch = (path: string, body?: unknown, more: More = {}): ComparedRequest => ({
  method: "PATCH",
  path,
  body,
  ...more,
});
export const put = (path: string, body?: unknown, more: More = {}): ComparedRequest => ({
  method: "PUT",
  path,
  body,
  ...more,
});
export const remove = (path: string, more: More = {}): ComparedRequest => ({ method: "DELETE", path, ...more });

/** `GET /films?id=eq.1 as ada, prefer count=exact`: unique to each request. */
export function nameOf({ method, path, as, prefer, headers, body }: ComparedRequest): string {
  const more = [
    as && `as ${as}`,
    prefer && `prefer ${prefer}`,
    ...Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    body !== undefined && `body ${textOf(body)}`,
  ].filter(Boolean);
  return [`${method} ${path}`, ...more].join(", ");
}

export const textOf = (body: unknown): string => (typeof body === "string" ? body : JSON.stringify(body));
