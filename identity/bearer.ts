/** `"Bearer eyJ…"` → `"eyJ…"`, a token perhaps; null for another scheme. */
export function bearerToken(authorization: string): string | null {
  const scheme = /^Bearer +/i.exec(authorization);
  return scheme && (authorization.slice(scheme[0].length).trimEnd() || null);
}
