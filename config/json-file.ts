import { z } from "zod";
import { describeFault, parsedBy } from "./config-error.ts";
import { readFile } from "./text-file.ts";

/**
 * A setting that is the path of a JSON file. Parsing the setting reads the file. Each message continues the name of the
 * setting, and says which field is invalid: `JWT_ISSUERS names a file in which [0].audience is required (is "issuers.json")`.
 */
export const jsonFile = <T>(type: z.ZodType<T, any>) =>
  parsedBy(z.string(), (path): T => {
    const { data, error } = type.safeParse(readJson(path));
    if (error) throw new Error(`names a file in which ${describeFault(error)}`);
    return data as T;
  });

function readJson(path: string): unknown {
  const value = tryJson(readFile(path));
  if (value === undefined) throw new Error("names a file that is not JSON");
  return value;
}

/** The value of a JSON text; undefined if it is malformed. */
export function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A field of a JSON file that must be text. */
export const requiredText = z
  .string({ error: ({ input }) => (input === undefined ? "is required" : "must be a string") })
  .min(1, "must not be empty");

/** The https URL of another service; http only on a loopback address. */
export const remoteUrl = requiredText.refine(isRemoteUrl, {
  error: "must be an https URL without a user, password or fragment (#)",
  abort: true,
});

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
