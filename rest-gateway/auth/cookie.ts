/** Seconds that a session may be idle; the cookie lives as long. Source: the contract, Session cookie. */
export const IDLE_SECONDS = 1800;

/** Byte for byte as the contract has it. */
export const sessionCookie = (id: string): string =>
  `SESSION=${id}; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=${IDLE_SECONDS}`;

/** What makes a browser forget the session. */
export const endedCookie = "SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0";
