import type { AddressInfo } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { afterAll, expect } from "vitest";
import { POLL } from "./until.ts";

/** An e-mail as the server has received it. */
export type ReceivedMail = {
  /** The recipients of the envelope. */
  readonly to: readonly string[];
  readonly headers: ReadonlyMap<string, string>;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
};

/** A mail server on loopback for a test file, which speaks SMTP over TCP. */
export class MailServer {
  readonly mails: ReceivedMail[] = [];
  /** Called for each recipient; throw an error with a `responseCode` to refuse it. */
  onRecipient: (address: string) => void = () => {};
  readonly #server: SMTPServer;

  constructor(options: SMTPServerOptions = {}) {
    this.#server = new SMTPServer({
      authOptional: true,
      // The service keeps connections open, for which the server would wait half a minute.
      closeTimeout: 100,
      disabledCommands: ["STARTTLS"],
      onRcptTo: ({ address }, _session, done) => {
        try {
          this.onRecipient(address);
          done();
        } catch (error) {
          done(error as Error);
        }
      },
      onData: async (stream, { envelope }, done) => {
        const chunks: Buffer[] = [];
        for await (const chunk of stream) chunks.push(chunk as Buffer);
        this.mails.push(
          parse(
            Buffer.concat(chunks).toString(),
            envelope.rcptTo.map(({ address }) => address),
          ),
        );
        done();
      },
      ...options,
    });
    this.#server.on("error", () => {});
  }

  get port(): number {
    return (this.#server.server.address() as AddressInfo).port;
  }

  /** The settings of a service that sends its e-mails here, and has no task but these. */
  get settings() {
    return {
      MAIL_URL: `smtp://127.0.0.1:${this.port}`,
      MAIL_FROM: "Example <no-reply@test.example>",
      TASK_CONCURRENCY: "1",
    };
  }

  /** Waits for the next e-mail to this address, and removes it. `subject` leaves others where they are. */
  async next(address: string, subject = /./): Promise<ReceivedMail> {
    const find = () => this.mails.findIndex((mail) => mail.to.includes(address) && subject.test(mail.subject));
    await expect.poll(find, POLL).toBeGreaterThanOrEqual(0);
    return this.mails.splice(find(), 1)[0]!;
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A mail server that runs until the test file ends, or until `atEnd` closes it. */
export async function startMailServer(
  options?: SMTPServerOptions,
  atEnd: (close: () => Promise<void>) => void = afterAll,
): Promise<MailServer> {
  const server = await new MailServer(options).listen();
  atEnd(() => server.close());
  return server;
}

/** The link in an e-mail, and its token. */
export function linkIn({ text }: Pick<ReceivedMail, "text">): { readonly url: string; readonly token: string } {
  const [url = ""] = /http\S+\?token(_hash)?=\S+/.exec(text) ?? [];
  const { searchParams } = new URL(url);
  return { url, token: (searchParams.get("token") ?? searchParams.get("token_hash"))! };
}

function parse(raw: string, to: readonly string[]): ReceivedMail {
  const [head, body] = splitHead(raw);
  const [, boundary = ""] = /boundary="([^"]+)"/.exec(head.get("content-type") ?? "") ?? [];
  const parts = body
    .split(`--${boundary}`)
    .slice(1, -1)
    .map((part) => splitHead(part.replace(/^\r\n/, "")));
  const partOf = (type: string) => {
    const [partHead, text = ""] = parts.find(([each]) => each.get("content-type")?.startsWith(type)) ?? [];
    return decode(text.replace(/\r\n$/, ""), partHead?.get("content-transfer-encoding") ?? "");
  };
  const subject = decodeWords(head.get("subject") ?? "");
  return { to, headers: head, subject, text: partOf("text/plain"), html: partOf("text/html") };
}

function splitHead(text: string): [Map<string, string>, string] {
  const end = text.indexOf("\r\n\r\n");
  const lines = text
    .slice(0, end)
    .replace(/\r\n[ \t]+/g, " ")
    .split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const [name = "", ...value] = line.split(":");
    return [name.toLowerCase(), value.join(":").trim()];
  });
  return [new Map(headers), text.slice(end + 4)];
}

function decode(text: string, encoding: string): string {
  if (encoding === "base64") return Buffer.from(text, "base64").toString();
  if (encoding !== "quoted-printable") return text;
  const joined = text
    .replace(/=\r\n/g, "")
    .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(joined, "latin1").toString();
}

const decodeWords = (text: string) =>
  text.replace(/=\?UTF-8\?([QB])\?([^?]*)\?=\s*/gi, (_, kind: string, word: string) =>
    decode(word.replaceAll("_", " "), kind.toUpperCase() === "B" ? "base64" : "quoted-printable"),
  );
