/** One request, which goes to both servers as it is. The path follows the address of the interface. */
export type Asked = {
  readonly method: "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS";
  readonly path: string;
  readonly as?: Caller;
  readonly prefer?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text goes as it is, anything else as its JSON. */
  readonly body?: unknown;
};

/** Whose token is sent: of two users, or one that is no good. */
export type Caller = "ada" | "bob" | "expired" | "forged" | "a role that is none";
type More = Omit<Asked, "method" | "path" | "body">;

export const get = (path: string, more: More = {}): Asked => ({ method: "GET", path, ...more });
export const head = (path: string, more: More = {}): Asked => ({ method: "HEAD", path, ...more });
export const options = (path: string, more: More = {}): Asked => ({ method: "OPTIONS", path, ...more });
export const post = (path: string, body?: unknown, more: More = {}): Asked => ({ method: "POST", path, body, ...more });
export const patch = (path: string, body?: unknown, more: More = {}): Asked => ({
  method: "PATCH",
  path,
  body,
  ...more,
});
export const put = (path: string, body?: unknown, more: More = {}): Asked => ({ method: "PUT", path, body, ...more });
export const remove = (path: string, more: More = {}): Asked => ({ method: "DELETE", path, ...more });

/** `GET /films?id=eq.1 as ada, prefer count=exact`: no two requests have the same. */
export function nameOf({ method, path, as, prefer, headers, body }: Asked): string {
  const more = [
    as && `as ${as}`,
    prefer && `prefer ${prefer}`,
    ...Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    body !== undefined && `body ${textOf(body)}`,
  ].filter(Boolean);
  return [`${method} ${path}`, ...more].join(", ");
}

export const textOf = (body: unknown): string => (typeof body === "string" ? body : JSON.stringify(body));
