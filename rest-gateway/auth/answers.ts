import { z } from "zod";
import type { Answer, BodySchema } from "./route.ts";
import { named } from "./schemas.ts";

// The response bodies of authentication. The handlers return them, and the OpenAPI document is generated from them.

const text = (description: string) => z.string().describe(description);
const uuid = () => z.string().meta({ format: "uuid" });
const time = (description: string) => z.string().meta({ description, format: "date-time" });
const timeOrNull = (description: string) => z.string().nullable().meta({ description, format: "date-time" });

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

const signedIn = {
  username: text("The username, or the e-mail if the user has none."),
  role: text("The role of the user."),
};

export const SessionLoginAnswer = named("SessionLogin", { ...signedIn, ...message });

export const SessionAnswer = named("Session", {
  userId: z.number().meta({ type: "integer", format: "int64" }),
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

export const IdentityAnswer = named("Identity", {
  id: uuid(),
  provider: text("The name of the provider."),
  email: z.string().nullable().describe("The e-mail that the provider has sent last."),
  linkedAt: time("When the identity was linked to the account."),
  lastUsedAt: timeOrNull("When the user last signed in with it; null if never."),
});
export const IdentityListAnswer = named("IdentityList", { data: z.array(IdentityAnswer) });

export const LogoutAnswer = named("FederatedLogout", {
  ...message,
  location: z.string().nullable().describe("The URL that ends the sign-in at the provider; null if it has none."),
});

export const JwksAnswer = named("Jwks", { keys: z.array(z.looseObject({})) });

type BodyOf<Schema> = Schema extends z.ZodType<infer Body> ? Body : unknown;

/** A response with one of these bodies. */
export const ok = <Schemas extends readonly BodySchema[]>(
  about: string,
  ...schemas: Schemas
): Answer<BodyOf<Schemas[number]>> => ({ status: 200, about, schemas });

export const created = <Schema extends BodySchema>(about: string, schema: Schema): Answer<BodyOf<Schema>> => ({
  ...ok(about, schema),
  status: 201,
  headers: ["Location"],
});

export const noContent = (about: string): Answer<unknown> => ({ ...ok(about), status: 204 });

export const withCookie = <Sent>(answer: Answer<Sent>): Answer<Sent> => ({
  ...answer,
  headers: [...(answer.headers ?? []), "Set-Cookie"],
});
