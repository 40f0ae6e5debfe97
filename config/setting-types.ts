import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { isIP } from "node:net";
import { z } from "zod";
import { parseClaimPath } from "./claim-path.ts";

/** A wrong setting; the message is one line that says which and what it may be. */
export class ConfigError extends Error {}

/** Values of these are not repeated in messages. */
const SECRETS = /(SECRET|KEY|URL|URI)$/;

/** The value that stands in the environment under `name`, as its type gives it. Throws ConfigError. */
export function parseValue<T>(name: string, type: z.ZodType<T, any>, text: string): T {
  const result = type.safeParse(text);
  if (result.success) return result.data;
  const shown = SECRETS.test(name) ? "" : ` (is ${JSON.stringify(text)})`;
  throw new ConfigError(`${name} ${result.error.issues[0]!.message}${shown}`);
}

// What the value of a setting may be. Each message continues the setting's name: "PORT must be a whole number".

export const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

export const oneOf = <const T extends string>(...values: T[]) =>
  z.enum(values, { error: `must be ${values.join(" or ")}` });

/** `true` and `false` are understood as well. */
export const onOff = z
  .enum(["on", "off", "true", "false"], { error: "must be on or off" })
  .transform((value) => value === "on" || value === "true");

/** "" is unset. Not a union, whose message would be that of neither. */
export const orUnset = <T>(type: z.ZodType<T, string>) =>
  z.string().transform((text, context): T | "" => {
    if (text === "") return "";
    const { data, error } = type.safeParse(text);
    if (!error) return data;
    context.addIssue({ code: "custom", message: error.issues[0]!.message });
    return z.NEVER;
  });

/** `a, b` → `["a", "b"]` */
export const list = z.string().transform((text) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== ""),
);

/** Schemas of the system show what nobody granted. */
export const servedSchemas = list.pipe(
  z
    .array(
      z
        .string()
        .refine((name) => !/^(pg_|information_schema$)/.test(name), "must not name a schema of PostgreSQL itself"),
    )
    .min(1, "must name a schema"),
);

/** `none`, which is no name of a role, becomes "". */
export const anonymousRole = z
  .string()
  .min(1)
  .transform((name) => (name === "none" ? "" : name));

/** `auth.check_request` → `{ schema: "auth", name: "check_request" }`; without a schema it is looked up; "" is null. */
export const functionName = z
  .string()
  .regex(/^([^.]+\.)?[^.]+$|^$/, "must be the name of a function such as auth.check_request")
  .transform((text): { readonly schema: string | null; readonly name: string } | null => {
    if (text === "") return null;
    const [name, schema = null] = text.split(".").reverse() as [string, string?];
    return { schema, name };
  });

/** Where a token names its role. */
export const roleClaim = z.string().transform((text, { addIssue }) => {
  const path = parseClaimPath(text);
  if (path !== null) return path;
  addIssue("must be the name of a claim, or a path such as app.role or .roles[0]");
  return z.NEVER;
});

/** An address or a name, without a port. */
export const host = z
  .string()
  .refine((text) => isIP(text) > 0 || /^[\w.-]+$/.test(text), "must be an address or a name, without a port");

/** Text that keys are made from; "" is unset. */
export const secret = z
  .string()
  .refine((text) => text === "" || Buffer.byteLength(text) >= 32, "must have at least 32 bytes");

/** Apps end the name at a colon. */
export const issuerName = z.string().regex(/^[^:\p{Cc}]{1,64}$/u, "must have 1 to 64 characters, without colons");

/** `https://api.example.com/v1/` → without the slash at its end, so that paths can follow. */
export const httpUrl = z
  .string()
  .refine((text) => isHttp(text) && !/[?#]/.test(text), "must be an http or https address, without ? and #")
  .transform((text) => text.replace(/\/+$/, ""));

/**
 * Where a database is. The name, the password and the host must stand in front of the path: they are replaced by those
 * of the login roles, which would change nothing if `?user=` or `?host=` came after them.
 */
export const postgresUrl = z.string().superRefine((text, { addIssue }) => {
  const isAddress = /^postgres(ql)?:\/\/\S+$/.test(text) && URL.canParse(text) && new URL(text).hostname !== "";
  if (!isAddress) return addIssue("must look like postgres://user:password@host:5432/database");
  const { searchParams } = new URL(text);
  if (!["user", "password", "host"].some((name) => searchParams.has(name))) return;
  addIssue(
    "must name user, password and host in front of the path; the folder of a socket is written %2Fvar%2Frun%2Fpostgresql",
  );
});

/** Browser origins, `*` for all of them: scheme and host, as browsers send them in Origin. */
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

/** Addresses and networks of proxies; names of Express for the private ones. */
export const proxies = list.pipe(
  z.array(
    z
      .string()
      .refine(
        (text) => isNetwork(text) || ["loopback", "linklocal", "uniquelocal"].includes(text),
        "must be addresses such as 10.0.0.1 or networks such as 10.0.0.0/8",
      ),
  ),
);

/** PEM of an RSA private key; line ends may be written \n, where the environment knows only one line. */
export const rsaKey = z
  .string()
  .transform((text) => text.replaceAll("\\n", "\n"))
  .refine((pem) => pem === "" || isRsaKey(pem), "must be the PEM of an RSA private key of at least 2048 bits");

/** The same of a key that only verifies; the private one will do too, as it has both halves. */
export const rsaPublicKey = z
  .string()
  .transform((text) => text.replaceAll("\\n", "\n"))
  .refine((pem) => pem === "" || isRsaPublicKey(pem), "must be the PEM of an RSA key of at least 2048 bits");

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

function isStrongRsa(read: () => KeyObject): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = read();
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048;
  } catch {
    return false;
  }
}

/** A day in the calendar, as the moment that it begins in UTC. */
export const day = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}$/, "must be a day such as 2027-06-30")
  .refine((text) => new Date(text).toJSON()?.startsWith(text) === true, "must be a day such as 2027-06-30")
  .transform((text) => new Date(text));

/**
 * Variants of the contract: the shape of errors (detail, flat), the page envelope of version 1 (envelope), PUT keeps absent
 * fields (partial), field names in camelCase (case).
 */
export const DIALECTS = ["detail", "flat", "envelope", "partial", "case"] as const;
export type Dialect = (typeof DIALECTS)[number];

export const dialects = list.pipe(z.array(z.enum(DIALECTS, { error: `must name some of ${DIALECTS.join(", ")}` })));
