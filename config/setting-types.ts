import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { isIP } from "node:net";
import { z } from "zod";
import { parseClaimPath } from "./claim-path.ts";
import { ConfigError, parsedBy } from "./config-error.ts";
import { isJwk, readJwks } from "./json-web-keys.ts";
import { MODULE_NAMES } from "./modules.ts";

/** `CamelCase<"GRAPHQL_MAX_DEPTH">` is `"graphqlMaxDepth"`. */
export type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>;

/** `max_depth` → `maxDepth` */
export const camelCase = (name: string) => name.replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** Messages do not repeat the values of these settings. */
export const SECRETS = /(SECRET|KEY|URLS?|URI)$/;

/** Parses the text of the environment variable `name`; undefined if it is unset. Throws ConfigError. */
export function parseValue<T>(name: string, type: z.ZodType<T, any>, text: string | undefined): T {
  const result = type.safeParse(text);
  if (result.success) return result.data;
  const shown = SECRETS.test(name) ? "" : ` (is ${text === undefined ? "unset" : JSON.stringify(text)})`;
  throw new ConfigError(`${name} ${result.error.issues[0]!.message}${shown}`);
}

// The types of settings. Each message continues the name of the setting: "PORT must be a whole number".

export const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

/** Part of the name of a replication slot. Such a name has only these characters, at most 63. */
export const instanceId = z
  .string()
  .regex(/^[a-z0-9_]{1,32}$/, "must be 1 to 32 lower-case letters, digits and underscores");

export const oneOf = <const T extends string>(...values: T[]) =>
  z.enum(values, { error: `must be ${values.join(" or ")}` });

export const moduleNames = z
  .string()
  .transform((text): readonly string[] => text.split(",").flatMap((name) => name.trim() || []))
  .pipe(z.array(z.enum(MODULE_NAMES, { error: `must be a list of ${MODULE_NAMES.join(", ")}` })).readonly());

/** `true` and `false` are accepted as well. */
export const onOff = z
  .enum(["on", "off", "true", "false"], { error: "must be on or off" })
  .transform((value) => value === "on" || value === "true");

/** Accepts "" for unset. Not a zod union, whose message would describe neither type. */
export const orUnset = <T>(type: z.ZodType<T, string>) =>
  parsedBy(z.string(), (text): T | "" => {
    if (text === "") return "";
    const { data, error } = type.safeParse(text);
    if (error) throw new Error(error.issues[0]!.message);
    return data;
  });

/** `a, b` → `["a", "b"]` */
export const list = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

export const tableExtras = list.pipe(z.array(oneOf("aggregates", "bulk", "changes", "node")));

const PASSWORD_CLASSES = ["upper", "lower", "digit", "special"] as const;

/** A class of characters. */
export type PasswordClass = (typeof PASSWORD_CLASSES)[number];

/** `12,upper,digit` → `{ length: 12, classes: ["upper", "digit"] }` */
export const passwordRules = list
  .refine(
    ([length = "", ...classes]) =>
      /^\d{1,3}$/.test(length) &&
      Number(length) >= 1 &&
      Number(length) <= 128 &&
      classes.every((name) => (PASSWORD_CLASSES as readonly string[]).includes(name)),
    `must be a number from 1 to 128, and any of ${PASSWORD_CLASSES.join(", ")}: 12,upper,digit`,
  )
  .transform(([length, ...classes]) => ({ length: Number(length), classes: classes as PasswordClass[] }));

/** System schemas are excluded: they expose data that was never granted. */
export const servedSchemas = list.pipe(
  z
    .array(
      z
        .string()
        .refine((name) => !/^(pg_|information_schema$)/.test(name), "must not name a system schema of PostgreSQL"),
    )
    .min(1, "must name at least one schema"),
);

/** `none`, which is not a valid role name, becomes "". */
export const anonymousRole = z
  .string()
  .min(1)
  .transform((name) => (name === "none" ? "" : name));

/** `auth.check_request` → `{ schema: "auth", name: "check_request" }`. `schema` is null when it is not given; "" gives null. */
export const functionName = z
  .string()
  .regex(/^([^.]+\.)?[^.]+$|^$/, "must be the name of a function such as auth.check_request")
  .transform((text): { readonly schema: string | null; readonly name: string } | null => {
    if (text === "") return null;
    const [name, schema = null] = text.split(".").reverse() as [string, string?];
    return { schema, name };
  });

/** The path of the claim that holds the role of a token. */
export const roleClaim = parsedBy(z.string(), parseClaimPath);

/** The URL of pages, which may have a fragment. */
export const pagesUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.username === "";
}, "must be a URL such as https://app.example.com/account");

const PART_NAME = /^[+-]?[a-z]+(-[a-z]+)*$/;

/** `+console,-site` → `["+console", "-site"]` */
export const partNames = list
  .refine((names) => {
    const changes = names.filter((name) => /^[+-]/.test(name)).length;
    return names.every((name) => PART_NAME.test(name)) && (changes === 0 || changes === names.length);
  }, "must be a list of parts such as console,site, or of changes such as +console,-site")
  .refine((names) => !names.includes("none") || names.length === 1, "must not name other parts beside none");

/** A host name or an IP address, without a port. */
export const host = z
  .string()
  .refine((text) => isIP(text) > 0 || /^[\w.-]+$/.test(text), "must be a host name or an IP address, without a port");

/** Text that keys are derived from; "" is unset. */
export const secret = z
  .string()
  .refine((text) => !isHttp(text), "must be a secret, not a URL: list the issuer of the tokens in JWT_ISSUERS")
  .refine((text) => text === "" || Buffer.byteLength(text) >= 32, "must have at least 32 bytes");

/** The same, or JSON Web Keys. */
export const secretOrKeys = parsedBy(secret, (text) => {
  if (isJwk(text)) readJwks(text);
  return text;
});

/** `https://api.example.com/v1/` → without the trailing slash, so that paths can be appended. */
export const httpUrl = z
  .string()
  .refine((text) => isHttp(text) && !/[?#]/.test(text), "must be an http or https URL, without ? and #")
  .transform((text) => text.replace(/\/+$/, ""));

/** Browser origins as sent in the header Origin: scheme, host and port. `*` stands for all. */
export const origins = list.pipe(
  z.array(
    z
      .string()
      .refine(
        (text) => text === "*" || (isHttp(text) && !text.includes("*") && new URL(text).origin === text),
        "must be * or origins such as https://app.example.com",
      ),
  ),
);

/** IP addresses and networks of proxies, or Express's names for the private networks. */
export const proxies = list.pipe(
  z.array(
    z
      .string()
      .refine(
        (text) => isNetwork(text) || ["loopback", "linklocal", "uniquelocal"].includes(text),
        "must be IP addresses such as 10.0.0.1 or networks such as 10.0.0.0/8",
      ),
  ),
);

/** IP addresses and networks, and loopback for the networks of this machine. */
export const networks = list.pipe(
  z.array(
    z
      .string()
      .refine(
        (text) => isNetwork(text) || text === "loopback",
        "must be networks such as 10.0.0.0/8 or IP addresses such as 10.0.0.1",
      ),
  ),
);

/** RSA private key in PEM format. Line ends may be written as \n, for environments that allow only one line. */
export const rsaKey = z
  .string()
  .transform((text) => text.replaceAll("\\n", "\n"))
  .refine((pem) => pem === "" || isRsaKey(pem), "must be the PEM of an RSA private key of at least 2048 bits");

/** A secret, or the PEM of an RSA key that verifies signatures. A private key is accepted too, as it contains the public one. */
export const previousKey = z
  .string()
  .transform((text) => (isPem(text) ? text.replaceAll("\\n", "\n") : text))
  .refine((text) => isPem(text) || text === "" || Buffer.byteLength(text) >= 32, "must have at least 32 bytes")
  .refine((text) => !isPem(text) || isRsaPublicKey(text), "must be the PEM of an RSA key of at least 2048 bits");

export const isPem = (text: string) => text.startsWith("-----BEGIN ");

function isHttp(text: string): boolean {
  return /^https?:\/\//.test(text) && URL.canParse(text);
}

function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

const isRsaKey = (pem: string) => isStrongRsa(() => createPrivateKey(pem));
const isRsaPublicKey = (pem: string) => isStrongRsa(() => createPublicKey(pem));

/** Whether `read` returns an RSA key of at least 2048 bits. False if it throws. */
export function isStrongRsa(read: () => KeyObject): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = read();
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048;
  } catch {
    return false;
  }
}

/** `deprecated 2027-06-30 https://example.com/v2`: a state, the date on which the version ends, and the URL of a guide. */
export const lifecycle = parsedBy(z.string(), (text): Lifecycle => {
  const [, status, day, guide = ""] = LIFECYCLE.exec(text) ?? [];
  const isDay = day === undefined || new Date(day).toJSON()?.startsWith(day) === true;
  if (status !== undefined && isDay && (guide === "" || httpUrl.safeParse(guide).success))
    return { status: status as Lifecycle["status"], sunset: day === undefined ? null : new Date(day), guide };
  throw new Error(
    "must be supported, deprecated or retired; a date and the URL of a guide may follow: deprecated 2027-06-30 https://example.com/v2",
  );
});

const LIFECYCLE = /^(supported|deprecated|retired)(?: (\d{4}-\d{2}-\d{2}))?(?: (https?:\S+))?$/;

/** `sunset` is null if it is undecided, `guide` "" for none. */
type Lifecycle = {
  readonly status: "supported" | "deprecated" | "retired";
  readonly sunset: Date | null;
  readonly guide: string;
};
