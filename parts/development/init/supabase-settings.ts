import type { parse as parseToml } from "smol-toml";
import { z } from "zod";
import { CommandError } from "../../../cli/command.ts";
import { MAX_ACCESS_TOKEN_TTL } from "../../../config/settings.ts";
import type { Difference } from "./supabase-sql.ts";

const CONFIG = "config.toml";

const texts = z.array(z.string());
const flags = z.object({ enabled: z.boolean().default(false) });

/** What has a counterpart here, with the defaults of Supabase. */
const CONFIG_TOML = z.object({
  project_id: z.string().default(""),
  api: z
    .object({
      schemas: texts.default(["public"]),
      extra_search_path: texts.default(["public", "extensions"]),
      max_rows: z.number().default(1000),
    })
    .prefault({}),
  db: z
    .object({
      seed: z.object({ enabled: z.boolean().default(true), sql_paths: texts.default(["./seed.sql"]) }).prefault({}),
    })
    .prefault({}),
  auth: z
    .object({
      site_url: z.string().default(""),
      additional_redirect_urls: texts.default([]),
      jwt_expiry: z.number().default(3600),
      enable_signup: z.boolean().default(true),
      enable_anonymous_sign_ins: z.boolean().default(false),
      minimum_password_length: z.number().default(6),
      password_requirements: z.string().default(""),
      email: z
        .object({ enable_signup: z.boolean().default(true), enable_confirmations: z.boolean().default(false) })
        .prefault({}),
      external: z.record(z.string(), flags).default({}),
      hook: z.record(z.string(), flags).default({}),
    })
    .prefault({}),
});

/** The schemas of Supabase itself, which its configuration names among those of the API. */
const FOREIGN_SCHEMAS = ["storage", "graphql_public", "auth"];

/** Classes of characters of `auth.password_requirements`. */
const PASSWORD_CLASSES: Readonly<Record<string, string>> = {
  letters_digits: ",lower,digit",
  lower_upper_letters_digits: ",lower,upper,digit",
  lower_upper_letters_digits_symbols: ",lower,upper,digit,special",
};

export type SupabaseProject = {
  readonly name: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Patterns of files with data for development, relative to the folder of `config.toml`. */
  readonly seeds: readonly string[];
  readonly differences: readonly Difference[];
};

/** The settings of a project. Throws CommandError for a file that is not as Supabase writes it. */
export function readProject(text: string, parse: typeof parseToml): SupabaseProject {
  const { project_id: name, api, auth, db } = parsed(text, parse);
  const differences: Difference[] = [];
  const differs = (key: string, what: string, instead: string) =>
    differences.push({ file: CONFIG, line: lineOf(text, key), what, instead });

  const urls = [auth.site_url, ...auth.additional_redirect_urls].filter((url) => url !== "");
  for (const url of urls)
    if (originOf(url) === null)
      differs(url, url, "AUTH_RETURN_ORIGINS, with an origin: http or https, without * and env()");
  const ttl = Math.min(Math.max(auth.jwt_expiry, 60), MAX_ACCESS_TOKEN_TTL);
  if (ttl !== auth.jwt_expiry)
    differs(
      "jwt_expiry",
      `jwt_expiry = ${auth.jwt_expiry}`,
      `ACCESS_TOKEN_TTL=${ttl}: at least a minute, at most a day`,
    );
  for (const [key, { enabled }] of Object.entries(auth.external))
    if (enabled) differs(`auth.external.${key}`, `the provider ${key}`, "AUTH_PROVIDERS (docs/federated-sign-in.md)");
  for (const [key, { enabled }] of Object.entries(auth.hook))
    if (enabled) differs(`auth.hook.${key}`, `the hook ${key}`, "a hook of the service (docs/applications.md, Hooks)");

  const isOpen = auth.enable_signup && auth.email.enable_signup;
  const schemas = api.schemas.filter((schema) => !FOREIGN_SCHEMAS.includes(schema));
  return {
    name,
    differences,
    seeds: db.seed.enabled ? db.seed.sql_paths : [],
    settings: {
      AUTH_USER_ID: "uuid",
      DB_SCHEMAS: (schemas.length > 0 ? schemas : ["public"]).join(),
      DB_EXTRA_SEARCH_PATH: api.extra_search_path.join(),
      DB_MAX_ROWS: String(api.max_rows),
      SIGNUP: !isOpen ? "off" : auth.enable_anonymous_sign_ins ? "anonymous" : "open",
      EMAIL_CONFIRM: auth.email.enable_confirmations ? "required" : "off",
      PASSWORD_RULES: `${auth.minimum_password_length}${PASSWORD_CLASSES[auth.password_requirements] ?? ""}`,
      ACCESS_TOKEN_TTL: String(ttl),
      AUTH_RETURN_ORIGINS: [...new Set(urls.map(originOf))].filter((origin) => origin !== null).join(),
    },
  };
}

/** `https://app.example.com/welcome` → `https://app.example.com`; null for patterns and other schemes. */
function originOf(text: string): string | null {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && !url.host.includes("*") ? url.origin : null;
}

function parsed(text: string, parse: typeof parseToml): z.infer<typeof CONFIG_TOML> {
  try {
    return CONFIG_TOML.parse(parse(text));
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw new CommandError(1, `${CONFIG} cannot be read: ${reason.trim()}`);
  }
}

/** The line of a key, or of a table such as `auth.external.github`, or of a value; 1 if it is not written out. */
function lineOf(text: string, key: string): number {
  const lines = text.split("\n");
  const found = lines.findIndex((line) => !/^\s*#/.test(line) && line.includes(key));
  return found < 0 ? 1 : found + 1;
}
