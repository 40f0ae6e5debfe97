import type { SecurityRequirement, SecurityScheme } from "../document.ts";

export const SECURITY_SCHEMES = {
  bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "The access token of a signed-in user." },
  apiKey: {
    type: "apiKey",
    in: "header",
    name: "X-API-Key",
    description: "A key of the service, or of a user; `?api_key=` is the same.",
  },
  session: {
    type: "apiKey",
    in: "cookie",
    name: "SESSION",
    description: "The session of a browser. Changes need `X-CSRF-Token` beside it: see `GET /csrf-token`.",
  },
  basic: { type: "http", scheme: "basic", description: "Username and password. Over HTTPS." },
} as const satisfies Record<string, SecurityScheme>;

/** One of these is required by every operation without security requirements. */
export const SECURITY: readonly SecurityRequirement[] = Object.keys(SECURITY_SCHEMES).map((name) => ({ [name]: [] }));

/** The security requirements of an operation that allows anonymous callers. */
export const OPEN = { security: [{}, ...SECURITY] } as const;
