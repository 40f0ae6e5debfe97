/** The session's cookie is a credential: functions don't need it. */
const CREDENTIALS = new Set(["SESSION"]);

/** `a=1; b=%20` → `{"a":"1","b":"%20"}`; of a name that comes twice the first counts. */
export function cookiesOf(header: string | undefined): string {
  if (!header) return "{}";
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, Math.max(0, at)).trim();
    if (name === "" || CREDENTIALS.has(name) || name in cookies) continue;
    const value = pair.slice(at + 1).trim();
    cookies[name] = value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value;
  }
  return JSON.stringify(cookies);
}
