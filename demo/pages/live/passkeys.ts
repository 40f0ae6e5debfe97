/** An error of the service, which a refused sign-in has with its challenge. */
type Refused = Error & { readonly code?: string; readonly challenge?: string; readonly factors?: readonly string[] };

/** A request with the session cookie. */
export async function send(method: string, path: string, body: object, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(path, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error.message), answer.error, answer) as Refused;
  return answer;
}

/** Resolves to backup codes to show once, or to null if the user has them already. */
export async function addPasskey(name: string): Promise<readonly string[] | null> {
  const { csrfToken } = await (await fetch("/csrf-token")).json();
  const headers = { "X-CSRF-Token": csrfToken };
  const options = await send("POST", "/auth/passkeys/options", {}, headers);
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  const credential = await navigator.credentials.create({ publicKey });
  const { backupCodes } = await send("POST", "/auth/passkeys", { name, credential }, headers);
  return backupCodes;
}

/** Without the challenge of a login, the browser offers all passkeys that the user has for this service. */
export async function askForPasskey(challenge?: string): Promise<Credential | null> {
  const options = await send("POST", "/auth/passkeys/challenge", { challenge });
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return navigator.credentials.get({ publicKey });
}

export const signInWithPasskey = async () => send("POST", "/api/auth/login", { passkey: await askForPasskey() });

/** The passkey is the second factor, if the user has one. */
export async function signInWithPassword(username: string, password: string) {
  try {
    return await send("POST", "/api/auth/login", { username, password });
  } catch (error) {
    const { code, factors, challenge } = error as Refused;
    if (code !== "MFA_REQUIRED" || !factors?.includes("passkey")) throw error;
    return send("POST", "/api/auth/login", { challenge, passkey: await askForPasskey(challenge) });
  }
}
