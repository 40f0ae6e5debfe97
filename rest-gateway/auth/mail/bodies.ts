import { z } from "zod";
import { field, MAX_LOGIN, secret, text } from "../bodies.ts";
import { loginEmailFault } from "../login-names.ts";
import { named } from "../schemas.ts";

/** Characters of the name of a user. */
export const NAME_LENGTH = 200;

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

/** A request for an e-mail. */
export const MailBody = named("MailRequest", { email: address("The address."), returnTo });

export const MailCodeBody = named("MailCode", {
  email: address("The address that has received the code."),
  code: field((value) => /^\d{6}$/.test(value.replace(/\s/g, "")), "must be the 6 digits of the e-mail", {
    ...secret("The 6 digits of the e-mail."),
  }),
});
