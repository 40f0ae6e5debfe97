import { z } from "zod";
import {
  field,
  MAX_LOGIN,
  MAX_TOKEN,
  NEW_PASSWORD,
  NEW_PASSWORD_FIELD,
  PROOF_IF_ENABLED,
  secret,
  text,
} from "../bodies.ts";
import { loginEmailFault } from "../login-names.ts";
import { MAX_PASSWORD } from "../passwords.ts";
import { named } from "../schemas.ts";

export const address = (description: string) =>
  text(MAX_LOGIN, { description, format: "email" }).check(({ value, issues }) => {
    const isPossible = /^[^\s@]{1,64}@[^\s@]+$/.test(value);
    const message = isPossible ? loginEmailFault(value) : "must be a valid address";
    if (message !== null) issues.push({ code: "custom", input: value, message });
  });

const returnTo = z.string({ error: "must be a string" }).nullable().optional().meta({
  description: "Where the user continues: a path of this service, or a URL whose origin is in `AUTH_RETURN_ORIGINS`.",
  maxLength: 2000,
});

const token = text(MAX_TOKEN, secret("The parameter `token` of the link in the e-mail."));

/** A request for an e-mail. */
export const MailBody = named("MailRequest", { email: address("The address."), returnTo });

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

export const MailCodeBody = named("MailCode", {
  email: address("The address that has received the code."),
  code: field((value) => /^\d{6}$/.test(value.replace(/\s/g, "")), "must be the 6 digits of the e-mail", {
    ...secret("The 6 digits of the e-mail."),
  }),
});

export const NAME_LENGTH = 200;

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
});
