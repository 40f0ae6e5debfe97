/** A request that is sent to both servers, without credentials. The path is relative to the URL of the interface. */
export type ComparedRequest = {
  readonly method: "GET" | "HEAD";
  readonly path: string;
  readonly prefer?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

type More = Omit<ComparedRequest, "method" | "path">;

export const get = (path: string, more: More = {}): ComparedRequest => ({ method: "GET", path, ...more });
export const head = (path: string, more: More = {}): ComparedRequest => ({ method: "HEAD", path, ...more });

/** `GET /films?id=eq.1, prefer count=exact` */
export const nameOf = ({ method, path, prefer, headers }: ComparedRequest): string =>
  [
    `${method} ${path}`,
    ...(prefer ? [`prefer ${prefer}`] : []),
    ...Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`),
  ].join(", ");
