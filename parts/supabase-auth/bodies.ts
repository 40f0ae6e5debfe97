import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { withExactNumbers } from "../../db/exact-numbers.ts";
import { type BodyLimits, readBytes } from "../../gate/pipeline/body.ts";
import { problem } from "../../problems/problem.ts";
import { parseBody } from "../../rest-gateway/conventions/json-body.ts";
import { invalid } from "./problem.ts";

// The request bodies of /auth/v1. Unknown fields are ignored, except those of EFFECTIVE, and null is the same as a missing field.

const text = (max: number) =>
  z
    .string()
    .max(max)
    .refine((value) => value.isWellFormed() && !value.includes("\0"))
    .nullish();

/** Whether PostgreSQL stores a value as JSON: no text in it has a NUL or an unpaired surrogate, which JSON escapes. */
const isStorableJson = (value: object) => !/\\u(0000|d[89a-f])/.test(JSON.stringify(value).replaceAll("\\\\", ""));
const NOT_STORABLE = { error: "must not contain NUL or an unpaired surrogate" };

/** Characters of an e-mail. */
const MAX_EMAIL = 255;
const MAX_PASSWORD = 1024;
const MAX_TOKEN = 4096;
/** Providers put groups and photos into their tokens. */
const MAX_ID_TOKEN = 32_768;
const email = text(MAX_EMAIL);
const password = text(MAX_PASSWORD);
/** Of an application that exchanges a code with its verifier. */
const pkce = { code_challenge: text(128), code_challenge_method: text(20) };
const metadata = z.record(z.string(), z.unknown()).refine(isStorableJson, NOT_STORABLE).nullish();

export const SignUp = z.object({ email, phone: text(MAX_EMAIL), password, data: metadata, ...pkce });
export const PasswordGrant = z.object({ email, phone: text(MAX_EMAIL), password });
export const RefreshGrant = z.object({ refresh_token: text(MAX_TOKEN) });
export const UserChange = z.object({
  email,
  phone: text(MAX_EMAIL),
  password,
  current_password: password,
  nonce: text(MAX_EMAIL),
  data: metadata,
  app_metadata: metadata,
  ...pkce,
});

export const PkceGrant = z.object({ auth_code: text(MAX_TOKEN), code_verifier: text(128) });
export const IdTokenGrant = z.object({
  provider: text(100),
  id_token: text(MAX_ID_TOKEN),
  access_token: text(MAX_ID_TOKEN),
  nonce: text(MAX_EMAIL),
  link_identity: z.boolean().nullish(),
});
export const SsoRequest = z.object({
  provider_id: text(50),
  domain: text(MAX_EMAIL),
  redirect_to: text(MAX_TOKEN),
  skip_http_redirect: z.boolean().nullish(),
  ...pkce,
});
export const MailRequest = z.object({
  email,
  phone: text(MAX_EMAIL),
  type: text(20),
  data: metadata,
  create_user: z.boolean().nullish(),
  ...pkce,
});
export const Verification = z.object({
  email,
  phone: text(MAX_EMAIL),
  type: text(20),
  token: text(20),
  token_hash: text(MAX_TOKEN),
  password,
});
/** A field that would be ignored is refused: an operator who moves users notices last that it was. */
export const AdminUser = z.strictObject({
  email,
  phone: text(MAX_EMAIL),
  password,
  password_hash: text(MAX_PASSWORD),
  email_confirm: z.boolean().nullish(),
  phone_confirm: z.boolean().nullish(),
  role: text(100),
  ban_duration: text(20),
  id: text(100),
  user_metadata: metadata,
  app_metadata: metadata,
});
export const LinkRequest = z.object({ type: text(30), email, new_email: email, password, data: metadata });
export const InvitedUser = z.object({ email, data: metadata });
export const Deletion = z.object({ should_soft_delete: z.boolean().nullish() });
export const FactorChange = z.object({
  factor_type: text(20),
  friendly_name: text(100),
  issuer: text(100),
  phone: text(MAX_EMAIL),
});
export const FactorCode = z.object({
  challenge_id: text(100),
  code: text(20),
  webauthn: z.object({ credential_response: z.unknown() }).nullish(),
});
export const PasskeyAnswer = z.object({ challenge_id: text(100), credential: z.unknown() });
export const PasskeyChange = z.object({ friendly_name: text(100) });

/** Fields of Supabase Auth that change an account. Where one is not used, it is refused: a client would believe that it was. */
const EFFECTIVE = [
  ...["app_metadata", "user_metadata", "role", "ban_duration", "email_confirm", "id", "nonce", "password"],
  ...["password_hash", "phone", "phone_confirm", "channel"],
];

function refuseUnused(sent: unknown, shape: object): void {
  for (const name of EFFECTIVE) {
    if (Object.hasOwn(shape, name) || !(sent as Readonly<Record<string, unknown>> | null)?.[name]) continue;
    if (name === "app_metadata") throw problem("metadata of administrators");
    throw /^phone|^channel/.test(name) ? problem("phones off") : invalid(`there is no field ${name}`);
  }
}

/** Rejects with Problem. An empty body counts as `{}`. */
export async function readAuthBody<Body>(
  request: IncomingMessage,
  limits: BodyLimits,
  schema: z.ZodType<Body> & { readonly shape: object },
): Promise<Body> {
  const bytes = await readBytes(request, limits.bodyLimit);
  const sent = bytes.length === 0 ? {} : parseBody(bytes, request.headers["content-type"], limits);
  // Metadata are stored as they were sent.
  const result = schema.safeParse(withExactNumbers(sent));
  if (result.success) {
    refuseUnused(sent, schema.shape);
    return result.data;
  }
  const [issue] = result.error.issues;
  const { path, message } = issue!;
  if (issue!.code === "unrecognized_keys") throw invalid(`there is no field ${issue!.keys.join(", ")}`);
  if (path.length === 0) throw problem("not an object");
  throw invalid(`${path.join(".")}: ${message}`);
}
