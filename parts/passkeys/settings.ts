import { z } from "zod";
import type { DeclaredSettings } from "../../config/declared.ts";
import { setting } from "../../config/settings.ts";

/** `example.com` */
const domainName = z
  .string()
  .regex(/^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.(?!$)|$))*$/, "must be a domain such as example.com, in lower case");

const settings = {
  PASSKEY_DOMAIN: setting(
    domainName,
    "",
    "Domain that passkeys belong to: that of BASE_URL, the default, or a domain above it, so that pages of its other subdomains can use them too. Another domain makes all passkeys useless.",
  ),
};

export const PASSKEYS: DeclaredSettings<typeof settings> = {
  settings,
  conflicts: ({ baseUrl, passkeyDomain }) => [
    [!hasDomain(baseUrl, passkeyDomain), "PASSKEY_DOMAIN must be that of BASE_URL, or one above it"],
  ],
};

/** Whether the domain is that of the URL, or one above it, or none: `hasDomain("https://api.example.com", "example.com")` */
const hasDomain = (url: string, domain: string): boolean =>
  domain === "" || (url !== "" && `.${new URL(url).hostname}`.endsWith(`.${domain}`));
