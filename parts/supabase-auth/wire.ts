import type { Wire } from "../../rest-gateway/auth/federated.ts";
import { providerMethodOf } from "../../rest-gateway/auth/session-repository.ts";
import { wireErrorOf } from "./problem.ts";
import { startAuthSession } from "./session.ts";

/** The name under which a sign-in at a provider is kept that has begun here. */
export const WIRE = "v1";

/** How such a sign-in goes on: as supabase-js expects it. */
export const BROWSER_WIRE: Wire = {
  codeParameter: "code",
  mark: { sb: "" },
  async startSession(call, account, login) {
    const session = await startAuthSession(call, account, providerMethodOf(login), login);
    const { access_token, expires_at, expires_in, refresh_token } = session;
    const expiry = { expires_at: String(expires_at), expires_in: String(expires_in) };
    return { access_token, ...expiry, refresh_token, token_type: "bearer" };
  },
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
