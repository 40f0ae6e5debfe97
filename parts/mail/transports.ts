import { createHmac } from "node:crypto";
import { isLoopbackHost } from "../../config/json-file.ts";
import type { Mail } from "./kinds.ts";
import type { TransportSettings } from "./settings.ts";

/** Sends e-mails. */
export type Transport = {
  /** Returns false if the server refuses the recipient for good. Rejects if the e-mail may be accepted later. */
  send(mail: Mail): Promise<boolean>;
  close(): void;
};

/** The transport of MAIL_URL; null if e-mails are kept. */
export function createTransport(settings: TransportSettings): Transport | null {
  const { mailUrl } = settings;
  if (mailUrl === "keep") return null;
  return /^https?:/.test(mailUrl) ? webhook(settings) : smtp(settings);
}

/** Milliseconds. */
const CONNECT_TIMEOUT = 10_000;
const SILENCE_TIMEOUT = 30_000;
const WEBHOOK_TIMEOUT = 15_000;
const MAX_CONNECTIONS = 2;

/** SMTP with a pool of connections. nodemailer is loaded with the first e-mail. */
function smtp({ mailUrl, mailFrom }: TransportSettings): Transport {
  const url = new URL(mailUrl);
  const isLoopback = isLoopbackHost(url.hostname);
  const create = async () => {
    const { createTransport } = await import("nodemailer");
    return createTransport({
      pool: true,
      maxConnections: MAX_CONNECTIONS,
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port) || (url.protocol === "smtps:" ? 465 : 587),
      secure: url.protocol === "smtps:",
      // Otherwise a server in between could remove STARTTLS, and read the password and the links.
      requireTLS: !isLoopback,
      tls: { rejectUnauthorized: !isLoopback },
      ...(url.username !== "" && {
        auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
      }),
      connectionTimeout: CONNECT_TIMEOUT,
      greetingTimeout: CONNECT_TIMEOUT,
      socketTimeout: SILENCE_TIMEOUT,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
  const domain = mailFrom.replace(/^.*@|>$/g, "");
  let created: ReturnType<typeof create> | undefined;
  return {
    send: async ({ id, to, language, subject, text, html }) => {
      created ??= create();
      const transport = await created;
      const message = {
        from: mailFrom,
        to: { name: "", address: to },
        ...{ subject, text, html },
        // The same in each attempt, so that the mailbox can recognize an e-mail that arrives twice.
        messageId: `<${id}@${domain}>`,
        headers: { "Auto-Submitted": "auto-generated", "Content-Language": language },
      };
      try {
        await transport.sendMail(message);
        return true;
      } catch (error) {
        const { responseCode = 0, command = "" } = error as { responseCode?: number; command?: string };
        if (responseCode >= 500 && /^RCPT/.test(command)) return false;
        throw error;
      }
    },
    close: () => void created?.then((transport) => transport.close()).catch(() => {}),
  };
}

/** A request to the application's own sender, signed as Standard Webhooks describes. */
function webhook({ mailUrl, mailFrom }: TransportSettings): Transport {
  const key = Buffer.from(new URL(mailUrl).hash.slice("#whsec_".length), "base64");
  return {
    send: async (mail) => {
      const timestamp = Math.floor(Date.now() / 1000);
      const body = JSON.stringify({
        type: `mail.${mail.kind}`,
        timestamp: new Date(timestamp * 1000).toISOString(),
        data: { ...mail, from: mailFrom || null },
      });
      const signature = createHmac("sha256", key).update(`${mail.id}.${timestamp}.${body}`).digest("base64");
      const response = await fetch(mailUrl, {
        method: "POST",
        body,
        redirect: "error",
        signal: AbortSignal.timeout(WEBHOOK_TIMEOUT),
        headers: {
          "content-type": "application/json",
          "webhook-id": mail.id,
          "webhook-timestamp": String(timestamp),
          "webhook-signature": `v1,${signature}`,
        },
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`the webhook returned status ${response.status}`);
      return true;
    },
    close: () => {},
  };
}
