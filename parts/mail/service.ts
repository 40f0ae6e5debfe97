import { createHmac } from "node:crypto";
import type { TaskList } from "graphile-worker";
import type { Logger } from "pino";
import { hashOf } from "../../identity/secrets.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { type AuthFunctions, bytes, seconds } from "../../rest-gateway/auth/functions.ts";
import type { CreateMails, MailData, MailSettings, Mails } from "../../rest-gateway/auth/mail/mails.ts";
import { LINK_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { deriveKey } from "../../rest-gateway/auth/secret-box.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { type Mail, type MailKind, type MailValues, otpTypeOf } from "./kinds.ts";
import type { DueMail } from "./repository.ts";
import { transportSettings } from "./settings.ts";
import { Templates } from "./templates.ts";
import { createTransport, type Transport } from "./transports.ts";

/** Seconds for which e-mails are kept for the console, and those that could not be sent. */
const RETENTION = 7 * 24 * 3600;

/** In place of an address or a device that is not known. */
const UNKNOWN = "–";

/** How often an e-mail is tried; tasks.add_mail says the same to the queue. */
const MAX_ATTEMPTS = 12;

/** Null if it is sent; "too late" if its link is no longer valid. */
type BegunMail =
  | null
  | ({ readonly outcome: "due"; readonly userId: string | number | null; readonly hasHook: boolean } & DueMail)
  | { readonly outcome: "too late"; readonly kind: MailKind };

type KeptMail = DueMail & { readonly id: string; readonly sentAt: string };

/** E-mails: requests add them in their transaction, and a task sends them. */
export class MailService {
  readonly #functions: AuthFunctions;
  readonly settings: MailSettings;
  /** Whether e-mails are sent or kept. */
  readonly isOn: boolean;
  readonly isKept: boolean;
  readonly #url: string;
  readonly #log: Logger;
  readonly #templates: Templates;
  readonly #transport: Transport | null;
  /** E-mails by what became of them. */
  readonly #outcomes = new Map<string, number>();
  readonly #linkKey: Buffer;

  /** Throws ConfigError for a template that is not valid. */
  constructor({ settings, functions, folder, hasTasks, secret, url, log }: Parameters<CreateMails>[0]) {
    this.settings = settings;
    this.#functions = functions;
    const transport = transportSettings(settings);
    this.isOn = hasTasks && transport.mailUrl !== "";
    this.isKept = this.isOn && transport.mailUrl === "keep";
    this.#url = url;
    this.#log = log;
    this.#templates = new Templates(folder);
    this.#transport = this.isOn ? createTransport(transport) : null;
    this.#linkKey = deriveKey(secret, "links in e-mails");
  }

  /** The task that sends one e-mail, for the queue. */
  get tasks(): TaskList {
    return { mail: (payload, { job }) => this.#run((payload as { readonly id: string }).id, job.attempts) };
  }

  /** Says once whether e-mails are sent. */
  start(): void {
    if (this.isOn) return;
    this.#log.info(
      transportSettings(this.settings).mailUrl === ""
        ? "no e-mails are sent: resets of passwords and other sign-ins by e-mail need MAIL_URL"
        : "no e-mails are sent, although MAIL_URL is set: they need the module tasks",
    );
  }

  registerMetrics(metrics: Metrics): void {
    metrics.counter({
      name: "mails_total",
      about:
        "E-mails by outcome: sent, handed over to a hook, kept for the console, refused by the mail server, late if the link is no longer valid, dropped after twelve attempts, or repeated if one is tried again.",
      labels: ["outcome"],
      read: () => [...this.#outcomes].map(([outcome, value]) => ({ labels: { outcome }, value })),
    });
  }

  /** Deletes what has expired. */
  async purge(): Promise<void> {
    const values = [this.#functions.now(), seconds(RETENTION)];
    await this.#functions.call("purge_mails($1::timestamptz, $2::interval)", values);
  }

  close(): void {
    this.#transport?.close();
  }

  /** The e-mails that are kept, newest first, as they would be sent. */
  async kept(total: number): Promise<readonly (Mail & { readonly sentAt: string })[]> {
    const mails = await this.#functions.call<readonly KeptMail[]>("list_mails($1::integer)", [String(total)]);
    return mails.map((mail) => ({ ...this.#render(mail.id, mail), sentAt: mail.sentAt }));
  }

  /** Rejects if it is to be tried again. */
  async #run(id: string, attempts: number): Promise<void> {
    const count = (outcome: string) => this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    const begun = await this.#begin(id);
    if (begun === null) return;
    const about = { mail: id, kind: begun.kind, attempts };
    if (begun.outcome === "too late") {
      count("late");
      return this.#log.error(about, "an e-mail was not sent in the time that its link is valid");
    }
    try {
      const mail = this.#render(id, begun);
      if (begun.hasHook && (await this.#handOver(mail, begun))) return void count("handed over");
      const isSent = (await this.#transport?.send(mail)) ?? true;
      count(this.#transport === null ? "kept" : isSent ? "sent" : "refused");
      if (!isSent) this.#log.error(about, "an e-mail is dropped: the mail server refuses its recipient");
    } catch (error) {
      const isLast = attempts >= MAX_ATTEMPTS;
      count(isLast ? "dropped" : "repeated");
      const outcome = isLast ? "is dropped" : "will be tried again";
      const { message: reason } = error as Error;
      this.#log[isLast ? "error" : "warn"]({ ...about, reason }, `an e-mail cannot be sent, and ${outcome}`);
      if (!isLast) throw error;
    }
    const values = [id, String(this.#transport === null), this.#functions.now()];
    await this.#functions.call("end_mail($1::uuid, $2::boolean, $3::timestamptz)", values);
    if (this.#transport === null)
      this.#log.info({ ...about, url: `${this.#url}/console/mail` }, "an e-mail is kept: the console shows it");
  }

  /** Decides what is sent, and stores the token and the code. */
  #begin(id: string): Promise<BegunMail> {
    const hashes = [bytes(hashOf(this.#tokenOf(id))), bytes(this.hashOfCode(this.#codeOf(id)))];
    const values = [id, ...hashes, this.#functions.now(), seconds(this.settings.mailLinkTtl)];
    const types = "$1::uuid, $2::bytea, $3::bytea, $4::timestamptz, $5::interval";
    return this.#functions.call(`begin_mail(${types})`, values);
  }

  /** Gives the e-mail to the hook send_message. Returns true if the application sends it: it is no longer due then. */
  #handOver(mail: Mail, { data, userId, ...due }: DueMail & { readonly userId: string | number | null }) {
    const values = this.#valuesOf(mail.id, { ...due, data });
    const message = { ...mail, userId, returnTo: data.returnTo ?? null, values };
    return this.#functions.call<boolean>("hand_over_mail($1::uuid, $2::jsonb)", [mail.id, JSON.stringify(message)]);
  }

  #render(id: string, due: DueMail): Mail {
    const { kind, email, data } = due;
    // The page of an application gets the links of both as "confirm".
    const template = kind === "confirm" && data.from !== undefined ? "confirm-change" : kind;
    const rendered = this.#templates.render(template, data.languages ?? [], this.#valuesOf(id, due));
    return { id, kind: template, to: email, ...rendered };
  }

  #valuesOf(id: string, { kind, email, data }: DueMail): MailValues {
    const token = this.#tokenOf(id);
    return {
      email,
      token,
      code: kind === "sign-in" ? this.#codeOf(id) : "",
      service: new URL(this.#url).host,
      url: this.#url,
      link: this.#linkOf(kind, token, data),
      tokenHash: token,
      type: otpTypeOf(kind, data),
      redirectTo: data.returnTo ?? "",
      minutes: String(Math.floor(this.settings.mailLinkTtl / 60)),
      newEmail: data.newEmail ?? "",
      time: data.at === undefined ? "" : `${new Date(data.at).toISOString().slice(0, 16).replace("T", " ")} UTC`,
      address: data.address ?? UNKNOWN,
      device: data.device ?? UNKNOWN,
    };
  }

  /**
   * A page of the service, or of the application: `https://app.example.com/account/reset?token=…&token_hash=…&type=recovery`. An
   * application that has requested the e-mail over another API gets every type at one page, as its guides have it:
   * `https://app.example.com/auth/confirm?token_hash=…&type=email&redirect_to=…`
   */
  #linkOf(kind: MailKind, token: string, data: MailData): string {
    const { application, returnTo } = data;
    const { authPagesUrl } = this.settings;
    const type = otpTypeOf(kind, data);
    const query = new URLSearchParams(application && type !== "" && authPagesUrl !== "" ? {} : { token });
    if (authPagesUrl === "") {
      if (application && returnTo && type !== "") {
        query.set("wire", application.wire);
        query.set("redirect_to", returnTo);
      }
      return `${this.#url}${LINK_PATH}?${query}`;
    }
    if (type !== "") {
      query.set("token_hash", token);
      query.set("type", type);
    }
    if (returnTo) {
      const { origin, pathname, search, hash } = new URL(returnTo);
      query.set("redirect_to", returnTo);
      if (origin === new URL(authPagesUrl).origin) query.set("next", pathname + search + hash);
    }
    return `${authPagesUrl.replace(/\/$/, "")}/${application && type !== "" ? "confirm" : kind}?${query}`;
  }

  /**
   * 256 bits, which cannot be guessed without the key. They are derived, so that the database holds only the hash and each attempt
   * sends the same link.
   */
  #tokenOf(id: string): string {
    return createHmac("sha256", this.#linkKey).update(id).digest("base64url");
  }

  /** Six digits. */
  #codeOf(id: string): string {
    const bytes = createHmac("sha256", this.#linkKey).update(`code ${id}`).digest();
    return String(bytes.readUIntBE(0, 6) % 1_000_000).padStart(6, "0");
  }

  /** How a browser shows that it has registered an account. */
  markOf(userId: string): string {
    return createHmac("sha256", this.#linkKey).update(`registration ${userId}`).digest("base64url");
  }

  /** A keyed hash: there are so few codes that another one would be reversed at once. */
  hashOfCode(code: string): Buffer {
    return createHmac("sha256", this.#linkKey).update(`hash of code ${code}`).digest();
  }
}

/** What the part brings: the interface of the core, and the service behind it. */
export type OwnMails = Mails & { readonly service: MailService };

/** The routes of the part are served only where it has created the service. */
export const mailOf = ({ mails }: Pick<Auth, "mails">): MailService => (mails as OwnMails).service;
