import { createHash } from "node:crypto";
import type { Clock } from "../../identity/account.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import type { OneTimeValues } from "./one-time-values.ts";
import type { SecretBox } from "./secret-box.ts";

/** Seconds within which a client must exchange its sign-in code. */
const CODE_SECONDS = 60;

/**
 * What a sign-in code stands for: an identity that signs in, or that is linked to the account of the caller; or the link of an e-mail.
 */
export type CodePurpose = "token" | "link" | "mail";

export type SignInCodesOptions = {
  readonly once: OneTimeValues;
  /** Encrypts what the database must not read. */
  readonly box: SecretBox;
  readonly clock: Clock;
};

/** Codes with which a browser continues at the page of a client, and which only that client exchanges. Source: RFC 7636. */
export class SignInCodes {
  readonly #options: SignInCodesOptions;

  constructor(options: SignInCodesOptions) {
    this.#options = options;
  }

  /** A code that the client exchanges with the verifier of `challenge`. */
  async issue(data: object, purpose: CodePurpose, challenge: string): Promise<string> {
    const { once, box, clock } = this.#options;
    const code = newSecret();
    const sealed = box.seal(JSON.stringify(data), purpose).toString("base64");
    await once.keep("code", codeKey(code, purpose, challenge), { sealed }, clock() + CODE_SECONDS * 1000);
    return code;
  }

  /** The data of a code. Returns null for a code that is unknown, expired or used, and for another verifier. */
  async take<Data>(code: string, purpose: CodePurpose, verifier: string): Promise<Data | null> {
    const { once, box } = this.#options;
    const challenge = createHash("sha256").update(verifier).digest("base64url");
    const data = await once.take<{ readonly sealed: string }>("code", codeKey(code, purpose, challenge));
    const text = data && box.open(Buffer.from(data.sealed, "base64"), purpose);
    return text ? JSON.parse(text) : null;
  }
}

/** Only the right verifier finds the code, so a wrong one does not use it up. */
const codeKey = (code: string, purpose: CodePurpose, challenge: string) =>
  hashOf([purpose, code, challenge].join("\0"));
