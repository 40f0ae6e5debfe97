import { once } from "node:events";
import { connect } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { type Case, type HttpRequest, isGood } from "./case.ts";
import { AnswerReader, bytesOf, type HttpAnswer, numbered } from "./http-messages.ts";
import type { RunningServer } from "./servers.ts";

/** The JSON of the answer to the n-th request of a case; throws unless it is a good one. */
export async function ask(server: RunningServer, asked: Case, n: number): Promise<unknown> {
  const requests = asked.requests();
  const answer = await send(requests[n % requests.length]!, server);
  const { status, body } = answer;
  if (isGood(answer, asked)) return body === "" ? null : JSON.parse(body);
  throw new Error(`${server.name}, ${asked.name}: ${status} ${body.slice(0, 1000)}\n${server.lastWords()}`);
}

/** Sends the same bytes that the load tool sends. */
export async function send(request: HttpRequest, { name, address, lastWords }: RunningServer): Promise<HttpAnswer> {
  const { hostname, port } = new URL(address);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    await once(socket, "connect");
    socket.write(numbered(bytesOf(request, address)));
    const reader = new AnswerReader(Number.POSITIVE_INFINITY);
    for await (const bytes of socket) {
      const answer = reader.read(bytes as Buffer);
      if (answer !== null) return answer;
    }
    throw new Error(`the server "${name}" has hung up: ${lastWords()}`);
  } finally {
    socket.destroy();
  }
}

/** Throws unless all servers answer alike, but for the fields that each gives a value of its own. */
export const assertAgreement = (servers: readonly RunningServer[], asked: Case): Promise<void> =>
  assertAlike(servers.map((server) => ({ server, asked })));

/** A server, and the case in the words that it understands. */
export type Question = { readonly server: RunningServer; readonly asked: Case };

/** The same where each is asked in its own words. */
export async function assertAlike(questions: readonly Question[]): Promise<void> {
  const answers = await Promise.all(questions.map(({ server, asked }) => ask(server, asked, 7)));
  const [first, ...others] = answers.map((answer, i) => withoutOwn(answer, questions[i]!.asked.ownFields));
  for (const [i, other] of others.entries()) {
    if (isDeepStrictEqual(first, other)) continue;
    const [{ server, asked }, rival] = [questions[0]!, questions[i + 1]!];
    throw new Error(
      `${asked.name}: the servers do not agree\n` +
        `${server.name}: ${shown(first)}\n${rival.server.name}: ${shown(other)}`,
    );
  }
}

const shown = (answer: unknown) => JSON.stringify(answer).slice(0, 2000);

/** `{ id: 7, created_at: "2020-01-01T01:00:00+00:00" }` → `{ id: "number", created_at: "2020-01-01T01:00:00.000Z" }` */
const withoutOwn = (answer: unknown, ownFields: readonly string[]): unknown =>
  JSON.parse(JSON.stringify(answer), (key, value) => (ownFields.includes(key) ? typeof value : sameTime(value)));

const TIME = /^\d{4}-\d\d-\d\dT/;

/** One time may be written in several ways, and JavaScript knows milliseconds alone. */
const sameTime = (value: unknown) =>
  typeof value === "string" && TIME.test(value) ? new Date(value).toISOString() : value;
