import type { z } from "zod";
import { problem } from "../../problems/problem.ts";
import { EnrolmentBody, readOptional } from "../../rest-gateway/auth/bodies.ts";
import {
  type Confirmation,
  isRecent,
  refuseAnonymous,
  requireAccount,
  requireRecentSignIn,
} from "../../rest-gateway/auth/confirmation.ts";
import { type ConfirmedCall, removeOwnFactor } from "../../rest-gateway/auth/mfa.ts";
import type { NewPasskeyBody, PasskeyNameBody } from "../../rest-gateway/auth/passkeys/bodies.ts";
import {
  type PasskeyActions,
  type PasskeyDescription,
  type PasskeyOptions,
  type PasskeyRow,
  passkeysIn,
} from "../../rest-gateway/auth/passkeys/passkeys.ts";
import { type Call, currentSignInOf } from "../../rest-gateway/auth/route.ts";
import { verifiedChallenge } from "../../rest-gateway/auth/sign-in.ts";
import type { PasskeyChallengeBody } from "./bodies.ts";

/** `POST /auth/passkeys/options` */
export async function beginPasskey(call: Call<"account">): Promise<PasskeyOptions> {
  const { auth, request, signedIn } = call;
  const isSure = isRecent(auth, signedIn);
  return beginPasskeyWith(call, isSure ? {} : await readOptional(auth.limits, request, EnrolmentBody));
}

async function beginPasskeyWith({ auth, client, signedIn }: Call<"account">, confirmation: Confirmation) {
  refuseAnonymous(signedIn);
  // Otherwise a thief could stay signed in with a passkey of their own.
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  return passkeysIn(auth).creationOptions(await requireAccount(auth, signedIn), currentSignInOf(signedIn));
}

/** `POST /auth/passkeys` */
export async function addPasskey(call: Call<"account", z.infer<typeof NewPasskeyBody>>) {
  const { auth, signedIn, body } = call;
  const { codes, hashes } = auth.backupCodes.make(signedIn.id);
  const added = await passkeysIn(auth).add(call, currentSignInOf(signedIn), body, hashes);
  return { ...describe(added), backupCodes: added.isFirst ? codes : null };
}

/** `GET /auth/passkeys` */
export const listPasskeys = async ({ auth, signedIn }: Call<"account">) => ({
  data: (await passkeysIn(auth).list(signedIn.id)).map(describe),
});

/** `PATCH /auth/passkeys/{passkeyId}` */
export async function renamePasskey(call: Call<"account", z.infer<typeof PasskeyNameBody>>) {
  const { auth, signedIn, id, body } = call;
  if (!(await passkeysIn(auth).rename(signedIn.id, id, body.name))) throw problem("no such passkey");
  return describe((await passkeysIn(auth).list(signedIn.id)).find((each) => each.id === id)!);
}

/** `POST /auth/passkeys/{passkeyId}/delete`: a stolen token or session must not be enough. */
export async function deletePasskey(call: ConfirmedCall): Promise<void> {
  const { auth, signedIn, id } = call;
  const rows = await passkeysIn(auth).list(signedIn.id);
  if (!rows.some((each) => each.id === id)) throw problem("no such passkey");
  await removeOwnFactor(call, id);
}

/** `POST /auth/passkeys/challenge` */
export async function challengePasskey(
  call: Call<"none", z.infer<typeof PasskeyChallengeBody>>,
): Promise<PasskeyOptions> {
  const { auth, body } = call;
  const userId = body.challenge == null ? null : verifiedChallenge(auth, body.challenge).userId;
  return passkeysIn(auth).requestOptions(userId === null ? [] : await passkeysIn(auth).list(userId));
}

/** For pages. */
export const ACTIONS: PasskeyActions = {
  begin: beginPasskeyWith,
  add: addPasskey,
  list: listPasskeys,
  rename: renamePasskey,
  remove: deletePasskey,
};

const describe = ({ id, name, isSynced, createdAt, lastUsedAt }: PasskeyRow): PasskeyDescription => ({
  id,
  name,
  isSynced,
  createdAt,
  lastUsedAt,
});
