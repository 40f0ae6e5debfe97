import type { Wire } from "../../rest-gateway/auth/wires.ts";
import { wireErrorOf } from "./problem.ts";
import { AUTH_SESSION, type SessionAnswer } from "./session.ts";

/** The name under which a sign-in at a provider is kept that has begun here. */
export const WIRE = "v1";

/** A session in the fragment of a URL. */
export const fragmentOf = (session: SessionAnswer): Record<string, string> => ({
  access_token: session.access_token,
  expires_at: String(session.expires_at),
  expires_in: String(session.expires_in),
  refresh_token: session.refresh_token,
  token_type: session.token_type,
});

/** How such a sign-in goes on: as supabase-js expects it. */
export const BROWSER_WIRE: Wire = {
  codeParameter: "code",
  mark: { sb: "" },
  form: { ...AUTH_SESSION, send: (call, issued) => fragmentOf(AUTH_SESSION.send(call, issued)) },
  describe(error) {
    const { status, code, message } = wireErrorOf(error);
    return { error: ERRORS[status] ?? "server_error", error_code: code, error_description: message };
  },
};

/** Source: RFC 6749, 4.1.2.1. */
const ERRORS: Readonly<Record<number, string>> = {
  400: "invalid_request",
  401: "unauthorized_client",
  403: "access_denied",
  422: "access_denied",
};
