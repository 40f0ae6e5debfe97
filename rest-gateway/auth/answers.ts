import { z } from "zod";
import type { Answer, BodySchema } from "./route.ts";
import { named } from "./schemas.ts";

// The response bodies of authentication. The handlers return them, and the OpenAPI document is generated from them.

export const text = (description: string) => z.string().describe(description);
export const uuid = () => z.string().meta({ format: "uuid" });
export const time = (description: string) => z.string().meta({ description, format: "date-time" });
export const timeOrNull = (description: string) => z.string().nullable().meta({ description, format: "date-time" });

const message = { message: text("A message for people.") };

const tokens = {
  accessToken: text("Send it as `Authorization: Bearer`."),
  refreshToken: text("Exchange it once for a new pair at `POST /auth/refresh`."),
  expiresIn: z.number().meta({ type: "integer", description: "Seconds until the access token expires." }),
  tokenType: z.enum(["Bearer"]),
};

export const TokenPairAnswer = named("TokenPair", tokens);
export const MessageAnswer = named("Message", message);
export const EmailAnswer = named("ChangedEmail", { email: text("The new e-mail."), ...message });

const user = {
  id: z.union([z.number(), z.string()]).describe("The id of the user, a number or a text."),
  name: text("The name of the user."),
  username: text("The username, or the e-mail if the user has none."),
  email: text("The e-mail that the user signs in with."),
  emailConfirmed: z.boolean().describe("Whether the user has shown that the e-mail is theirs."),
  role: text("The role of the user."),
  permissions: z.array(z.string()).describe("Words that the application defines."),
  mfaEnabled: z.boolean().describe("Whether a second factor is enabled."),
  hasPassword: z.boolean().describe("Whether the user has a password; otherwise identities of providers sign in."),
};

export const SignedInAnswer = named("SignedIn", { ...tokens, user: z.object(user) });

export const SessionEntryAnswer = named("SessionEntry", {
  id: uuid(),
  kind: z.enum(["token", "cookie"]).describe("What the session has been started with."),
  device: z.string().nullable().describe("The browser and the system, or the program, as it named itself."),
  network: z.string().nullable().describe("The range of IP addresses that the user signed in from."),
  createdAt: time("When the user signed in."),
  lastUsedAt: time("When the tokens were last refreshed, or the cookie was last used, to half a minute."),
  expiresAt: time("When the session ends if it is not used."),
  isCurrent: z.boolean().describe("Whether the request was made with this session."),
});
export const SessionListAnswer = named("SessionList", { data: z.array(SessionEntryAnswer) });

export const UserAnswer = named("SignedInUser", {
  ...user,
  session: SessionEntryAnswer.nullable().describe("The session of the request; null with a key or a password."),
});

const signedIn = {
  username: text("The username, or the e-mail if the user has none."),
  role: text("The role of the user."),
};

export const SessionLoginAnswer = named("SessionLogin", { ...signedIn, ...message, user: z.object(user) });

export const SessionAnswer = named("Session", {
  userId: user.id,
  ...signedIn,
  loginTime: time("When the session started."),
});

export const CsrfTokenAnswer = named("CsrfToken", {
  csrfToken: text("Send it as `X-CSRF-Token` with every change that is authenticated by the cookie."),
});

export const KeyAnswer = named("Key", {
  id: uuid(),
  prefix: text("The first characters of the key, to recognize it by."),
  name: text("What the key is for."),
  createdAt: time("When the key was created."),
  expiresAt: timeOrNull("When the key expires; null if it never does."),
  lastUsedAt: timeOrNull("When the key was last used, to the minute; null if it was never used."),
});

export const NewKeyAnswer = named("NewKey", { ...KeyAnswer.shape, key: text("The key, which is not shown again.") });
export const KeyListAnswer = named("KeyList", { data: z.array(KeyAnswer) });

export const EnrolmentAnswer = named("FactorEnrolment", {
  secret: text("The secret for an authenticator app."),
  qrCode: text("The secret as a QR code: a PNG as a data URL."),
  ...message,
});

export const BackupCodesAnswer = named("BackupCodes", {
  ...message,
  backupCodes: z.array(z.string().length(8)).describe("Not shown again. Each replaces a code of the app once."),
  warning: text("A message for people."),
});

const provider = z.object({
  name: text("Its name in URLs."),
  title: text("Its name for people."),
  kind: z.enum(["oidc", "oauth2", "saml"]),
  signIn: text("The path at which a sign-in starts."),
});

export const ProviderListAnswer = named("ProviderList", { data: z.array(provider) });

export const JwksAnswer = named("Jwks", { keys: z.array(z.looseObject({})) });

type BodyOf<Schema> = Schema extends z.ZodType<infer Body> ? Body : unknown;

/** A response with one of these bodies. */
export const ok = <Schemas extends readonly BodySchema[]>(
  about: string,
  ...schemas: Schemas
): Answer<BodyOf<Schemas[number]>> => ({ status: 200, about, schemas });

export const page = (about: string, ...schemas: readonly BodySchema[]): Answer<unknown> => ({
  ...ok(about, ...schemas),
  text: "text/html",
});

export const created = <Schema extends BodySchema>(about: string, schema: Schema): Answer<BodyOf<Schema>> => ({
  ...ok(about, schema),
  status: 201,
  headers: ["Location"],
});

export const accepted = <Schema extends BodySchema>(about: string, schema: Schema): Answer<BodyOf<Schema>> => ({
  ...ok(about, schema),
  status: 202,
});

export const noContent = (about: string): Answer<unknown> => ({ ...ok(about), status: 204 });

export const withCookie = <Sent>(answer: Answer<Sent>): Answer<Sent> => ({
  ...answer,
  headers: [...(answer.headers ?? []), "Set-Cookie"],
});
