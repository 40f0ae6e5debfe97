import { z } from "zod";
import type { ClaimPath } from "../../config/claim-path.ts";
import { parsedBy } from "../../config/config-error.ts";
import { isLoopbackUrl, remoteUrl, requiredText } from "../../config/json-file.ts";
import type { Sources } from "../../config/provider-entry.ts";
import { readFile } from "../../config/text-file.ts";

/** A URL at the provider. */
export const providerUrl = ({ allowsLoopback }: Sources) =>
  remoteUrl.refine(
    (url) => allowsLoopback || !isLoopbackUrl(url),
    "is on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback",
  );

type Claim = "subject" | "name" | "email";

/** `path` parses the path of a claim; `usual` are the names of the claims that are read if the entry names none. */
export function commonFields(path: z.ZodType<ClaimPath, any>, usual: Readonly<Record<Claim, readonly string[]>>) {
  const paths = (claim: Claim) => oneOrMore(path).default(usual[claim].map((name) => [name]));
  const claims = { subject: paths("subject"), name: paths("name"), email: paths("email") };
  return {
    name: requiredText.regex(/^[a-z0-9][a-z0-9-]{0,49}$/, "must have 1 to 50 letters a to z, digits and hyphens"),
    title: requiredText.optional(),
    signUp: z.boolean({ error: "must be true or false" }).default(true),
    claims: z.strictObject(claims, { error: "must be an object" }).prefault({}),
    require: z
      .record(z.string(), z.unknown(), { error: "must be an object" })
      .default({})
      .transform((required) =>
        Object.entries(required).map(([name, values]) => ({
          claim: path.safeParse(name).data ?? [name],
          values: [values].flat(),
        })),
      ),
  };
}

/** The title of a provider is its name unless the entry has one. */
export const named = <Entry extends { name: string; title?: string | undefined }>(entry: Entry) => ({
  ...entry,
  title: entry.title ?? entry.name,
});

const oneOrMore = <T>(type: z.ZodType<T, any>) =>
  z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(type).min(1, "must not be empty"));

/** Environment variables that entries of the table may name. */
const FOR_TABLE = /^AUTH_SECRET_\w+$/;

/** A text, or `{"file": "…"}` or `{"env": "…"}`, from which it is read. */
export const secret = (sources: Sources) => parsedBy(z.unknown(), (value) => readSecret(value, sources));

function readSecret(value: unknown, { environment, isTable }: Sources): string {
  const { file, env } = Object(value) as Record<string, unknown>;
  if (isTable && !FOR_TABLE.test(String(env)))
    throw new Error('must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources');
  const text = typeof env === "string" ? environment[env] : typeof file === "string" ? readFile(file).trim() : value;
  if (typeof text === "string" && text !== "") return text;
  if (typeof env === "string") throw new Error(`names the environment variable ${env}, which is not set`);
  throw new Error('must be a string, {"file": "…"} or {"env": "…"}, and not empty');
}
