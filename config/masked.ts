import { type Config, valueIn } from "./config.ts";
import { SECRETS } from "./setting-types.ts";

const HIDDEN = "********";

/** The settings by name, for operators: secrets are hidden, and so are passwords in URLs. */
export const maskedSettings = (config: Config): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.keys(config.known).map((name) => [name, masked(name, valueIn(config, name))]));

function masked(name: string, value: unknown): unknown {
  if (!SECRETS.test(name) || value === "") return value;
  if (Array.isArray(value)) return value.map((each) => masked(name, each));
  if (!/_UR[LI]S?$/.test(name) || typeof value !== "string" || !URL.canParse(value)) return HIDDEN;
  const url = new URL(value);
  if (url.password !== "") url.password = HIDDEN;
  // That of a webhook.
  url.hash = url.hash.replace(/^#whsec_.*/, HIDDEN);
  // Parameters such as sslkey and sslpassword.
  for (const parameter of url.searchParams.keys())
    if (/key|pass/i.test(parameter)) url.searchParams.set(parameter, HIDDEN);
  return url.href;
}
