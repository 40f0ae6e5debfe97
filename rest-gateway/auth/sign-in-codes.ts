import { createHash } from "node:crypto";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import type { Auth } from "./auth.ts";
import { keepOnce, takeOnce } from "./one-time-values.ts";

// Codes with which a browser continues at the page of a client, and which only that client exchanges. Source: RFC 7636.

/** Seconds within which a client must exchange its sign-in code. */
const CODE_SECONDS = 60;

/**
 * What a sign-in code stands for: an identity that signs in, or that is linked to the account of the caller; or the link of an e-mail.
 */
export type CodePurpose = "token" | "link" | "mail";

type Services = Pick<Auth, "functions" | "codeBox" | "clock">;

/** A code that the client exchanges with the verifier of `challenge`. */
export async function issueCode(
  services: Services,
  data: object,
  purpose: CodePurpose,
  challenge: string,
): Promise<string> {
  const { codeBox, clock } = services;
  const code = newSecret();
  const sealed = codeBox.seal(JSON.stringify(data), purpose).toString("base64");
  await keepOnce(services, "code", codeKey(code, purpose, challenge), { sealed }, clock() + CODE_SECONDS * 1000);
  return code;
}

/** The data of a code. Returns null for a code that is unknown, expired or used, and for another verifier. */
export async function takeCode<Data>(
  services: Services,
  code: string,
  purpose: CodePurpose,
  verifier: string,
): Promise<Data | null> {
  const challenge = createHash("sha256").update(verifier).digest("base64url");
  const data = await takeOnce<{ readonly sealed: string }>(services, "code", codeKey(code, purpose, challenge));
  const text = data && services.codeBox.open(Buffer.from(data.sealed, "base64"), purpose);
  return text ? JSON.parse(text) : null;
}

/** Only the right verifier finds the code, so a wrong one does not use it up. */
const codeKey = (code: string, purpose: CodePurpose, challenge: string) =>
  hashOf([purpose, code, challenge].join("\0"));
