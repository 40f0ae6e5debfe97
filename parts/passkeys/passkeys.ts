import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from "@simplewebauthn/server";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import { deviceOf } from "../../rest-gateway/auth/device.ts";
import { type AuthFunctions, byteArray, bytes } from "../../rest-gateway/auth/functions.ts";
import type { PasskeyCredential, PasskeySignature } from "../../rest-gateway/auth/passkeys/credentials.ts";
import {
  type CreatedPasskey,
  type CreatePasskeys,
  type PasskeyActions,
  type PasskeyRow,
  type PasskeySettings,
  type Passkeys,
  type Signed,
  spentChallenge,
  unknownChallenge,
} from "../../rest-gateway/auth/passkeys/passkeys.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { CurrentSignIn } from "../../rest-gateway/auth/session-repository.ts";
import { PasskeyChallenges, readChallenge, SIGN_IN } from "./challenges.ts";
import { clientDataOf } from "./client-data.ts";
import { ACTIONS } from "./handlers.ts";
import { RelyingParty } from "./relying-party.ts";

export const createPasskeys: CreatePasskeys = ({ settings, url, functions, secret, clock }) =>
  new WebAuthn({
    relyingParty: new RelyingParty(url, settings),
    challenges: new PasskeyChallenges(secret, clock),
    functions,
  });

type PasskeysOptions = {
  readonly relyingParty: RelyingParty;
  readonly challenges: PasskeyChallenges;
  readonly functions: AuthFunctions;
};

/** A passkey by its credential. `handle` is how authenticators name its user; `publicKey` is hex. */
type KnownPasskey = {
  readonly id: string;
  readonly userId: string;
  readonly handle: string;
  readonly publicKey: string;
};

type AddedPasskey =
  | { readonly outcome: "added"; readonly id: string; readonly isFirst: boolean }
  | { readonly outcome: keyof typeof REFUSALS };

/** Milliseconds for which a browser waits for the user. */
const TIMEOUT = 5 * 60_000;

/** Passkeys that one account may have. */
const MAX_PASSKEYS = 20;

/** EdDSA, ES256 and RS256, one of which every authenticator has. */
const ALGORITHMS = [-8, -7, -257];

/**
 * What browsers need to create and use passkeys, and the verification of what they return. An authenticator must verify its user, by
 * a fingerprint, a face or a PIN, so a passkey is two factors: the device and that.
 */
export class WebAuthn implements Passkeys {
  readonly #options: PasskeysOptions;

  constructor(options: PasskeysOptions) {
    this.#options = options;
  }

  from(functions: AuthFunctions): WebAuthn {
    return new WebAuthn({ ...this.#options, functions });
  }

  get isOn(): boolean {
    return this.#options.relyingParty.isOn;
  }

  get domain(): string {
    return this.#options.relyingParty.domain;
  }

  get actions(): PasskeyActions {
    return ACTIONS;
  }

  readChallenge(challenge: string) {
    return readChallenge(challenge);
  }

  follow(settings: Pick<PasskeySettings, "corsOrigins" | "authReturnOrigins">): void {
    this.#options.relyingParty.follow(settings);
  }

  async creationOptions(account: Account, { session }: CurrentSignIn): Promise<PublicKeyCredentialCreationOptionsJSON> {
    const { relyingParty, challenges, functions } = this.#options;
    const { domain } = relyingParty;
    const calls = ["passkey_handle($1)", "list_passkeys($1)"].map((call) => ({ call, values: [account.id] }));
    const [handle, passkeys] = (await functions.run(...calls)) as [string, readonly PasskeyRow[]];
    const { generateRegistrationOptions } = await webauthn();
    return generateRegistrationOptions({
      rpID: domain,
      rpName: domain,
      userID: Uint8Array.from(handleBytes(handle)),
      userName: account.username || account.name,
      userDisplayName: account.name,
      challenge: Uint8Array.from(challenges.issue(purposeOf(account.id, session))),
      timeout: TIMEOUT,
      attestationType: "none",
      supportedAlgorithmIDs: ALGORITHMS,
      excludeCredentials: passkeys.map(describe),
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
    });
  }

  async requestOptions(passkeys: readonly PasskeyRow[] = []): Promise<PublicKeyCredentialRequestOptionsJSON> {
    const { relyingParty, challenges } = this.#options;
    const { domain } = relyingParty;
    const { generateAuthenticationOptions } = await webauthn();
    return generateAuthenticationOptions({
      rpID: domain,
      challenge: Uint8Array.from(challenges.issue(SIGN_IN)),
      timeout: TIMEOUT,
      userVerification: "required",
      allowCredentials: passkeys.map(describe),
    });
  }

  /** Rejects with Problem for a credential that is not valid, with the reason. */
  async #verifyNew(credential: PasskeyCredential, { id, session }: CurrentSignIn) {
    const { relyingParty, challenges } = this.#options;
    const { domain, origins } = relyingParty;
    const clientData = this.#clientDataOf(credential);
    const challenge = clientData && challenges.idOf(clientData.challenge, purposeOf(id, session));
    if (!challenge) throw unknownChallenge();
    const { verifyRegistrationResponse } = await webauthn();
    const verified = await verifyRegistrationResponse({
      response: { ...credential, clientExtensionResults: {} } as RegistrationResponseJSON,
      supportedAlgorithmIDs: ALGORITHMS,
      expectedChallenge: clientData.challenge,
      expectedOrigin: [...origins],
      expectedRPID: domain,
    }).catch((error: Error) => {
      throw problem("passkey not valid", { why: error.message });
    });
    if (!verified.verified) throw problem("passkey not valid", { why: "its attestation is wrong" });
    const { credential: key, credentialDeviceType } = verified.registrationInfo;
    return {
      credentialId: Buffer.from(key.id, "base64url").toString("hex"),
      publicKey: Buffer.from(key.publicKey).toString("hex"),
      counter: key.counter,
      transports: credential.response.transports,
      isSynced: credentialDeviceType === "multiDevice",
      challenge,
    };
  }

  /** Rejects with Problem if the credential is not valid or known, or the user has too many passkeys. */
  async add(
    { request, client: { address } }: Pick<Call, "request" | "client">,
    signIn: CurrentSignIn,
    { credential, name, challenge, id }: CreatedPasskey,
    codes: readonly Buffer[],
  ): Promise<PasskeyRow & { readonly isFirst: boolean }> {
    const { functions } = this.#options;
    const { challenge: signed, ...passkey } = await this.#verifyNew(credential, signIn);
    if (challenge !== undefined && signed !== challenge.toLowerCase()) throw unknownChallenge();
    const row = { ...passkey, ...(id && { id }), name: name || (deviceOf(request, address).name ?? "Passkey") };
    const values = [
      ...[signIn.id, signIn.session, JSON.stringify(row), signed, byteArray(codes), String(MAX_PASSKEYS)],
      ...[address || null, functions.now()],
    ];
    const types = "$1, $2::uuid, $3::jsonb, $4::uuid, $5::bytea[], $6::integer, $7::inet, $8::timestamptz";
    const added = await functions.change<AddedPasskey>(`add_passkey(${types})`, values);
    if (added.outcome !== "added") throw REFUSALS[added.outcome]();
    return { ...(await this.list(signIn.id)).find((each) => each.id === added.id)!, isFirst: added.isFirst };
  }

  list(userId: string): Promise<readonly PasskeyRow[]> {
    return this.#options.functions.call("list_passkeys($1)", [userId]);
  }

  isSpent(challenge: string): Promise<boolean> {
    return this.#options.functions.call("is_spent($1::uuid)", [challenge]);
  }

  rename(userId: string, id: string, name: string): Promise<boolean> {
    return this.#options.functions.call("rename_passkey($1, $2::uuid, $3)", [userId, id, name]);
  }

  requireChallenge({ response }: PasskeySignature, id: string): void {
    const clientData = clientDataOf(response);
    if (clientData === null || this.#options.challenges.idOf(clientData.challenge, SIGN_IN) !== id.toLowerCase())
      throw unknownChallenge();
  }

  /** Returns null for a signature that is not valid. Rejects with Problem for a page that may not use passkeys. */
  async verify(signature: PasskeySignature): Promise<Signed | null> {
    const { relyingParty, challenges, functions } = this.#options;
    const { domain, origins } = relyingParty;
    const clientData = this.#clientDataOf(signature);
    const challenge = clientData && challenges.idOf(clientData.challenge, SIGN_IN);
    if (!challenge) return null;
    const credentialId = bytes(Buffer.from(signature.id, "base64url"));
    const known = await functions.call<KnownPasskey | null>("find_passkey($1::bytea)", [credentialId]);
    if (known === null || !isOf(signature, known.handle)) return null;
    const { verifyAuthenticationResponse } = await webauthn();
    // The counter is compared by the database, together with the update.
    const credential = {
      id: signature.id,
      publicKey: Uint8Array.from(Buffer.from(known.publicKey, "hex")),
      counter: 0,
    };
    const verified = await verifyAuthenticationResponse({
      response: { ...signature, clientExtensionResults: {} } as AuthenticationResponseJSON,
      expectedChallenge: clientData.challenge,
      expectedOrigin: [...origins],
      expectedRPID: domain,
      credential,
    }).catch(() => null);
    if (!verified?.verified) return null;
    const { newCounter: counter, credentialDeviceType } = verified.authenticationInfo;
    return {
      id: known.id,
      userId: known.userId,
      counter,
      isSynced: credentialDeviceType === "multiDevice",
      challenge,
    };
  }

  /** Null if it is malformed, or the page is in a frame of another site. Throws Problem for a page that may not use passkeys. */
  #clientDataOf({ response }: PasskeyCredential | PasskeySignature) {
    const clientData = clientDataOf(response);
    if (clientData === null || clientData.crossOrigin) return null;
    this.#options.relyingParty.requireOrigin(clientData.origin);
    return clientData;
  }
}

const REFUSALS = {
  ended: () => problem("revoked token"),
  spent: () => spentChallenge(),
  full: () => problem("too many passkeys", { max: MAX_PASSKEYS }),
  taken: () => problem("passkey taken"),
};

/** Loaded only here: it takes 27 MB. */
const webauthn = () => import("@simplewebauthn/server");

/** A registration belongs to a session. */
const purposeOf = (userId: string, session: string | null) => ["registration", userId, session ?? ""].join("\0");

/** The bytes of a UUID. */
const handleBytes = (handle: string) => Buffer.from(handle.replaceAll("-", ""), "hex");

/** Security keys that know only one user leave the user out. */
const isOf = ({ response: { userHandle } }: PasskeySignature, handle: string) =>
  userHandle == null || Buffer.from(userHandle, "base64url").equals(handleBytes(handle));

const describe = ({ credentialId, transports }: PasskeyRow) => ({
  id: Buffer.from(credentialId, "hex").toString("base64url"),
  transports: [...transports],
});
