import type { Config } from "../../../config/config.ts";
import type { Account, Clock } from "../../../identity/account.ts";
import { problem } from "../../../problems/problem.ts";
import type { Auth } from "../auth.ts";
import type { Confirmation } from "../confirmation.ts";
import type { AuthFunctions } from "../functions.ts";
import type { Call } from "../route.ts";
import type { CurrentSignIn } from "../session-repository.ts";
import type { NewPasskeyInput, PasskeyNameInput } from "./bodies.ts";
import type { PasskeyCredential, PasskeySignature } from "./credentials.ts";

/** Passkeys as a part brings them. Methods reject with Problem. */
export type Passkeys = {
  /** Whether browsers allow passkeys here. */
  readonly isOn: boolean;
  /** The domain that they belong to. Throws Problem if browsers allow no passkeys here. */
  readonly domain: string;
  readonly actions: PasskeyActions;
  /** The same for the functions of a request. */
  from(functions: AuthFunctions): Passkeys;
  /** Applies changed origins. */
  follow(settings: Pick<PasskeySettings, "corsOrigins" | "authReturnOrigins">): void;
  /** For `navigator.credentials.create`. */
  creationOptions(account: Account, signIn: CurrentSignIn): Promise<PasskeyOptions>;
  /** For `navigator.credentials.get`. The browser offers `passkeys`, or, if there are none, all that it has for this service. */
  requestOptions(passkeys?: readonly PasskeyRow[]): Promise<PasskeyOptions>;
  /** The id of a challenge and when it expires, in milliseconds since 1970, without a check. */
  readChallenge(challenge: string): { readonly id: string; readonly expiresAt: number };
  /** Throws Problem unless this is the id of the challenge that was signed to sign in. */
  requireChallenge(signature: PasskeySignature, id: string): void;
  /** Adds what a browser has created. `codes` are backup codes by their hashes. */
  add(
    call: Pick<Call, "request" | "client">,
    signIn: CurrentSignIn,
    created: CreatedPasskey,
    codes: readonly Buffer[],
  ): Promise<PasskeyRow & { readonly isFirst: boolean }>;
  /** Returns null for a signature that is not valid. */
  verify(signature: PasskeySignature): Promise<Signed | null>;
  /** Oldest first. */
  list(userId: string): Promise<readonly PasskeyRow[]>;
  /** Whether a challenge was used. */
  isSpent(challenge: string): Promise<boolean>;
  /** Returns false if the user has no such passkey. */
  rename(userId: string, id: string, name: string): Promise<boolean>;
};

/** `challenge` is in base64url. */
export type PasskeyOptions = { readonly challenge: string };

/** What users do with their passkeys, at the routes and on pages. */
export type PasskeyActions = {
  /** The options to create one. */
  begin(call: Call<"account">, confirmation: Confirmation): Promise<PasskeyOptions>;
  add(call: Call<"account", NewPasskeyInput>): Promise<PasskeyDescription & { backupCodes: readonly string[] | null }>;
  list(call: Call<"account">): Promise<{ readonly data: readonly PasskeyDescription[] }>;
  rename(call: Call<"account", PasskeyNameInput>): Promise<PasskeyDescription>;
  remove(call: Call<"account", Confirmation>): Promise<void>;
};

/** A signature that is valid, and the id of its challenge, which the database then spends. */
export type Signed = {
  /** Of the passkey. */
  readonly id: string;
  readonly userId: string;
  readonly counter: number;
  readonly isSynced: boolean;
  readonly challenge: string;
};

/** A passkey as its owner sees it. Times are ISO 8601. */
export type PasskeyDescription = {
  readonly id: string;
  readonly name: string;
  /** Whether it may be on several devices of the user. */
  readonly isSynced: boolean;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
};

/** `credentialId` is hex. */
export type PasskeyRow = PasskeyDescription & {
  readonly credentialId: string;
  readonly transports: readonly string[];
};

/** A passkey that a browser has created. */
export type CreatedPasskey = {
  readonly credential: PasskeyCredential;
  /** Without it, the browser and the system. */
  readonly name?: string | null | undefined;
  /** Unless the database chooses it. */
  readonly id?: string;
  /** The id of the challenge that it must have signed; without it, any of the sign-in. */
  readonly challenge?: string;
};

export type PasskeySettings = Pick<Config, "corsOrigins" | "authReturnOrigins">;

/** Creates what a part brings. */
export type CreatePasskeys = (options: {
  readonly settings: PasskeySettings;
  /** The public URL of the service. */
  readonly url: string;
  readonly functions: AuthFunctions;
  readonly secret: string;
  readonly clock: Clock;
}) => Passkeys;

/** Throws Problem where no part brings passkeys. */
export function passkeysIn({ passkeys, url }: Pick<Auth, "passkeys" | "url">): Passkeys {
  if (passkeys === null) throw problem("passkeys off", { url });
  return passkeys;
}

export const unknownChallenge = () =>
  problem("passkey challenge not valid", { why: "is unknown or has expired: start again" });

export const spentChallenge = () => problem("passkey challenge not valid", { why: "was used before: start again" });
