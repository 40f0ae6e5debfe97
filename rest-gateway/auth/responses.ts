import { ACCESS_SECONDS } from "../../identity/tokens.ts";
import type { JsonSchema } from "../openapi/document.ts";
import { arrayOf, objectOf, refer } from "../openapi/schema-parts.ts";
import { MAX_NAME, MAX_SECONDS, MIN_SECONDS } from "./keys-input.ts";
import { MAX_PASSWORD, MIN_PASSWORD } from "./passwords.ts";

type Properties = Readonly<Record<string, JsonSchema>>;

const text = (description: string): JsonSchema => ({ type: "string", description });
const secret = (description: string): JsonSchema => ({ ...text(description), writeOnly: true });
const time = (description: string): JsonSchema => ({ type: "string", format: "date-time", description });
const timeOrNull = (description: string): JsonSchema => ({ ...time(description), type: ["string", "null"] });
const message = { message: text("For people.") };

/** What a client sends: these fields, and perhaps others. */
const input = (required: Properties, optional: Properties = {}): JsonSchema => ({
  ...objectOf(required),
  properties: { ...required, ...optional },
});

/** A password that is to be set. */
const newPassword: JsonSchema = {
  type: "string",
  format: "password",
  minLength: MIN_PASSWORD,
  maxLength: MAX_PASSWORD,
  description: "With upper case, lower case, digit and special character.",
  writeOnly: true,
};
const password: JsonSchema = { ...secret("The password."), format: "password" };
const code = secret("Of the authenticator app, or a backup code.");

const tokens: Properties = {
  accessToken: text("Goes into `Authorization: Bearer`."),
  refreshToken: text("Good for another pair, once, at `POST /auth/refresh`."),
  expiresIn: { type: "integer", description: `Seconds until the access token ends: ${ACCESS_SECONDS}.` },
  tokenType: { type: "string", enum: ["Bearer"] },
};

const key: Properties = {
  id: { type: "string", format: "uuid" },
  prefix: text("What people tell the key by."),
  name: text("What it is for."),
  createdAt: time("When it was made."),
  expiresAt: timeOrNull("When it ends; null for never."),
  lastUsedAt: timeOrNull("When it was last used, within a minute; null for never."),
};

const backupCodes: Properties = {
  ...message,
  backupCodes: {
    ...arrayOf({ type: "string", minLength: 8, maxLength: 8 }),
    description: "Shown only now; each is good once, in place of a code of the app.",
  },
  warning: text("For people."),
};

/** Bodies of requests and answers of the authentication, by their key. */
export const AUTH_SCHEMAS = {
  Login: input(
    { username: text("The username, or the e-mail."), password },
    { code: { ...code, type: ["string", "null"] } },
  ),
  LoginWithChallenge: input({ challenge: secret("Of the 401 `MFA_REQUIRED` before."), code }),
  TokenPair: objectOf(tokens),
  Refresh: input({ refreshToken: secret("Of the last pair.") }),
  Registration: input(
    { name: text("Of the user."), email: text("Of the user."), password: newPassword },
    {
      age: { type: ["integer", "null"], description: "Of the user." },
      username: { type: ["string", "null"], description: "The name to sign in with; the e-mail when it is left out." },
    },
  ),
  Registered: objectOf({
    user: { type: "object", additionalProperties: true, description: "As version 1 tells it at `/users/{userId}`." },
    ...tokens,
  }),
  PasswordChange: input({ oldPassword: password, newPassword }),
  Confirmation: input({ password }, { code: { ...code, type: ["string", "null"] } }),
  Message: objectOf(message),
  SessionLogin: objectOf({
    username: text("The username, or the e-mail of who has none."),
    role: text("The role of the user."),
    ...message,
  }),
  Session: objectOf({
    userId: { type: "integer", format: "int64" },
    username: text("The username, or the e-mail of who has none."),
    role: text("The role of the user."),
    loginTime: time("When the session began."),
  }),
  CsrfToken: objectOf({ csrfToken: text("Goes into `X-CSRF-Token` of every change that the cookie signs in for.") }),
  KeyInput: input(
    { name: { type: "string", minLength: 1, maxLength: MAX_NAME, description: "What it is for." } },
    {
      expiresIn: {
        type: ["integer", "null"],
        minimum: MIN_SECONDS,
        description: `Seconds until it ends, ${MAX_SECONDS} at most; null for a key without an end.`,
        default: null,
      },
    },
  ),
  Key: objectOf(key),
  NewKey: objectOf({ ...key, key: text("The key itself, which is shown only now.") }),
  KeyList: objectOf({ data: arrayOf(refer("schemas", "Key")) }),
  FactorEnrolment: objectOf({
    secret: text("To type into an authenticator app."),
    qrCode: text("The same for its camera: a PNG as a data URL."),
    ...message,
  }),
  BackupCodes: objectOf(backupCodes),
  FactorCode: input({ code }),
  Jwks: objectOf({ keys: arrayOf({ type: "object", additionalProperties: true }) }),
} as const satisfies Properties;

export type AuthSchema = keyof typeof AUTH_SCHEMAS;
