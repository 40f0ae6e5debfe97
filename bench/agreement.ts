import { once } from "node:events";
import { connect } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { type Case, type HttpRequest, isGood } from "./case.ts";
import { AnswerReader, bytesOf, type HttpAnswer, numbered } from "./http-messages.ts";
import type { RunningServer } from "./servers.ts";

/** Returns the JSON of the response to the n-th request of a case. Throws after an unexpected response. */
export async function ask(server: RunningServer, benchCase: Case, n: number): Promise<unknown> {
  const requests = benchCase.requests();
  const answer = await send(requests[n % requests.length]!, server);
  const { status, body } = answer;
  if (isGood(answer, benchCase)) return body === "" ? null : JSON.parse(body);
  throw new Error(`${server.name}, ${benchCase.name}: ${status} ${body.slice(0, 1000)}\n${server.recentOutput()}`);
}

/** Sends the same bytes that the load tool sends. */
export async function send(request: HttpRequest, { name, address, recentOutput }: RunningServer): Promise<HttpAnswer> {
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
    throw new Error(`the server "${name}" closed the connection: ${recentOutput()}`);
  } finally {
    socket.destroy();
  }
}

/** Throws unless all servers give the same response, apart from the fields whose values differ by server. */
export const assertAgreement = (servers: readonly RunningServer[], benchCase: Case): Promise<void> =>
  assertSameAnswers(servers.map((server) => ({ server, benchCase })));

/** A server, and the case with the requests that it understands. */
export type ServerCase = { readonly server: RunningServer; readonly benchCase: Case };

/** The same check for servers that receive different requests. */
export async function assertSameAnswers(serverCases: readonly ServerCase[]): Promise<void> {
  const answers = await Promise.all(serverCases.map(({ server, benchCase }) => ask(server, benchCase, 7)));
  const [first, ...others] = answers.map((answer, i) => comparable(answer, serverCases[i]!.benchCase.ownFields));
  for (const [i, other] of others.entries()) {
    if (isDeepStrictEqual(first, other)) continue;
    const [{ server, benchCase }, rival] = [serverCases[0]!, serverCases[i + 1]!];
    throw new Error(
      `${benchCase.name}: the responses of the servers differ\n` +
        `${server.name}: ${shown(first)}\n${rival.server.name}: ${shown(other)}`,
    );
  }
}

const shown = (answer: unknown) => JSON.stringify(answer).slice(0, 2000);

/** `{ id: 7, created_at: "2020-01-01T01:00:00+00:00" }` → `{ id: "number", created_at: "2020-01-01T01:00:00.000Z" }` */
const comparable = (answer: unknown, ownFields: readonly string[]): unknown =>
  JSON.parse(JSON.stringify(answer), (key, value) => (ownFields.includes(key) ? typeof value : normalizeTime(value)));

const TIME = /^\d{4}-\d\d-\d\dT/;

/** Servers write the same time in different formats. JavaScript has only milliseconds. */
const normalizeTime = (value: unknown) =>
  typeof value === "string" && TIME.test(value) ? new Date(value).toISOString() : value;
