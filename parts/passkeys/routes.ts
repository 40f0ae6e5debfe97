import { z } from "zod";
import { created, noContent, ok, text, time, timeOrNull, uuid } from "../../rest-gateway/auth/answers.ts";
import { ConfirmationBody, EnrolmentBody } from "../../rest-gateway/auth/bodies.ts";
import { NewPasskeyBody, PasskeyNameBody } from "../../rest-gateway/auth/passkeys/bodies.ts";
import { type Routes, route } from "../../rest-gateway/auth/route.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";
import { PasskeyChallengeBody } from "./bodies.ts";
import { addPasskey, beginPasskey, challengePasskey, deletePasskey, listPasskeys, renamePasskey } from "./handlers.ts";

const PasskeyAnswer = named("Passkey", {
  id: uuid(),
  name: text("What the user calls it."),
  isSynced: z.boolean().describe("Whether it may be on several devices of the user."),
  createdAt: time("When it was added."),
  lastUsedAt: timeOrNull("When it was last used; null if never."),
});
const PasskeyListAnswer = named("PasskeyList", { data: z.array(PasskeyAnswer) });
const NewPasskeyAnswer = named("AddedPasskey", {
  ...PasskeyAnswer.shape,
  backupCodes: z
    .array(z.string().length(8))
    .nullable()
    .describe("If it is the first second factor. Not shown again. Each replaces a passkey or a code of the app once."),
});

const options = { challenge: text("What the passkey signs.") };
const CreationOptionsAnswer = named("PasskeyCreationOptions", options, { others: "kept" });
const RequestOptionsAnswer = named("PasskeyRequestOptions", options, { others: "kept" });

/** The routes of passkeys, paths without an id first. `/auth/login` and `/api/auth/login` sign in with passkeys. */
export const PASSKEY_ROUTES: Routes = {
  "POST /auth/passkeys/options": route({
    operationId: "beginPasskey",
    summary: "Start to add a passkey",
    description:
      "Returns the options for `navigator.credentials.create`, valid for 5 minutes. If the sign-in is older than 10 minutes, the response is 401 `PASSWORD_REQUIRED` unless the password is sent, and the second factor if one is enabled; otherwise the body is ignored. Not allowed with an API key.",
    credential: "account",
    handlerBody: [EnrolmentBody],
    isBodyOptional: true,
    answer: ok("The options, as `PublicKeyCredential.parseCreationOptionsFromJSON` takes them.", CreationOptionsAnswer),
    handle: beginPasskey,
  }),
  "POST /auth/passkeys": route({
    operationId: "addPasskey",
    summary: "Add a passkey",
    description:
      "Takes what `navigator.credentials.create` has returned. A passkey is a second factor: the first one ends all other sign-ins of the user, as `/api/mfa/verify` does, and the response has backup codes. Not allowed with an API key.",
    credential: "account",
    body: NewPasskeyBody,
    answer: created("The passkey.", NewPasskeyAnswer),
    problems: [409],
    handle: addPasskey,
  }),
  "GET /auth/passkeys": route({
    operationId: "listPasskeys",
    summary: "List the caller's passkeys",
    description: "Oldest first. Not allowed with an API key.",
    credential: "account",
    answer: ok("All passkeys of the caller.", PasskeyListAnswer),
    handle: listPasskeys,
  }),
  "POST /auth/passkeys/challenge": route({
    operationId: "challengePasskey",
    summary: "Ask for a passkey",
    description:
      "Returns the options for `navigator.credentials.get`, valid for 5 minutes. Send what it returns as `passkey` to `/auth/login` or `/api/auth/login`, or with a change that needs a second factor. With the `challenge` of a 401 `MFA_REQUIRED` response, the browser offers the passkeys of that account; without it, all that the user has for this service.",
    credential: "none",
    body: PasskeyChallengeBody,
    answer: ok("The options, as `PublicKeyCredential.parseRequestOptionsFromJSON` takes them.", RequestOptionsAnswer),
    problems: [401],
    handle: challengePasskey,
  }),
  "PATCH /auth/passkeys/{passkeyId}": route({
    operationId: "renamePasskey",
    summary: "Rename a passkey",
    description: "Not allowed with an API key.",
    credential: "account",
    body: PasskeyNameBody,
    answer: ok("The passkey.", PasskeyAnswer),
    handle: renamePasskey,
  }),
  "POST /auth/passkeys/{passkeyId}/delete": route({
    operationId: "deletePasskey",
    summary: "Delete a passkey",
    description:
      "Needs the password, and a code or a passkey, also the one to delete. With the last second factor, the backup codes are deleted too. Not allowed with an API key.",
    credential: "account",
    body: ConfirmationBody,
    answer: noContent("Deleted."),
    handle: deletePasskey,
  }),
};
