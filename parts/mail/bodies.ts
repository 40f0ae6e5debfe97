import { z } from "zod";
import {
  MAX_TOKEN,
  NEW_PASSWORD,
  NEW_PASSWORD_FIELD,
  PROOF_IF_ENABLED,
  secret,
  text,
} from "../../rest-gateway/auth/bodies.ts";
import { NAME_LENGTH } from "../../rest-gateway/auth/mail/bodies.ts";
import { MAX_PASSWORD } from "../../rest-gateway/auth/passwords.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";

const token = text(MAX_TOKEN, secret("The parameter `token` of the link in the e-mail."));

export const ResetBody = named("PasswordReset", {
  token,
  password: NEW_PASSWORD_FIELD,
  ...PROOF_IF_ENABLED,
});

/** A confirmation needs a proof: a sign-in, the browser of the registration, or one of the passwords. */
export const ConfirmationBody = named("EmailConfirmation", {
  token,
  password: text(MAX_PASSWORD, secret("The password of the account.")).nullable().optional(),
  newPassword: NEW_PASSWORD_FIELD.nullable()
    .optional()
    .describe("A new password in its place: what was issued to the account before, ends."),
  decline: z
    .boolean({ error: "must be true or false" })
    .optional()
    .describe("Ends the link in place of confirming: the account is not that of the recipient."),
});

/** The token of a sign-in, or of an undo. */
export const TokenBody = named("LinkToken", { token });

export const InvitationBody = named("InvitationAcceptance", {
  token,
  name: text(NAME_LENGTH, { description: "The name of the user." }),
  password: NEW_PASSWORD_FIELD,
});

/** The form of the page that a link opens. */
export const LinkForm = named("LinkForm", {
  token,
  name: z.string().optional().describe("The name of a new user."),
  password: z.string().optional().meta(NEW_PASSWORD),
  newPassword: z.string().optional().describe("A new password, at the confirmation of an e-mail."),
  decline: z.string().optional().describe("With a value: the account is not that of the recipient, and the link ends."),
  code: z.string().optional().describe("The code of the second factor, if one is enabled."),
  passkey: z.string().optional().describe("A passkey in place of the code: the JSON of its signature."),
  wire: z.string().optional().describe("The API over which an application has requested the link."),
  redirect_to: z.string().optional().describe("The page of the application that the link signs in."),
});
