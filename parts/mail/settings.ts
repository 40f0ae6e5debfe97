import { z } from "zod";
import type { Config } from "../../config/config.ts";
import { type DeclaredSettings, valuesOf } from "../../config/declared.ts";
import { isLoopbackHost } from "../../config/json-file.ts";
import { moduleSettings } from "../../config/modules.ts";
import { orUnset } from "../../config/setting-types.ts";
import { setting } from "../../config/settings.ts";

/** The secret of a webhook, of 24 to 64 bytes. Source: Standard Webhooks, "Signature scheme". */
const SECRET = /^#whsec_[A-Za-z0-9+/]{32,86}={0,2}$/;

/** `keep`, the URL of a mail server, or that of a webhook and its secret: `https://example.com/mails#whsec_…`. */
const mailUrl = z.string().refine((text) => {
  if (text === "keep") return true;
  const url = URL.parse(text);
  if (url === null || url.hostname === "") return false;
  if (url.protocol === "smtp:" || url.protocol === "smtps:")
    return /^\/?$/.test(url.pathname) && url.search === "" && url.hash === "";
  // With a user, each attempt to send would fail, with an error that contains the URL.
  if (!SECRET.test(url.hash) || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname));
}, "must be smtp://, smtps:// or https://…#whsec_ (without a user) and 24 to 64 bytes in base64, with a host, or keep");

/** `no-reply@example.com` or `Example <no-reply@example.com>` */
const mailbox = z
  .string()
  .regex(
    /^(?:[^<>@",;:\\\p{Cc}]{1,100} <[^\s<>@]{1,64}@[^\s<>@]{1,189}>|[^\s<>@]{1,64}@[^\s<>@]{1,189})$/u,
    "must be an address, or a name and an address: Example <no-reply@example.com>",
  );

const settings = {
  MAIL_URL: setting(
    orUnset(mailUrl),
    "",
    "How e-mails are sent: smtp://user:password@host:587 (STARTTLS is required), smtps://user:password@host, or https://…#whsec_… for a webhook, whose requests are signed with this secret. keep: they are not sent, and /console/mail shows them. When unset, keep with the embedded database, otherwise none.",
  ),
  MAIL_FROM: setting(
    orUnset(mailbox),
    "",
    "Sender of e-mails: an address, or Example <no-reply@example.com>. Required with smtp:// and smtps://.",
  ),
};

export const MAIL: DeclaredSettings<typeof settings> = {
  settings,
  conflicts({ mailUrl, mailFrom, emailConfirm, databaseUrl, ...values }) {
    const { hasAuth, hasTasks } = moduleSettings(values);
    const isOn = hasTasks && (mailUrl !== "" || databaseUrl === "");
    return [
      [/^smtps?:/.test(mailUrl) && mailFrom === "", "MAIL_URL requires MAIL_FROM, the sender of the e-mails"],
      [values.migrate === "off" && mailUrl !== "", "MAIL_URL requires MIGRATE=on"],
      [
        hasAuth && emailConfirm !== "off" && !isOn,
        `EMAIL_CONFIRM=${emailConfirm} requires MAIL_URL and the module tasks, which send the e-mails`,
      ],
    ];
  },
};

export type TransportSettings = ReturnType<typeof transportSettings>;

/** How e-mails are sent; `mailUrl` is "" if they are not. */
export function transportSettings(config: Pick<Config, "embedded">) {
  const { mailUrl, ...sender } = valuesOf(config, MAIL);
  return { mailUrl: mailUrl || (config.embedded ? "keep" : ""), ...sender };
}
