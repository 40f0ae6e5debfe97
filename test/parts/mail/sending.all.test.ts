import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { Webhook } from "standardwebhooks";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Mail } from "../../../parts/mail/kinds.ts";
import { createTransport } from "../../../parts/mail/transports.ts";
import { newCertificate } from "../../support/certificate.ts";
import { consoleClient, textOf } from "../../support/console-client.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { startTestService, type TestService, type TestSettings } from "../../support/service.ts";
import { POLL } from "../../support/until.ts";

const FROM = "no-reply@test.example";

/** A service with these settings, and the lines of its log. */
async function start(
  settings: TestSettings,
  atEnd: (stop: () => Promise<void>) => void = onTestFinished,
): Promise<TestService & { readonly lines: string[] }> {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const service = await startTestService({ GRAPHQL_DOCUMENTS: "none", ...settings }, undefined, log);
  atEnd(() => service.stop());
  return { ...service, lines };
}

const post = (url: string, body: object) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
const forgot = async ({ url }: TestService, email: string) => {
  const response = await post(`${url}/auth/forgot`, { email });
  return { status: response.status, headers: response.headers, json: (await response.json()) as any };
};

/** The tasks of e-mails. */
const jobsOf = async ({ database }: TestService) =>
  (await database.owner.query("select * from graphile_worker.jobs where task_identifier = 'mail'")).rows;
const mailsOf = async ({ database }: TestService) =>
  (await database.owner.query("select * from auth_private.mails")).rows;
/** Lets the next attempt begin at once. */
const hurry = ({ database }: TestService) =>
  database.owner.query("update graphile_worker._private_jobs set run_at = now() where attempts > 0");

const refusal = (responseCode: number) => Object.assign(new Error("not now"), { responseCode });

const mails = await startMailServer();
const service = await start({ ...mails.settings, METRICS: "on" }, afterAll);

describe("a mail server that refuses", () => {
  test("for now is tried again later, with the same link and Message-ID, until the e-mail is sent once", async () => {
    const ids: string[] = [];
    mails.onRecipient = () => {
      throw refusal(451);
    };
    await forgot(service, "ada@example.com");
    await expect.poll(async () => (await jobsOf(service))[0]?.last_error, POLL).toContain("451");
    const [job] = await jobsOf(service);
    expect([job.attempts, job.max_attempts, job.run_at > new Date()]).toEqual([1, 12, true]);
    const [due] = await mailsOf(service);
    ids.push(due.id);
    const { rows: tokens } = await service.database.owner.query("select token_hash from auth_private.one_time_tokens");
    mails.onRecipient = () => {};
    await hurry(service);
    const mail = await mails.next("ada@example.com");
    expect(mail.headers.get("message-id")).toBe(`<${ids[0]}@test.example>`);
    await expect.poll(async () => [await jobsOf(service), await mailsOf(service)], POLL).toEqual([[], []]);
    expect(tokens.length).toBe(1);
    expect((await fetch(linkIn(mail).url)).status).toBe(200);
    expect(mails.mails).toEqual([]);
  });

  test("for good is not tried again", async () => {
    mails.onRecipient = () => {
      throw refusal(550);
    };
    await forgot(service, "bob@example.com");
    await expect.poll(async () => [await jobsOf(service), await mailsOf(service)], POLL).toEqual([[], []]);
    mails.onRecipient = () => {};
    expect(service.lines.join("")).toContain("an e-mail is dropped: the mail server refuses its recipient");
  });

  test("until the link is no longer valid gets no e-mail", async () => {
    mails.onRecipient = () => {
      throw refusal(451);
    };
    await forgot(service, "ada@example.com");
    await expect.poll(async () => (await jobsOf(service))[0]?.last_error, POLL).toContain("451");
    mails.onRecipient = () => {};
    await service.database.owner.query(
      "update auth_private.one_time_tokens set expires_at = now() - interval '1 second'",
    );
    await hurry(service);
    await expect.poll(async () => [await jobsOf(service), await mailsOf(service)], POLL).toEqual([[], []]);
    expect(mails.mails).toEqual([]);
    expect(service.lines.join("")).toContain("not sent in the time that its link is valid");
  });

  test("does not bring back a token that was used meanwhile", async () => {
    mails.onRecipient = () => {
      throw refusal(451);
    };
    await forgot(service, "ada@example.com");
    await expect.poll(async () => (await jobsOf(service))[0]?.last_error, POLL).toContain("451");
    mails.onRecipient = () => {};
    await service.database.owner.query("delete from auth_private.one_time_tokens");
    await hurry(service);
    await expect.poll(async () => await jobsOf(service), POLL).toEqual([]);
    const { rows } = await service.database.owner.query("select from auth_private.one_time_tokens");
    expect([rows, mails.mails]).toEqual([[], []]);
  });

  test("is seen in the metrics", async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    const counted = [...text.matchAll(/^content_service_mails_total\{outcome="(.+)"\} (\d+)$/gm)];
    expect(Object.fromEntries(counted.map(([, outcome, count]) => [outcome, Number(count)]))).toEqual({
      ...{ sent: 1, repeated: 3, refused: 1, late: 2 },
    });
  });
});

const MAIL: Mail = {
  ...{ id: "0b1c6f2e-3c1b-4f43-9d6c-0f7a54a3f1c2", kind: "reset", to: "ann@test.example", language: "en" },
  ...{ subject: "Grüße", text: "One line.\n", html: "<p>One line.</p>" },
};

describe("SMTP", () => {
  test("off loopback needs STARTTLS: nothing is sent to a server without it", async () => {
    const server = await startMailServer({}, onTestFinished);
    const transport = createTransport({ mailUrl: `smtp://0.0.0.0:${server.port}`, mailFrom: FROM })!;
    await expect(transport.send(MAIL)).rejects.toThrow(/STARTTLS|TLS/);
    expect(server.mails).toEqual([]);
    transport.close();
  });

  test("signs in after STARTTLS, and keeps letters of every language", async () => {
    const { privateKey: key, certificate: cert } = newCertificate("localhost");
    const seen: unknown[] = [];
    const server = await startMailServer(
      {
        ...{ key, cert, disabledCommands: [], authOptional: false },
        onAuth: ({ username, password }, { secure }, done) => {
          seen.push({ username, password, secure });
          done(null, { user: username! });
        },
      },
      onTestFinished,
    );
    const url = `smtp://ann%40test.example:p%2Fw@127.0.0.1:${server.port}`;
    const transport = createTransport({ mailUrl: url, mailFrom: FROM })!;
    await transport.send(MAIL);
    expect(seen).toEqual([{ username: "ann@test.example", password: "p/w", secure: true }]);
    expect(await server.next(MAIL.to)).toMatchObject({
      subject: "Grüße",
      text: "One line.\r\n",
      html: "<p>One line.</p>",
    });
    transport.close();
  });
});

test("a webhook gets the e-mail in a signed request, again after an error, with the same id", async () => {
  const received: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  const statuses = [500, 204];
  const receiver = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    received.push({ headers: request.headers, body });
    response.writeHead(statuses.shift() ?? 204).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void receiver.close());
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/mail#${secret}`;
  const service = await start({ MAIL_URL: url, TASK_CONCURRENCY: "1" });
  await forgot(service, "ada@example.com");
  await expect.poll(() => received.length, POLL).toBe(1);
  await expect.poll(async () => (await jobsOf(service))[0]?.last_error, POLL).toContain("500");
  await hurry(service);
  await expect.poll(async () => [received.length, await jobsOf(service)], POLL).toEqual([2, []]);
  const [first, second] = received.map(({ headers, body }) =>
    new Webhook(secret).verify(body, headers as Record<string, string>),
  ) as [any, any];
  expect(second).toMatchObject({
    type: "mail.reset",
    data: { kind: "reset", to: "ada@example.com", from: null, subject: "Reset your password", language: "en" },
  });
  expect(first.data).toEqual(second.data);
  expect(received[0]!.headers["webhook-id"]).toBe(received[1]!.headers["webhook-id"]);
  expect((await fetch(linkIn(second.data).url)).status).toBe(200);
});

test("with MAIL_URL=keep the console shows the e-mails, and neither the log nor the database has a link", async () => {
  const service = await start({ MAIL_URL: "keep", TASK_CONCURRENCY: "1", PARTS: "+console" });
  await forgot(service, "ada@example.com");
  await expect.poll(() => service.lines.join(""), POLL).toContain(`${service.url}/console/mail`);
  const operator = await consoleClient(service, service.service.tokens.issueKey("service_role"));
  const list = await operator.page("/mail");
  expect(textOf(list)).toContain("Reset your password ada@example.com");
  const [, id] = /mail\?id=([\w-]+)/.exec(list)!;
  const link = /href="([^"]+token=[^"]+)"/.exec(await operator.page(`/mail?id=${id}`))![1]!;
  expect((await fetch(link)).status).toBe(200);
  const token = new URL(link).searchParams.get("token")!;
  const { rows } = await service.database.owner.query(
    "select m::text as mail, t::text as token from auth_private.mails as m, auth_private.one_time_tokens as t",
  );
  expect(JSON.stringify(rows) + service.lines.join("")).not.toContain(token);
});

test("without MAIL_URL requests are refused, and the log says once why", async () => {
  const service = await start({});
  const { status, json } = await forgot(service, "ada@example.com");
  expect([status, json.error.code, json.error.message]).toEqual([
    503,
    "NOT_CONFIGURED",
    "this service sends no e-mails: its operator has not set MAIL_URL, or has left out the part mail",
  ]);
  expect(service.lines.filter((line) => line.includes("MAIL_URL")).length).toBe(1);
  expect(await mailsOf(service)).toEqual([]);
});

test("another spelling of a mailbox, which no account can have, gets no e-mail and counts for no limit", async () => {
  const counted = async () => (await service.database.owner.query("select from auth_private.attempts")).rowCount;
  const before = await counted();
  for (const email of [
    ...['"ada"@example.com', '"\\a"da@example.com', "<ada@example.com>", "ada@example.com.", "ada@[203.0.113.7]"],
    ...["ada(1)@example.com", "ada,bob@example.com", "ada@example..com"],
  ]) {
    const response = await post(`${service.url}/auth/forgot`, { email });
    expect([response.status, ((await response.json()) as any).error.details[0].field]).toEqual([400, "email"]);
    expect((await post(`${service.url}/auth/v1/recover`, { email })).status).toBe(400);
  }
  expect(await counted()).toBe(before);
});

test("the limits of a recipient, of a network and of all count known and unknown addresses alike", async () => {
  const settings = { MAIL_URL: "keep", mailsPerRecipient: 2, mailsPerAddress: 3, mailsPerHour: 6 };
  const service = await start({ ...settings, TRUST_PROXY: "127.0.0.1", METRICS: "on" });
  const from = async (network: string, email: string) => {
    const response = await fetch(`${service.url}/auth/forgot`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-forwarded-for": network },
      body: JSON.stringify({ email }),
    });
    return [response.status, response.headers.has("retry-after")];
  };
  const limits = async () =>
    [...(await (await fetch(`${service.url}/metrics`)).text()).matchAll(/limits_hit_total\{limit="(\w+)"\}/g)].map(
      ([, name]) => name,
    );
  const OK = [202, false];
  const LIMITED = [429, true];
  expect(await from("203.0.113.1", "ada@example.com")).toEqual(OK);
  expect(await from("203.0.113.1", "ADA+x@example.com")).toEqual(OK);
  expect(await from("203.0.113.2", "ada+y@example.com")).toEqual(LIMITED);
  expect(await limits()).toEqual(["mailbox_mails"]);
  expect(await from("203.0.113.1", "stranger@example.com")).toEqual(OK);
  expect(await from("203.0.113.1", "bob@example.com")).toEqual(LIMITED);
  expect(await limits()).toEqual(["mailbox_mails", "address_mails"]);
  expect(await from("203.0.113.2", "bob@example.com")).toEqual(OK);
  expect(await from("203.0.113.3", "bob@example.com")).toEqual(OK);
  expect(await from("203.0.113.4", "stranger@example.com")).toEqual(OK);
  expect(await from("203.0.113.5", "carol@example.com")).toEqual(LIMITED);
  expect(await limits()).toEqual(["mailbox_mails", "address_mails", "all_mails"]);
  expect((await mailsOf(service)).length).toBe(6);
});
