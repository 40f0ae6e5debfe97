import { readFileSync } from "node:fs";
import { z } from "zod";

/**
 * A setting that is the path of a JSON file. Parsing the setting reads the file. Each message continues the name of the
 * setting, and says which field is invalid: `JWT_ISSUERS names a file in which [0].audience is required (is "issuers.json")`.
 */
export const jsonFile = <T>(type: z.ZodType<T, any>) =>
  z.string().transform((path, { addIssue }): T => {
    const { value, fault } = readJson(path);
    const result = fault === null ? type.safeParse(value) : null;
    if (result?.success) return result.data;
    addIssue(`names a file ${fault ?? `in which ${describeIssue(result!.error.issues[0]!)}`}`);
    return z.NEVER;
  });

function readJson(path: string): { readonly value: unknown; readonly fault: string | null } {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return { value: null, fault: "that cannot be read" };
  }
  try {
    return { value: JSON.parse(text), fault: null };
  } catch {
    return { value: null, fault: "that is not JSON" };
  }
}

/** The value of a JSON text; undefined if it is malformed. */
export function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `[0].claims.email must be a string`: the path of the invalid field in the JSON, and what is wrong with it. `whole` names the JSON. */
export function describeIssue({ path, message, code, ...issue }: z.core.$ZodIssue, whole = "the value"): string {
  const unknown = code === "unrecognized_keys" ? (issue as { readonly keys: readonly string[] }).keys[0]! : null;
  const steps = unknown === null ? path : [...path, unknown];
  const place = steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("");
  return `${place.replace(/^\./, "") || whole} ${unknown === null ? message : "is not a known field"}`;
}

/** A field of a JSON file that must be text. */
export const requiredText = z
  .string({ error: ({ input }) => (input === undefined ? "is required" : "must be a string") })
  .min(1, "must not be empty");

/** The https URL of another service; http only on a loopback address, which needs AUTH_PROVIDERS_NETWORKS=loopback. */
export const remoteUrl = requiredText.refine(
  isRemoteUrl,
  "must be an https URL without a user, password or fragment (#)",
);

function isRemoteUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return (protocol === "https:" || isLoopbackUrl(text)) && username + password + hash === "" && !text.endsWith("#");
}

/** `http://127.0.0.1:3000`, `https://localhost` */
export function isLoopbackUrl(text: string): boolean {
  const { protocol, hostname } = new URL(text);
  return /^https?:$/.test(protocol) && isLoopbackHost(hostname);
}

export const isLoopbackHost = (host: string): boolean => /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host);

/** Whether a service is reached on loopback addresses only. */
export const isOnLoopback = ({ baseUrl, host }: { readonly baseUrl: string; readonly host: string }): boolean =>
  baseUrl === "" ? isLoopbackHost(host) : isLoopbackUrl(baseUrl);
