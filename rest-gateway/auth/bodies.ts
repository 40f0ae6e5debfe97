import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { type BodyLimits, readBytes } from "../../gate/pipeline/body.ts";
import { type Fault, problem } from "../../problems/problem.ts";
import { parseBody } from "../conventions/json-body.ts";
import { loginEmailFault, MAX_USERNAME, normalizedUsername, USERNAME_PATTERN, usernameFault } from "./login-names.ts";
import { SignatureBody } from "./passkeys/credentials.ts";
import { MAX_PASSWORD } from "./passwords.ts";
import { badFields } from "./problem.ts";
import { named } from "./schemas.ts";
import { type FactorProof, isBackupCode } from "./second-factor.ts";
import { isAppCode } from "./totp.ts";

// The request bodies of authentication. Requests are parsed with these schemas, and the OpenAPI document is generated from them.

/** Characters of a username or an e-mail. */
export const MAX_LOGIN = 254;
/** Characters of a token; those that the service issues have a few hundred. */
export const MAX_TOKEN = 4096;
/** Characters of a code, including the spaces and dashes that users type. */
const MAX_CODE = 20;
/** Characters of the name of a key or a passkey. */
const MAX_NAME = 100;
/** Seconds for which a key may be valid. */
const MIN_SECONDS = 60;
const MAX_SECONDS = 365 * 24 * 3600;

export const isStorable = (text: string) => text.isWellFormed() && !text.includes("\0");
/** Postgres and JavaScript disagree on which characters are blank. */
const isVisible = (text: string) => /[\p{L}\p{N}\p{P}\p{S}]/u.test(text);

/** A required string. `message` is sent for an invalid value, `missing` for a missing field. */
export const field = (isValid: (value: string) => boolean, message: string, schema: z.GlobalMeta, missing?: string) =>
  z
    .string({ error: ({ input }) => (input === undefined ? (missing ?? "is required") : message) })
    .refine(isValid, { error: message })
    .meta(schema);

export const text = (max: number, schema: z.GlobalMeta) =>
  field(
    (value) => value !== "" && value.length <= max && isStorable(value),
    `must be a string of 1 to ${max} characters`,
    { minLength: 1, maxLength: max, ...schema },
  );

export const secret = (description: string): z.GlobalMeta => ({ description, writeOnly: true });
const PASSWORD = { ...secret("The password."), format: "password" };
const CODE = secret("A code of the authenticator app, or a backup code.");

const code = field(
  (value) => value.length <= MAX_CODE && (isAppCode(value) || isBackupCode(value)),
  "must be the 6 digits that the app shows, or a backup code",
  CODE,
);

const PASSWORD_AND_PROOF = {
  password: text(MAX_PASSWORD, PASSWORD),
  code: code.nullable().optional(),
  passkey: SignatureBody.nullable().optional(),
};

export const LoginBody = named("Login", {
  username: text(MAX_LOGIN, { description: "The username or the e-mail." }),
  ...PASSWORD_AND_PROOF,
});

export const EmailLoginBody = named("LoginWithEmail", {
  email: text(MAX_LOGIN, { description: "The e-mail, as at the registration." }),
  ...PASSWORD_AND_PROOF,
});

export const CHALLENGE = text(MAX_TOKEN, secret("The challenge from the 401 `MFA_REQUIRED` response."));

export const ChallengeBody = named("LoginWithChallenge", { challenge: CHALLENGE, code });

export const ChallengePasskeyBody = named("LoginWithChallengeAndPasskey", {
  challenge: CHALLENGE,
  passkey: SignatureBody,
});

export const PasskeyLoginBody = named("LoginWithPasskey", { passkey: SignatureBody });

/** The bodies of a login, of which each is one. */
export const LOGIN_BODIES = [LoginBody, EmailLoginBody, ChallengeBody, ChallengePasskeyBody, PasskeyLoginBody];

export const RefreshBody = named("Refresh", {
  refreshToken: text(MAX_TOKEN, secret("The refresh token of the latest pair.")),
});

export const LogoutBody = named("Logout", {
  scope: z
    .enum(["local", "others", "global"], { error: "must be local, others or global" })
    .default("global")
    .meta({ description: "Which sessions end: that of the caller, all others, or all." }),
});

/** Its rules are settings: the component of the OpenAPI document has them. */
export const NEW_PASSWORD: z.GlobalMeta = { $ref: "#/components/schemas/NewPassword" };

export const NEW_PASSWORD_FIELD = field(
  (value) => value !== "" && isStorable(value),
  "must be a string, and not empty",
  NEW_PASSWORD,
);

/**
 * The account fields of a new user, at `POST /auth/register` and `POST /users`.
 */
export const AccountBody = z.object({
  password: z
    .string({ error: ({ input }) => (input === undefined ? "is required" : "must be a text") })
    .meta(NEW_PASSWORD),
  username: z
    .string({ error: "must be a text" })
    .refine(isStorable, { error: "must not contain NUL or an unpaired surrogate", abort: true })
    .overwrite(normalizedUsername)
    .check(({ value, issues }) => {
      const message = usernameFault(value);
      if (message !== null) issues.push({ code: "custom", input: value, message });
    })
    .meta({
      minLength: 1,
      maxLength: MAX_USERNAME,
      pattern: USERNAME_PATTERN,
      description: "The name to sign in with. Without it, the user signs in with the e-mail.",
      writeOnly: true,
    })
    .nullable()
    .optional(),
});

/** The code or the passkey of a change that needs one if a second factor is enabled. */
export const PROOF_IF_ENABLED = {
  code: code
    .nullable()
    .optional()
    .meta({
      ...CODE,
      description: `${CODE.description} It or the passkey is required if a second factor is enabled.`,
    }),
  passkey: SignatureBody.nullable().optional(),
};
/** Accepts any string: one that cannot be a password is compared too, and is reported as a wrong password. */
const CONFIRMED = field(() => true, "must be a string", PASSWORD);
export const PASSWORD_IF_OLD = CONFIRMED.nullable()
  .optional()
  .meta({
    ...PASSWORD,
    description: "The password. Required if the sign-in is older than 10 minutes.",
  });

const IF_ANY = "Required unless the account has no password: then the sign-in must be at most 10 minutes old.";

/** The rules for the new password are checked later, together with "must differ from the old one". */
export const PasswordBody = named("PasswordChange", {
  oldPassword: text(MAX_PASSWORD, PASSWORD)
    .optional()
    .meta({ ...PASSWORD, description: `The current password. ${IF_ANY}` }),
  ...PROOF_IF_ENABLED,
  newPassword: NEW_PASSWORD_FIELD,
});

/** The format of an e-mail is a constraint of the database. */
export const EmailBody = named("EmailChange", {
  email: text(MAX_LOGIN, { description: "The new e-mail.", format: "email" }).check(({ value, issues }) => {
    const message = loginEmailFault(value);
    if (message !== null) issues.push({ code: "custom", input: value, message });
  }),
  password: PASSWORD_IF_OLD,
  ...PROOF_IF_ENABLED,
});

/** What a user calls something. */
export const NAME = (description: string) =>
  field(
    (value) => isVisible(value) && [...value].length <= MAX_NAME && isStorable(value),
    `must be a string of 1 to ${MAX_NAME} characters`,
    { minLength: 1, maxLength: MAX_NAME, description },
  );

/** Unknown fields are rejected: a key with a misspelt `expires_in` would never expire. */
export const KeyBody = named(
  "KeyInput",
  {
    name: NAME("What the key is for."),
    expiresIn: z
      .int({ error: `must be a whole number of seconds from ${MIN_SECONDS} to ${MAX_SECONDS}, or null for no expiry` })
      .min(MIN_SECONDS)
      .max(MAX_SECONDS)
      .nullable()
      .default(null)
      .meta({ description: `Seconds until the key expires, at most ${MAX_SECONDS}; null for no expiry.` }),
    password: PASSWORD_IF_OLD,
    ...PROOF_IF_ENABLED,
  },
  { others: "refused" },
);

export const ConfirmationBody = named("Confirmation", {
  password: CONFIRMED.optional().meta({ ...PASSWORD, description: `The password. ${IF_ANY}` }),
  ...PROOF_IF_ENABLED,
});

/** Confirms a new second factor, which a recent sign-in need not do. */
export const EnrolmentBody = named("Enrolment", { password: PASSWORD_IF_OLD, ...PROOF_IF_ENABLED });

/** The first code of a second factor, which has no backup codes yet. */
export const CodeBody = named("FactorCode", {
  code: field(
    (value) => value.length <= MAX_CODE && isAppCode(value),
    "must be the 6 digits that the app shows",
    secret("A code of the authenticator app."),
    "is required: send it as ?code=… or as {code}",
  ),
});

export type LoginInput = { readonly username: string; readonly password: string; readonly code: FactorProof | null };
export type ChallengeInput = { readonly challenge: string; readonly code: FactorProof };
export type PasskeyInput = z.infer<typeof PasskeyLoginBody>;

/** Reads a JSON body of any type. Rejects with Problem. */
export const readBody = async (request: IncomingMessage, limits: BodyLimits): Promise<unknown> =>
  parseBody(await readBytes(request, limits.bodyLimit), request.headers["content-type"], limits);

/** Reads a JSON body that may be missing. Rejects with Problem. */
export async function readOptional<Body>(limits: BodyLimits, request: IncomingMessage, schema: z.ZodType<Body>) {
  const bytes = await readBytes(request, limits.bodyLimit);
  return parse(schema, bytes.length === 0 ? {} : parseBody(bytes, request.headers["content-type"], limits));
}

/** Bytes of a form. A response of SAML has at most 96 KiB, in base64 whose `+` and `=` are escaped. */
const MAX_FORM = 196_608;

/** Reads the body of a form. Rejects with Problem: 413 for a larger one, 415 for another media type. */
export async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    const message = "the body must be sent as Content-Type: application/x-www-form-urlencoded";
    throw problem("unsupported body", { message });
  }
  return new URLSearchParams((await readBytes(request, MAX_FORM)).toString());
}

/**
 * Parses `{ username, password, code? }`, `{ email, password, code? }`, `{ challenge, code }` that completes a login, or `{ passkey }`. In place of a code, each may have
 * a passkey. Throws Problem.
 */
export function parseLogin(body: unknown): LoginInput | ChallengeInput | PasskeyInput {
  const sent = (body ?? {}) as Readonly<Record<string, unknown>>;
  const hasPasskey = sent.passkey != null;
  if (sent.challenge !== undefined) {
    if (!hasPasskey) return parse(ChallengeBody, body);
    const { challenge, passkey } = parse(ChallengePasskeyBody, body);
    return { challenge, code: passkey };
  }
  if (hasPasskey && ["username", "email", "password"].every((name) => sent[name] === undefined))
    return parse(PasskeyLoginBody, body);
  if (sent.username !== undefined || sent.email === undefined) return parseCredentials(body);
  const { email, ...others } = parse(EmailLoginBody, body);
  return parseCredentials({ ...others, username: email });
}

export function parseCredentials(body: unknown): LoginInput {
  const { username, password, code = null, passkey } = parse(LoginBody, body);
  return { username, password, code: passkey ?? code };
}

/** Throws a Problem that names every invalid field: MISSING_FIELD if one is missing, otherwise VALIDATION_ERROR. */
export function parse<Body>(schema: z.ZodType<Body>, body: unknown): Body {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw problem("not an object");
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const { issues } = result.error;
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const faults = new Map(issues.flatMap((issue) => faultsOf(issue, known)).map((fault) => [fault.field, fault]));
  const fields = body as Record<PropertyKey, unknown>;
  const missing = new Set(issues.map(({ path: [name] }) => name).filter((name) => name && fields[name] === undefined));
  const withCode = (fault: Fault): Fault => (missing.has(fault.field) ? { ...fault, code: "MISSING_FIELD" } : fault);
  throw badFields([...faults.values()].map(withCode), missing.size > 0);
}

const AND = new Intl.ListFormat("en-GB");

/** One fault for each unknown field or failed check: `{ field: "name", message: "name is required" }`. */
export function faultsOf(issue: z.core.$ZodIssue, known: readonly string[] = []): readonly Fault[] {
  if (issue.code !== "unrecognized_keys") {
    const name = String(issue.path[0]);
    return [{ field: name, message: `${name} ${issue.message}` }];
  }
  return issue.keys.slice(0, 10).map((key) => {
    const name = key.slice(0, 50);
    return { field: name, message: `there is no field ${name}: use ${AND.format(known)}` };
  });
}
